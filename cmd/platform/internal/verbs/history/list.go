package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/history/story"
)

// maxPage is how many entries are asked for at once.
const maxPage = 1000

// listOptions are the flags of the verb.
type listOptions struct {
	filter
	limit  int
	before uint64
	follow bool
}

func newListCommand(c *cli.Env) *cobra.Command {
	var o listOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "history",
		Short: "Tell what happened, and who allowed it",
		Long: `Tell what happened, the newest last: one line for each call, with who allowed it, and
one for each other event. "platform history show CALL_ID" tells all of one call.

The history is an index of the journal, and goes back as far as that. Where no platform
runs on the data folder, what the last one left is read.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: asking(c, func(ctx context.Context, s source, _ []string) error {
			return runList(ctx, c, s, o)
		}),
	})
	o.flags(cmd)
	cmd.Flags().IntVarP(&o.limit, "limit", "n", 30, "how many entries at most")
	cmd.Flags().Uint64Var(&o.before, "before", 0, "only entries before the one with this id, for the next page")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what comes, until Ctrl-C")
	return cmd
}

func runList(ctx context.Context, c *cli.Env, s source, o listOptions) error {
	f, err := o.read(time.Now())
	if err != nil {
		return err
	}
	if o.limit < 1 || o.limit > maxPage {
		return cli.Usage(fmt.Errorf("--limit is from 1 to %d, not %d", maxPage, o.limit))
	}
	if _, runs := s.(online); o.follow && !runs {
		return cli.Hint(errors.New("no platform runs here, so nothing comes"), "leave out --follow, or start the platform")
	}
	newest, err := s.List(ctx, store.Filter{}, store.Page{Limit: 1})
	if err != nil {
		return err
	}
	page, err := s.List(ctx, f, store.Page{Limit: o.limit, Before: o.before})
	if err != nil {
		return err
	}
	incomplete(c, page.Behind)
	if o.follow {
		return follow(ctx, c, s, f, page.Entries, newest.Entries)
	}
	if c.JSON {
		return c.PrintJSON(page)
	}
	if len(page.Entries) == 0 {
		c.Out.Printf("the history has no such entries\n")
		return nil
	}
	if n := len(page.Entries); n == o.limit {
		c.Err.Printf("%s\n", c.Err.Paint(console.Dim, fmt.Sprintf("older ones: --before %d", page.Entries[n-1].ID)))
	}
	var rows [][]console.Cell
	for _, e := range slices.Backward(page.Entries) {
		rows = append(rows, cells(&e))
	}
	c.Out.Table([]string{"TIME", "WHAT", "FROM", "OUTCOME", "BY", "TOOK", "CALL", "SUMMARY"}, rows)
	return nil
}

// cells are an entry as a row of a table.
func cells(e *entry.Entry) []console.Cell {
	return []console.Cell{
		{Text: console.Clock(e.Time, time.Now()), Style: console.Dim}, {Text: what(e)}, {Text: story.From(e)},
		{Text: string(e.Outcome), Style: outcomeStyle(e.Outcome)}, {Text: by(e), Style: console.Bold}, {Text: took(e)}, {Text: e.CallID, Style: console.Dim}, {Text: told(e)},
	}
}

// lookEvery is how often a history that is followed is asked for what came.
const lookEvery = 500 * time.Millisecond

// follow shows what was there, and then what comes, until ctx ends.
func follow(ctx context.Context, c *cli.Env, s source, f store.Filter, there, newest []entry.Entry) error {
	last := uint64(1)
	for _, e := range newest {
		last = e.ID
	}
	there = slices.Clone(there)
	slices.Reverse(there)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for _, e := range there {
			last = max(last, e.ID)
			if err := showLine(c, &e); err != nil {
				return err
			}
		}
		if len(there) < maxPage {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		page, err := s.List(ctx, f, store.Page{Limit: maxPage, After: last})
		if err != nil {
			return err
		}
		there = page.Entries
	}
}

// showLine writes an entry in columns that fit most of them.
func showLine(c *cli.Env, e *entry.Entry) error {
	if c.JSON {
		return c.PrintLine(e)
	}
	var line strings.Builder
	used := 0
	all := cells(e)
	for i, width := range []int{8, 32, 8, 7, 8, 7, 26} {
		text := console.Safe(all[i].Text)
		pad := strings.Repeat(" ", max(width-console.Width(text), 0)+2)
		line.WriteString(c.Out.Paint(all[i].Style, text) + pad)
		used += console.Width(text) + len(pad)
	}
	c.Out.Printf("%s%s\n", line.String(), c.Out.Fit(console.Safe(all[7].Text), used))
	return c.Out.Err()
}
