package policy

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

// reviewOptions are the flags of the verb.
type reviewOptions struct {
	server string
}

func newReviewCommand(c *cli.Env) *cobra.Command {
	var o reviewOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "review",
		Short: "Show the state of each tool and what is odd about it",
		Long: `Show the state of each tool (approved, unpinned, added, changed) and what the scan found.
The exit code is 3 when there are findings or tools that want a review.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: c.Online(func(ctx context.Context, client *control.Client, _ []string) error {
			return runReview(ctx, c, client, o)
		}),
	})
	cmd.Flags().StringVar(&o.server, "server", "", "only this server, by name or alias")
	return cmd
}

func runReview(ctx context.Context, c *cli.Env, client *control.Client, o reviewOptions) error {
	report, err := client.Review(ctx, o.server)
	if err != nil {
		return err
	}
	if c.JSON {
		err = c.PrintJSON(report)
	} else {
		showReview(c, report)
	}
	if err == nil && wantsReview(report) {
		return cli.ErrFindings
	}
	return err
}

func wantsReview(r review.Report) bool {
	for _, s := range r.Servers {
		for _, t := range s.Tools {
			if t.State != review.Approved || len(t.Findings) > 0 {
				return true
			}
		}
	}
	return false
}

func showReview(c *cli.Env, r review.Report) {
	if len(r.Servers) == 0 {
		c.Out.Printf("no tools: see \"platform servers\"\n")
	}
	for _, s := range r.Servers {
		c.Out.Printf("%s  %s\n", c.Out.Paint(console.Bold, console.Safe(s.Server)), c.Out.Paint(console.Dim, s.Fingerprint))
		var rows [][]console.Cell
		for _, t := range s.Tools {
			style := console.Yellow
			if t.State == review.Approved {
				style = console.Green
			}
			rows = append(rows, []console.Cell{{Text: "  " + t.Tool}, {Text: string(t.State), Style: style}, {Text: ""}})
			for _, f := range t.Findings {
				what := f.Excerpt
				if f.Pointer == "/name" { // which the row above has
					what = f.Message
				}
				rows = append(rows, []console.Cell{{Text: ""}, {Text: string(f.Severity), Style: console.Red}, {Text: fmt.Sprintf("%s at %s: %s", f.Code, f.Pointer, what)}})
			}
		}
		c.Out.Table(nil, rows)
	}
}
