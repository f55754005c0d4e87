package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func (c *cli) promptsCommand() *cobra.Command {
	return group("prompts", "Expand the prompts of servers", `Servers offer prompts: texts that they make of arguments, for a person to use. An
expansion is a user's text, never an order of the platform.`,
		c.promptsList(), c.promptsGet())
}

func (c *cli) promptsList() *cobra.Command {
	var server string
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "ls",
		Short: "List the prompts with their arguments",
		Args:  args(cobra.NoArgs),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			list, err := client.Prompts(cmd.Context(), server)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]any{"prompts": list})
			}
			return c.showItems(list, "no prompts", "ARGUMENTS", func(x itemText) string {
				var names []string
				for _, a := range x.Arguments {
					if a.Required {
						names = append(names, a.Name)
					} else {
						names = append(names, "["+a.Name+"]")
					}
				}
				return strings.Join(names, " ")
			})
		}),
	})
	cmd.Flags().StringVar(&server, "server", "", "only those of this server")
	return cmd
}

func (c *cli) promptsGet() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "get SERVER PROMPT [NAME=VALUE…]",
		Short: "Expand a prompt",
		Long: `Expand a prompt and print its messages. All of them are text of a user; what the
server wrote for the assistant says so in its first line.`,
		Example: `  platform prompts get notes review title=Emma`,
		Args:    args(cobra.MinimumNArgs(2)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			arguments := map[string]string{}
			for _, pair := range a[2:] {
				name, value, ok := strings.Cut(pair, "=")
				if _, twice := arguments[name]; !ok || name == "" || twice {
					return &usageError{fmt.Errorf("%q is no NAME=VALUE, or is there twice", pair), cmd}
				}
				arguments[name] = value
			}
			p, err := client.GetPrompt(cmd.Context(), control.PromptRequest{Server: a[0], Prompt: a[1], Arguments: arguments, Entrance: "cli"})
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(p)
			}
			if len(p.Messages) == 0 {
				return &hinted{errors.New("the prompt has no messages"), ""}
			}
			for i, m := range p.Messages {
				if i > 0 {
					c.out.Printf("\n")
				}
				if len(p.Messages) > 1 {
					c.out.Printf("%s\n", c.out.Paint(console.Dim, fmt.Sprintf("%d of %d, from %s", i+1, len(p.Messages), console.Safe(m.Source.Server))))
				}
				c.out.Printf("%s\n", strings.TrimRight(safeText(m.Text), "\n"))
			}
			c.flagged(p.Flags)
			return nil
		}),
	})
}
