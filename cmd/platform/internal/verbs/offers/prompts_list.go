package offers

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// promptsListOptions are the flags of the verb.
type promptsListOptions struct {
	server string
}

func newPromptsListCommand(c *cli.Env) *cobra.Command {
	var o promptsListOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the prompts with their arguments",
		Args:    cli.Args(cobra.NoArgs),
		RunE: c.Online(func(ctx context.Context, client *control.Client, _ []string) error {
			return runPromptsList(ctx, c, client, o)
		}),
	})
	cmd.Flags().StringVar(&o.server, "server", "", "only those of this server")
	return cmd
}

func runPromptsList(ctx context.Context, c *cli.Env, client *control.Client, o promptsListOptions) error {
	list, err := client.Prompts(ctx, o.server)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"prompts": list})
	}
	return showItems(c, list, "no prompts", "ARGUMENTS", func(x itemText) string {
		var names []string
		for _, a := range x.Arguments {
			if a.Required {
				names = append(names, a.Name)
			} else {
				names = append(names, "["+a.Name+"]")
			}
		}
		return strings.Join(names, " ")
	})
}
