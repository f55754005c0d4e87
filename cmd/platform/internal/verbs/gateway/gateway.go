// Package gateway is the verbs that make the platform one MCP server for an MCP host:
// a pipe on standard input and output, and the tokens of those who come over HTTP.
// What that server answers is in mcpkit/gateway.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

// options are the flags of the verb.
type options struct {
	cli.Settings
	server string
}

// NewCommand makes the verb "gateway".
func NewCommand(c *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Be one MCP server for any MCP host, over standard input and output",
		Long: `Offer every tool, resource and prompt of the platform's servers as one MCP server
on standard input and output: what an MCP host starts as a command. All calls go
through the same gate as any others.

If a platform runs on the data folder, this is a pipe to it. If none does, this
is a platform itself, with the same settings as "platform run", until the host
closes the pipe; other verbs and other hosts then use it as well.

With --server only that server is offered, with its tools, resources and prompts
under their own names. Over HTTP the same is served at the address that
gateway.listen in platform.yaml names, at /mcp and /mcp/SERVER.`,
		Example: `  platform gateway --data /srv/bot/data
  platform gateway --server weather`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGateway(cmd.Context(), c, o)
		},
	}
	cmd.Flags().StringVar(&o.server, "server", "", "offer this server alone, by name or alias, under its own names")
	o.ManifestFlags(cmd, ", where no platform runs yet")
	o.LogFlags(cmd, "; the log goes to standard error")
	cmd.AddCommand(newTokenCommand(c))
	return cmd
}

// startTime is how long a platform that is just being started may take to answer.
const startTime = 30 * time.Second

// runGateway joins standard input and output to a platform, its own if there is none.
func runGateway(ctx context.Context, c *cli.Env, opts options) error {
	o, err := c.Options(opts.Settings)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := c.Dial()
	if err != nil {
		return err
	}
	pipe, err := client.Gateway(ctx, opts.server)
	if !errors.Is(err, control.ErrNotRunning) {
		if err != nil {
			return err
		}
		return join(ctx, pipe, c.In, c.Out)
	}

	log := o.Log.Logger(c.Err)
	up := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, o, log, daemon.Hooks{Up: func(*daemon.Platform, []error) { close(up) }})
	}()
	var running *settings.RunningError
	select {
	case <-up:
	case err := <-ended:
		if !errors.As(err, &running) {
			return err
		}
		ended <- nil // another one was quicker
	}
	pipe, err = await(ctx, client, opts.server, log)
	if err == nil {
		err = join(ctx, pipe, c.In, c.Out)
	}
	cancel()
	return errors.Join(err, <-ended)
}

// await opens a pipe to a platform that is being started.
func await(ctx context.Context, client *control.Client, server string, log *slog.Logger) (*control.Pipe, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		pipe, err := client.Gateway(ctx, server)
		if !errors.Is(err, control.ErrNotRunning) {
			return pipe, err
		}
		log.Debug("the platform does not answer yet")
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// join copies in to the pipe and the pipe to out until the platform has answered
// everything and closes it, which it does soon after in ends.
func join(ctx context.Context, pipe *control.Pipe, in io.Reader, out io.Writer) error {
	defer pipe.Close()
	defer context.AfterFunc(ctx, func() { pipe.Close() })()
	go func() { // ends with in, at the latest with the process: a read of it cannot be called off
		io.Copy(pipe, in)
		pipe.CloseWrite()
	}()
	if _, err := io.Copy(out, pipe); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the platform is gone: %w", err)
	}
	return nil
}
