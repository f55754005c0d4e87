package offers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// resourcesListOptions are the flags of the verb.
type resourcesListOptions struct {
	server    string
	templates bool
}

func newResourcesListCommand(c *cli.Env) *cobra.Command {
	var o resourcesListOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the resources, or the patterns of their URIs",
		Args:    cli.Args(cobra.NoArgs),
		RunE: c.Online(func(ctx context.Context, client *control.Client, _ []string) error {
			return runResourcesList(ctx, c, client, o)
		}),
	})
	cmd.Flags().StringVar(&o.server, "server", "", "only those of this server")
	cmd.Flags().BoolVar(&o.templates, "templates", false, "the patterns of URIs")
	return cmd
}

func runResourcesList(ctx context.Context, c *cli.Env, client *control.Client, o resourcesListOptions) error {
	read, name := client.Resources, "resources"
	if o.templates {
		read, name = client.Templates, "templates"
	}
	list, err := read(ctx, o.server)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{name: list})
	}
	return showItems(c, list, "no "+name, "URI", func(x itemText) string { return x.URI + x.Template })
}
