package auth

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
)

// loginOptions are the flags of the verb.
type loginOptions struct {
	cli.Settings
	scopes  []string
	port    int
	timeout time.Duration
}

func newLoginCommand(c *cli.Env) *cobra.Command {
	var o loginOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "login SERVER",
		Short: "Log in to a remote server with a browser",
		Long: `Log in to a remote server. The address to open is printed; nothing is opened by
itself. After the login the browser comes back to a port of this machine.

Where the browser runs on another machine, over ssh for example, it ends at an
address that it cannot open: paste that address into the terminal. With --json
each step is one line of JSON.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return runLogin(cmd.Context(), c, o, a[0])
		},
	})
	o.ManifestFlags(cmd, runningHint)
	cmd.Flags().StringSliceVar(&o.scopes, "scope", nil, "scope to ask for besides; may be repeated")
	cmd.Flags().IntVar(&o.port, "port", 0, "port of this machine that the browser comes back to (default any)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long to wait for the person")
	return cmd
}

func runLogin(whole context.Context, c *cli.Env, o loginOptions, server string) error {
	if o.timeout <= 0 {
		return cli.Usage(fmt.Errorf("--timeout must be more than 0, not %s", o.timeout))
	}
	if o.port < 0 || o.port > math.MaxUint16 {
		return cli.Usage(fmt.Errorf("--port is from 1 to %d, not %d", math.MaxUint16, o.port))
	}
	return atServer(whole, c, o.Settings, server, func(client *auth.Client, m *manifest.Manifest) error {
		ctx, cancel := context.WithTimeoutCause(whole, o.timeout, fmt.Errorf("nobody has finished the login within %v", o.timeout))
		defer cancel()
		err := login(ctx, c, client, m.Package, cmp.Or(o.port, m.MCP.Auth.RedirectPort), o.scopes)
		if err != nil && whole.Err() == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	})
}

// login runs one login from the address to the tokens.
func login(ctx context.Context, c *cli.Env, client *auth.Client, server string, port int, scopes []string) error {
	l, err := listenFor(port, client.RedirectPort())
	if err != nil {
		return cli.Hint(err, "choose another with --port, or end what uses it")
	}
	defer l.Close()
	redirect := fmt.Sprintf("http://127.0.0.1:%d/callback", l.Addr().(*net.TCPAddr).Port)
	login, err := client.Begin(ctx, redirect, scopes)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := c.PrintJSON(map[string]any{"step": "open", "server": server, "url": login.URL, "redirect_uri": redirect, "issuer": login.Issuer, "scopes": login.Scopes}); err != nil {
			return err
		}
	} else {
		c.Out.Printf("Log in to %s at %s.\nOpen this address in a browser:\n\n  %s\n\n", console.Safe(server), console.Safe(login.Issuer), console.Safe(login.URL))
		c.Out.Printf("%s\n", c.Out.Paint(console.Dim, "If the browser is on another machine, paste the address that it ends at here."))
	}
	if err := finish(ctx, c, l, login); err != nil {
		return err
	}
	status, err := client.Status()
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(struct {
			Step string `json:"step"`
			auth.Status
		}{"done", status})
	}
	c.Out.Printf("%s logged in to %s", c.Out.Paint(console.Green, "✓"), console.Safe(server))
	if len(status.Scopes) > 0 {
		c.Out.Printf(" (%s)", console.Safe(strings.Join(status.Scopes, " ")))
	}
	c.Out.Printf("\n")
	return nil
}
