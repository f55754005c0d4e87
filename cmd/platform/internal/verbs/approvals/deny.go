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
		Use:   "deny [ID]",
		Short: "Refuse a call",
		Long: `Refuse a call. Without ID the only question that is open is meant; the beginning of an
id is enough.`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runDeny(ctx, c, client, o, a)
		}),
	})
	cmd.Flags().StringVar(&o.reason, "reason", "", "what the caller is told")
	return cmd
}

func runDeny(ctx context.Context, c *cli.Env, client *control.Client, o denyOptions, a []string) error {
	id, err := pick(ctx, client, a)
	if err != nil {
		return err
	}
	v, err := client.Deny(ctx, id, control.Answer{Actor: cli.Actor(), Reason: o.reason})
	if err != nil {
		return err
	}
	return showApproval(c, v)
}
