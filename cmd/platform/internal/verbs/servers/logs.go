package servers

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// logsOptions are the flags of the verb.
type logsOptions struct {
	follow bool
	n      int
}

// NewLogsCommand makes the verb "logs".
func NewLogsCommand(c *cli.Env) *cobra.Command {
	var o logsOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "logs SERVER",
		Short: "Show what a server wrote to its standard error; with --json one object for each line",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runLogs(ctx, c, client, o, a)
		}),
	})
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().IntVarP(&o.n, "lines", "n", 50, "how many of the last lines to show")
	return cmd
}

func runLogs(ctx context.Context, c *cli.Env, client *control.Client, o logsOptions, a []string) error {
	if o.n < 0 {
		return cli.Usage(fmt.Errorf("--lines must not be negative, not %d", o.n))
	}
	return client.Logs(ctx, a[0], o.n, o.follow, func(line string) error {
		if c.JSON {
			return c.PrintLine(map[string]string{"server": a[0], "line": line})
		}
		c.Out.Printf("%s\n", console.Safe(line))
		return nil
	})
}
