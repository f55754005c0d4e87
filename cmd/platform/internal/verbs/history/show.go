package history

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/history/story"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func newShowCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "show CALL_ID",
		Short: "Tell all of one call: who asked, what was sent, who allowed it, what came back",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: asking(c, func(ctx context.Context, s source, a []string) error {
			return runShow(ctx, c, s, a[0])
		}),
	})
}

func runShow(ctx context.Context, c *cli.Env, s source, id string) error {
	chain, err := s.Call(ctx, id)
	if err != nil && fault.From(err).Code == history.CallNotFound {
		return cli.Hint(err, `"platform history --kind call" lists the calls with their ids`)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(chain)
	}
	steps, err := story.Read(chain)
	if err != nil {
		return err
	}
	question, err := asked(ctx, s, &chain.Call)
	if err != nil {
		return err
	}
	for _, row := range story.Rows(chain, steps, question) {
		if row[1] != "" {
			c.Out.Printf("%s  %s\n", c.Out.Paint(console.Dim, fmt.Sprintf("%-10s", console.Safe(row[0]))), console.Safe(row[1]))
		}
	}
	if len(steps) > 0 {
		c.Out.Printf("\n")
		c.Out.Table([]string{"AFTER", "STEP", "", "TOOK", ""}, story.Waterfall(steps))
	}
	return nil
}

// asked is what the policy said when it had a person asked, where that was in an
// earlier call, whose caller did not wait; else "".
func asked(ctx context.Context, s source, e *entry.Entry) (string, error) {
	if e.Approval == "" {
		return "", nil
	}
	page, err := s.List(ctx, store.Filter{Approval: e.Approval}, store.Page{Limit: 1, After: 1})
	if err != nil || len(page.Entries) == 0 || page.Entries[0].CallID == e.CallID {
		return "", err
	}
	first, err := s.Call(ctx, page.Entries[0].CallID)
	if err != nil {
		return "", err
	}
	steps, err := story.Read(first)
	if err != nil {
		return "", err
	}
	return story.Question(first, steps, e.Approval), nil
}
