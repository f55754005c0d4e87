package offers

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// watchOptions are the flags of the verb.
type watchOptions struct {
	inbox, stop bool
}

func newResourcesWatchCommand(c *cli.Env) *cobra.Command {
	var o watchOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "watch SERVER URI",
		Short: "Say each time that a resource changes",
		Long: `Print a line each time that a resource changes, until Ctrl-C. With --inbox changes are
delivered to the inbox instead, until the platform ends or --stop is given. The
content is never sent along: read it.`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runResourcesWatch(ctx, c, client, o, a)
		}),
	})
	cmd.Flags().BoolVar(&o.inbox, "inbox", false, "deliver changes to the inbox")
	cmd.Flags().BoolVar(&o.stop, "stop", false, "deliver no more of them")
	cmd.MarkFlagsMutuallyExclusive("inbox", "stop")
	return cmd
}

func runResourcesWatch(ctx context.Context, c *cli.Env, client *control.Client, o watchOptions, a []string) error {
	s := control.Subscription{Server: a[0], URI: a[1]}
	switch {
	case o.inbox:
		return client.Subscribe(ctx, s)
	case o.stop:
		return client.Unsubscribe(ctx, s)
	}
	err := client.Watch(ctx, s.Server, s.URI, func() error {
		if c.JSON {
			return c.PrintLine(map[string]any{"server": s.Server, "uri": s.URI, "changed": time.Now().Format(time.RFC3339Nano)})
		}
		c.Out.Printf("%s changed\n", console.Safe(s.URI))
		return nil
	})
	if err == nil && ctx.Err() == nil {
		err = errors.New("the platform ended")
	}
	return err
}
