package gateway

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
)

// tokenOptions are the flags of the verb.
type tokenOptions struct {
	access.Token
	file string
}

func newTokenCommand(c *cli.Env) *cobra.Command {
	var o tokenOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "token NAME",
		Short: "Make a bearer token for a client over HTTP and print it, once",
		Long: `Make a token for a client that reaches the gateway over HTTP, and add it to the
file of tokens that gateway.tokens in platform.yaml names. The token is printed
once; the file has only its hash. A running platform takes it within a second.
To end a token, remove its entry from the file.`,
		Example: `  platform gateway token laptop --server weather --tool '*.get_*'`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return runToken(c, o, a)
		},
	})
	f := cmd.Flags()
	f.StringVar(&o.file, "file", "", "file of tokens (default gateway.tokens of platform.yaml)")
	f.StringArrayVar(&o.Servers, "server", nil, "show only this server, by name, alias or a pattern with *; may be repeated")
	f.StringArrayVar(&o.Tools, "tool", nil, "show only tools with this canonical name, or a pattern with *; may be repeated")
	f.StringVar(&o.Only, "only", "", "show this one server under its own names")
	f.BoolVar(&o.Approve, "approve", false, "let the client's user answer what the policy asks a person")
	return cmd
}

func runToken(c *cli.Env, o tokenOptions, a []string) error {
	set, err := c.Options(cli.Settings{})
	if err != nil {
		return err
	}
	if o.file == "" {
		o.file = set.Gateway.Tokens
	}
	if o.file == "" {
		return cli.Hint(errors.New("there is no file of tokens"), "name one in platform.yaml as gateway.tokens, or with --file")
	}
	o.Name = a[0]
	return addToken(c, o.file, o.Token)
}

func addToken(c *cli.Env, file string, t access.Token) error {
	var token string
	token, t.SHA256 = access.NewToken()
	entry, err := yaml.Marshal([]access.Token{t})
	if err != nil {
		return err
	}
	old, err := smallfile.Read(file, access.MaxTokens, 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the gateway's tokens: %w", err)
	}
	if len(old) > 0 && !strings.HasSuffix(string(old), "\n") {
		old = append(old, '\n')
	}
	next := append(old, entry...)
	if _, err := access.ParseTokens(file, next); err != nil {
		return fmt.Errorf("the token cannot be added: %w", err)
	}
	if err := durable.WriteFile(file, next); err != nil {
		return fmt.Errorf("writing the gateway's tokens: %w", err)
	}
	if c.JSON {
		return c.PrintJSON(map[string]string{"name": t.Name, "token": token, "file": file})
	}
	c.Out.Printf("%s\n", token)
	c.Err.Printf("%s\n", c.Err.Paint(console.Dim, "in "+console.Safe(file)+" for "+console.Safe(t.Name)+"; it is not shown again"))
	return nil
}
