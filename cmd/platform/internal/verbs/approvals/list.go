package approvals

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
)

// listOptions are the flags of the verb.
type listOptions struct {
	all bool
}

func newListCommand(c *cli.Env) *cobra.Command {
	var o listOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the calls that wait, and the approvals that stand",
		Args:    cli.Args(cobra.NoArgs),
		RunE: c.Online(func(ctx context.Context, client *control.Client, _ []string) error {
			return runList(ctx, c, client, o)
		}),
	})
	cmd.Flags().BoolVar(&o.all, "all", false, "also those that were answered or have expired")
	return cmd
}

func runList(ctx context.Context, c *cli.Env, client *control.Client, o listOptions) error {
	states := []string{string(approval.Pending), string(approval.Approved)}
	if o.all {
		states = nil
	}
	list, err := client.Approvals(ctx, states...)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"approvals": list})
	}
	if len(list) == 0 {
		c.Out.Printf("nothing waits for approval, and no approval stands\n")
		return nil
	}
	var rows [][]console.Cell
	now := time.Now()
	for _, a := range list {
		left := ""
		if a.State == approval.Pending || a.State == approval.Approved && !a.Expires.IsZero() {
			left = console.Age(a.Expires.Sub(now))
		}
		rows = append(rows, []console.Cell{
			{Text: a.ID, Style: console.Bold}, {Text: standing(a), Style: approvalStyle(a.State)}, {Text: console.Age(now.Sub(a.Created))},
			{Text: left}, {Text: a.Risk}, {Text: catalog.ID{Server: a.Server, Tool: a.Tool}.Canonical()}, {Text: console.Cut(console.Safe(string(a.Arguments)), maxListed)},
		})
	}
	c.Out.Table([]string{"ID", "STATE", "AGE", "LEFT", "RISK", "TOOL", "ARGUMENTS"}, rows)
	return nil
}

// maxListed is how many columns of a call's arguments a list shows.
const maxListed = 200
