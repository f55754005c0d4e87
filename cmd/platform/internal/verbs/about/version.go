// Package about is the verbs that say what this program is: its version and the schemas
// that it publishes.
package about

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

// NewVersionCommand makes the verb "version".
func NewVersionCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "version",
		Short: "Say which version this is and which MCP revisions it speaks",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVersion(cmd.Context(), c)
		},
	})
}

func runVersion(ctx context.Context, c *cli.Env) error {
	v := settings.BuildVersion()
	if c.JSON {
		return c.PrintJSON(v)
	}
	c.Out.Printf("platform %s (%s)\nMCP      ", v.Version, v.Go)
	for i, p := range v.Protocols {
		if i > 0 {
			c.Out.Printf(", ")
		}
		c.Out.Printf("%s", p)
	}
	c.Out.Printf("\n")
	return nil
}
