package inbox

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

func newFollowCommand(c *cli.Env) *cobra.Command {
	var f filter
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "follow",
		Short: "Show events as they come, until Ctrl-C",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runFollow(cmd.Context(), c, f)
		},
	})
	f.flags(cmd)
	return cmd
}

func runFollow(ctx context.Context, c *cli.Env, f filter) error {
	q, err := openQueue(c)
	if err != nil {
		return err
	}
	from := time.Now()
	if f.since != "" {
		if from, err = cli.Time(f.since, from); err != nil {
			return cli.Usage(err)
		}
	}
	for e, err := range q.Follow(ctx, from) {
		if err != nil {
			return err
		}
		it, err := q.Load(e)
		if errors.Is(err, os.ErrNotExist) || err == nil && !wanted(it, f.Filter) {
			continue
		}
		if err != nil {
			return err
		}
		if c.JSON {
			if err := c.PrintLine(asEvent(it)); err != nil {
				return err
			}
			continue
		}
		mailLine(c, it)
	}
	return ctx.Err()
}

// wanted reports whether an event that is followed passes the filter.
func wanted(it *queue.Item, f queue.Filter) bool {
	if f.Source != "" && (it.Envelope == nil || it.Envelope.Header.Source.App != f.Source) {
		return false
	}
	if prefix, ok := strings.CutSuffix(f.Type, "*"); ok {
		return strings.HasPrefix(it.Type, strings.ToLower(prefix))
	}
	return f.Type == "" || it.Type == strings.ToLower(f.Type)
}

// mailLine writes one event in columns that fit most events.
func mailLine(c *cli.Env, it *queue.Item) {
	cells := mailRow(c, it, false)
	widths := []int{8, 22, 22}
	var b strings.Builder
	for i, cell := range cells {
		text := console.Safe(cell.Text)
		if i < len(widths) {
			pad := max(widths[i]-console.Width(text), 0) + 2
			b.WriteString(c.Out.Paint(cell.Style, text) + strings.Repeat(" ", pad))
			continue
		}
		b.WriteString(c.Out.Paint(cell.Style, c.Out.Fit(text, 62)))
	}
	c.Out.Printf("%s\n", b.String())
}
