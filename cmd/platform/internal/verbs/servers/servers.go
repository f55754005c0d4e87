// Package servers is the verbs about the servers of the running platform: their state,
// starting and stopping them, what they log, and the platform's metrics.
package servers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// NewCommand makes the verb "servers".
func NewCommand(c *cli.Env) *cobra.Command {
	return cli.Listing("servers", func() *cobra.Command { return newListCommand(c) },
		newActCommand(c, "start", "Start a server that was stopped"),
		newActCommand(c, "stop", "Stop a server until it is started again"),
		newActCommand(c, "restart", "Restart a server; also brings back one that has failed for good"))
}

// newActCommand makes a verb that starts or stops a server.
func newActCommand(c *cli.Env, action, short string) *cobra.Command {
	return &cobra.Command{
		Use:   action + " NAME",
		Short: short,
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return client.Act(ctx, a[0], action)
		}),
	}
}
