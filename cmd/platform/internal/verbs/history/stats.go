package history

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

// statsOptions are the flags of the verb.
type statsOptions struct {
	filter
	by string
}

func newStatsCommand(c *cli.Env) *cobra.Command {
	var o statsOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "stats",
		Short: "Count calls that ended, with errors, durations and approvals",
		Args:  cli.Args(cobra.NoArgs),
		RunE: asking(c, func(ctx context.Context, s source, _ []string) error {
			return runStats(ctx, c, s, o)
		}),
	})
	o.flags(cmd)
	cmd.Flags().StringVar(&o.by, "by", "tool", "tool, server, caller or hour")
	return cmd
}

func runStats(ctx context.Context, c *cli.Env, s source, o statsOptions) error {
	if err := cli.OneOf("by", o.by, store.Groups...); err != nil {
		return err
	}
	f, err := o.read(time.Now())
	if err != nil {
		return err
	}
	stats, err := s.Stats(ctx, o.by, f)
	if err != nil {
		return err
	}
	if c.JSON {
		if stats == nil {
			stats = []store.Stat{}
		}
		return c.PrintJSON(map[string]any{"stats": stats})
	}
	if len(stats) == 0 {
		c.Out.Printf("the history has no such calls\n")
		return nil
	}
	var rows [][]console.Cell
	for _, g := range stats {
		key, failed := g.Key, console.Plain
		if t, err := time.Parse(time.RFC3339, key); o.by == "hour" && err == nil {
			key = t.Local().Format("2006-01-02 15:00")
		}
		if g.Errors > 0 {
			failed = console.Red
		}
		rows = append(rows, []console.Cell{
			{Text: key}, {Text: fmt.Sprint(g.Calls)}, {Text: fmt.Sprint(g.Errors), Style: failed}, {Text: console.Millis(g.P50MS)}, {Text: console.Millis(g.P95MS)},
			{Text: console.Millis(g.P99MS)}, {Text: console.Bytes(g.Bytes)}, {Text: fmt.Sprint(g.Asked)}, {Text: fmt.Sprint(g.Granted)},
		})
	}
	heading := map[string]string{"tool": "TOOL", "server": "SERVER", "caller": "CALLER", "hour": "HOUR"}[o.by]
	c.Out.Table([]string{heading, "CALLS", "ERRORS", "P50", "P95", "P99", "BYTES", "ASKED", "GIVEN"}, rows)
	return nil
}
