package inbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

// listOptions are the flags of the verb.
type listOptions struct {
	filter
	n      int
	folder string
}

func newListCommand(c *cli.Env) *cobra.Command {
	var o listOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the latest events, the newest last",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return runList(c, o)
		},
	})
	o.flags(cmd)
	cmd.Flags().IntVarP(&o.n, "number", "n", 30, "how many events at most")
	cmd.Flags().StringVar(&o.folder, "folder", queue.Pending, "pending, processing, done or failed")
	return cmd
}

func runList(c *cli.Env, o listOptions) error {
	folders := []string{queue.Pending, queue.Processing, queue.Done, queue.Failed}
	if err := cli.OneOf("folder", o.folder, folders...); err != nil {
		return err
	}
	q, err := openQueue(c)
	if err != nil {
		return err
	}
	if o.n < 1 {
		return cli.Usage(fmt.Errorf("--number must be at least 1, not %d", o.n))
	}
	if o.Since, err = cli.Time(o.since, time.Now()); err != nil {
		return cli.Usage(err)
	}
	o.Folders = []string{o.folder}
	entries, err := q.List(o.Filter, queue.Page{Size: o.n, Newest: true})
	if err != nil {
		return err
	}
	slices.Reverse(entries)
	events := []event{}
	var rows [][]console.Cell
	for _, e := range entries {
		it, err := q.Load(e)
		if errors.Is(err, os.ErrNotExist) {
			continue // the Brain was quicker
		}
		if err != nil {
			return err
		}
		events = append(events, asEvent(it))
		rows = append(rows, mailRow(c, it, true))
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"events": events})
	}
	if len(rows) == 0 {
		c.Out.Printf("no events in %s\n", o.folder)
		return nil
	}
	c.Out.Table([]string{"TIME", "AGE", "TYPE", "SOURCE", "SUMMARY"}, rows)
	return tellRest(c, q, o, len(rows))
}

// tellRest says on standard error that there are more events than were listed.
func tellRest(c *cli.Env, q queue.Dir, o listOptions, listed int) error {
	if listed < o.n {
		return nil
	}
	of := ""
	if o.Type == "" && o.Source == "" && o.since == "" {
		stats, err := q.Stats()
		if err != nil {
			return err
		}
		files := stats[o.folder].Files
		if files <= int64(listed) {
			return nil
		}
		of = " of " + console.Thousands(files)
	}
	c.Err.Printf("%s\n", c.Err.Paint(console.Dim, fmt.Sprintf("the latest %d%s; -n shows more", listed, of)))
	return nil
}
