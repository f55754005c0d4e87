package calls

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
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
		Short:   "List the calls that wait for an answer",
		Args:    cli.Args(cobra.NoArgs),
		RunE: c.Online(func(ctx context.Context, client *control.Client, _ []string) error {
			return runList(ctx, c, client, o)
		}),
	})
	cmd.Flags().BoolVar(&o.all, "all", false, "also those that run, and asynchronous ones that have ended")
	return cmd
}

func runList(ctx context.Context, c *cli.Env, client *control.Client, o listOptions) error {
	state := waiting
	if o.all {
		state = ""
	}
	list, err := client.Calls(ctx, state)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"calls": list})
	}
	if len(list) == 0 {
		c.Out.Printf("no call waits for an answer\n")
		return nil
	}
	var rows [][]console.Cell
	for _, s := range list {
		asks := ""
		if s.Input != nil && len(s.Input.Questions) > 0 {
			asks = s.Input.Questions[0].Message
		}
		rows = append(rows, []console.Cell{
			{Text: s.CallID, Style: console.Bold}, {Text: s.State}, {Text: console.Age(time.Since(s.StartedAt))}, {Text: s.Name}, {Text: asks},
		})
	}
	c.Out.Table([]string{"ID", "STATE", "AGE", "TOOL", "QUESTION"}, rows)
	return nil
}
