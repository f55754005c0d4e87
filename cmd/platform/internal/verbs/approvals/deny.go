package approvals

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// denyOptions are the flags of the verb.
type denyOptions struct {
	reason string
}

func newDenyCommand(c *cli.Env) *cobra.Command {
	var o denyOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "deny ID",
		Short: "Refuse a call",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runDeny(ctx, c, client, o, a)
		}),
	})
	cmd.Flags().StringVar(&o.reason, "reason", "", "what the caller is told")
	return cmd
}

func runDeny(ctx context.Context, c *cli.Env, client *control.Client, o denyOptions, a []string) error {
	v, err := client.Deny(ctx, a[0], control.Answer{Actor: cli.Actor(), Reason: o.reason})
	if err != nil {
		return err
	}
	return showApproval(c, v)
}
