package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
)

func (c *cli) gatewayCommand() *cobra.Command {
	o := daemon.Defaults()
	var config, server string
	var dirs []string
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
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.settings(cmd, &o, config, dirs); err != nil {
				return err
			}
			return c.gateway(cmd.Context(), o, server)
		},
	}
	f := cmd.Flags()
	f.StringVar(&server, "server", "", "offer this server alone, by name or alias, under its own names")
	f.StringVar(&config, "config", "", "configuration file (default platform.yaml, if there is one)")
	f.StringArrayVar(&dirs, "manifests", nil, "folder or file with manifests, where no platform runs yet; may be repeated")
	f.StringVar(&o.Log.Format, "log-format", o.Log.Format, "text or json")
	f.StringVar(&o.Log.Level, "log-level", o.Log.Level, "debug, info, warn or error; the log goes to standard error")
	cmd.AddCommand(c.gatewayTokenCommand())
	return cmd
}

// startTime is how long a platform that is just being started may take to answer.
const startTime = 30 * time.Second

// gateway joins standard input and output to a platform, its own if there is none.
func (c *cli) gateway(ctx context.Context, o daemon.Options, server string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := c.dial()
	if err != nil {
		return err
	}
	pipe, err := client.Gateway(ctx, server)
	if !errors.Is(err, control.ErrNotRunning) {
		if err != nil {
			return err
		}
		return join(ctx, pipe, c.in, c.out)
	}

	log := o.Log.Logger(c.err)
	up := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, o, log, daemon.Hooks{Up: func(*daemon.Platform, []error) { close(up) }})
	}()
	var running *daemon.RunningError
	select {
	case <-up:
	case err := <-ended:
		if !errors.As(err, &running) {
			return err
		}
		ended <- nil // another one was quicker
	}
	pipe, err = c.await(ctx, client, server, log)
	if err == nil {
		err = join(ctx, pipe, c.in, c.out)
	}
	cancel()
	return errors.Join(err, <-ended)
}

// await opens a pipe to a platform that is being started.
func (c *cli) await(ctx context.Context, client *control.Client, server string, log *slog.Logger) (*control.Pipe, error) {
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

func (c *cli) gatewayTokenCommand() *cobra.Command {
	var t streamable.Token
	var file string
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "token NAME",
		Short: "Make a bearer token for a client over HTTP and print it, once",
		Long: `Make a token for a client that reaches the gateway over HTTP, and add it to the
file of tokens that gateway.tokens in platform.yaml names. The token is printed
once; the file has only its hash. A running platform takes it within a second.
To end a token, remove its entry from the file.`,
		Example: `  platform gateway token laptop --server weather --tool '*.get_*'`,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			o := daemon.Defaults()
			if err := c.settings(cmd, &o, "", nil); err != nil {
				return err
			}
			if file == "" {
				file = o.Gateway.Tokens
			}
			if file == "" {
				return &hinted{errors.New("there is no file of tokens"), "name one in platform.yaml as gateway.tokens, or with --file"}
			}
			t.Name = a[0]
			return c.addToken(file, t)
		},
	})
	f := cmd.Flags()
	f.StringVar(&file, "file", "", "file of tokens (default gateway.tokens of platform.yaml)")
	f.StringArrayVar(&t.Servers, "server", nil, "show only this server, by name, alias or a pattern with *; may be repeated")
	f.StringArrayVar(&t.Tools, "tool", nil, "show only tools with this canonical name, or a pattern with *; may be repeated")
	f.StringVar(&t.Only, "only", "", "show this one server under its own names")
	f.BoolVar(&t.Approve, "approve", false, "let the client's user answer what the policy asks a person")
	return cmd
}

func (c *cli) addToken(file string, t streamable.Token) error {
	var token string
	token, t.SHA256 = streamable.NewToken()
	entry, err := yaml.Marshal([]streamable.Token{t})
	if err != nil {
		return err
	}
	old, err := smallfile.Read(file, streamable.MaxTokens, 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the gateway's tokens: %w", err)
	}
	if len(old) > 0 && !strings.HasSuffix(string(old), "\n") {
		old = append(old, '\n')
	}
	next := append(old, entry...)
	if _, err := streamable.ParseTokens(file, next); err != nil {
		return fmt.Errorf("the token cannot be added: %w", err)
	}
	if err := durable.WriteFile(file, next); err != nil {
		return fmt.Errorf("writing the gateway's tokens: %w", err)
	}
	if c.json {
		return c.printJSON(map[string]string{"name": t.Name, "token": token, "file": file})
	}
	c.out.Printf("%s\n", token)
	c.err.Printf("%s\n", c.err.Paint(console.Dim, "in "+console.Safe(file)+" for "+console.Safe(t.Name)+"; it is not shown again"))
	return nil
}
