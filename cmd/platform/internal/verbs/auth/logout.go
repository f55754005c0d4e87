package auth

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
)

func newLogoutCommand(c *cli.Env) *cobra.Command {
	var set cli.Settings
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "logout SERVER",
		Short: "Give back and forget what a server's issuer has issued",
		Long: `Ask the issuer to revoke the tokens of a server, where it offers that, and remove
them from this machine in any case.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return runLogout(cmd.Context(), c, set, a[0])
		},
	})
	set.ManifestFlags(cmd, runningHint)
	return cmd
}

func runLogout(ctx context.Context, c *cli.Env, set cli.Settings, server string) error {
	return atServer(ctx, c, set, server, func(client *auth.Client, m *manifest.Manifest) error {
		revoked, err := client.Logout(ctx)
		if err != nil {
			return cli.Hint(err, "what was stored is removed where it could be; the issuer may still take the tokens until they expire")
		}
		if c.JSON {
			return c.PrintJSON(map[string]any{"server": m.Package, "revoked": revoked})
		}
		c.Out.Printf("logged out of %s; %d tokens revoked\n", console.Safe(m.Package), revoked)
		return nil
	})
}
