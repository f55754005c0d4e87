package approvals

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func newRevokeCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "revoke ID",
		Short: "Take an answer back, such as an approval for good, or close a question",
		Long: `Take an answer back: an approval is not good any more, a denial does not hold any
more, and the next such call asks anew. An open question is closed, and who waits for
it is told no. Calls that were sent already go on.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runRevoke(ctx, c, client, a)
		}),
	})
}

func runRevoke(ctx context.Context, c *cli.Env, client *control.Client, a []string) error {
	id, err := pick(ctx, client, a)
	if err != nil {
		return err
	}
	v, err := client.Revoke(ctx, id, control.Answer{Actor: cli.Actor()})
	if err != nil {
		return err
	}
	return showApproval(c, v)
}
