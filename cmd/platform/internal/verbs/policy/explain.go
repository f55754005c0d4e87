package policy

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func newExplainCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "explain TOOL",
		Short: "Say what would become of a call, which rule decides, and where it stands",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runExplain(ctx, c, client, a)
		}),
	})
}

func runExplain(ctx context.Context, c *cli.Env, client *control.Client, a []string) error {
	x, err := client.Explain(ctx, a[0])
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(x)
	}
	for line := range strings.Lines(x.String()) {
		c.Out.Printf("%s\n", console.Safe(strings.TrimRight(line, "\n")))
	}
	return nil
}
