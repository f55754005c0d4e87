package offers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func newPromptsGetCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "get SERVER PROMPT [NAME=VALUE…]",
		Short: "Expand a prompt",
		Long: `Expand a prompt and print its messages. All of them are text of a user; what the
server wrote for the assistant says so in its first line.`,
		Example: `  platform prompts get notes review title=Emma`,
		Args:    cli.Args(cobra.MinimumNArgs(2)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runPromptsGet(ctx, c, client, a)
		}),
	})
}

func runPromptsGet(ctx context.Context, c *cli.Env, client *control.Client, a []string) error {
	arguments := map[string]string{}
	for _, pair := range a[2:] {
		name, value, ok := strings.Cut(pair, "=")
		if _, twice := arguments[name]; !ok || name == "" || twice {
			return cli.Usage(fmt.Errorf("%q is no NAME=VALUE, or is there twice", pair))
		}
		arguments[name] = value
	}
	p, err := client.GetPrompt(ctx, control.PromptRequest{Server: a[0], Prompt: a[1], Arguments: arguments, Entrance: "cli"})
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(p)
	}
	if len(p.Messages) == 0 {
		return cli.Hint(errors.New("the prompt has no messages"), "")
	}
	for i, m := range p.Messages {
		if i > 0 {
			c.Out.Printf("\n")
		}
		if len(p.Messages) > 1 {
			c.Out.Printf("%s\n", c.Out.Paint(console.Dim, fmt.Sprintf("%d of %d, from %s", i+1, len(p.Messages), console.Safe(m.Source.Server))))
		}
		c.Out.Printf("%s\n", strings.TrimRight(cli.SafeText(m.Text), "\n"))
	}
	c.Flagged(p.Flags)
	return nil
}
