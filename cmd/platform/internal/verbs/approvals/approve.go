package approvals

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
)

// approveOptions are the flags of the verb.
type approveOptions struct {
	session, always bool
}

func newApproveCommand(c *cli.Env) *cobra.Command {
	var o approveOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "approve [ID]",
		Short: "Allow a call: once, for this session, or always with these arguments",
		Long: `Allow a call. Without ID the only question that is open is meant; the beginning of an
id is enough.`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runApprove(ctx, c, client, o, a)
		}),
	})
	cmd.Flags().BoolVar(&o.session, "session", false, "until the platform ends")
	cmd.Flags().BoolVar(&o.always, "always", false, "for good, with exactly these arguments")
	cmd.MarkFlagsMutuallyExclusive("session", "always")
	return cmd
}

func runApprove(ctx context.Context, c *cli.Env, client *control.Client, o approveOptions, a []string) error {
	scope := approval.Once
	if o.session {
		scope = approval.Session
	}
	if o.always {
		scope = approval.Always
	}
	id, err := pick(ctx, client, a)
	if err != nil {
		return err
	}
	v, err := client.Approve(ctx, id, control.Answer{Scope: scope, Actor: cli.Actor()})
	if err != nil {
		return err
	}
	return showApproval(c, v)
}
