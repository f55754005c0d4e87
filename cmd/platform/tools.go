package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/openai"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

func (c *cli) toolsCommand() *cobra.Command {
	var format, server, profile string
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools that are offered",
		Long: `List the tools of all servers. With --format openai the output is the JSON array
that a chat completions request takes as "tools", byte for byte the same for the
same catalogue.`,
		Args: args(cobra.NoArgs),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			if slices.Contains(openai.Profiles(), format) && format != "openai" {
				return &usageError{&hinted{fmt.Errorf("--format %q is not known", format), "a provider is a profile: --format openai --profile " + format}, cmd}
			}
			if err := oneOf(cmd, "format", format, "table", "json", "openai"); err != nil {
				return err
			}
			if err := oneOf(cmd, "profile", cmp.Or(profile, openai.DefaultProfile), openai.Profiles()...); err != nil {
				return err
			}
			if profile != "" && format != "openai" {
				return &usageError{&hinted{errors.New("--profile changes nothing but --format openai"), "add --format openai"}, cmd}
			}
			if format == "openai" {
				raw, err := client.Export(cmd.Context(), profile, server)
				if err != nil {
					return err
				}
				if c.out.Terminal() {
					var pretty bytes.Buffer
					if json.Indent(&pretty, raw, "", "  ") == nil {
						raw = inertJSON(pretty.Bytes())
					}
				}
				c.out.Printf("%s\n", raw)
				return nil
			}
			tools, err := client.Tools(cmd.Context(), server)
			if err != nil {
				return err
			}
			if c.json || format == "json" {
				return c.printJSON(map[string]any{"tools": tools})
			}
			var rows [][]console.Cell
			for _, t := range tools {
				rows = append(rows, []console.Cell{
					{Text: t.ExportName, Style: console.Bold}, {Text: t.Name}, {Text: t.Risk}, {Text: string(t.Action), Style: actionStyle(t.Action)}, {Text: t.Description},
				})
			}
			if len(rows) == 0 {
				c.out.Printf("no tools: see \"platform servers\"\n")
				return nil
			}
			c.out.Table([]string{"NAME FOR MODELS", "TOOL", "RISK", "POLICY", "DESCRIPTION"}, rows)
			return nil
		}),
	}
	c.jsonFlag(cmd).Flags().StringVar(&format, "format", "table", "table, json (as --json) or openai")
	cmd.MarkFlagsMutuallyExclusive("json", "format")
	cmd.Flags().StringVar(&server, "server", "", "only the tools of this server, by name or alias")
	cmd.Flags().StringVar(&profile, "profile", "", "provider profile for --format openai: "+strings.Join(openai.Profiles(), ", "))
	cmd.AddCommand(c.toolsConvert(), c.toolsDecode())
	return cmd
}

func actionStyle(a rules.Action) console.Style {
	switch a {
	case rules.Allow:
		return console.Green
	case rules.Deny:
		return console.Red
	}
	return console.Yellow
}

// maxTools bounds what the offline verbs read, in bytes.
const maxTools = 64 << 20

// offline gives a verb that turns standard input into standard output.
func (c *cli) offline(use, short, long string, do func(profile string, in []byte) ([]byte, error)) *cobra.Command {
	var profile string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf(cmd, "profile", profile, openai.Profiles()...); err != nil {
				return err
			}
			in, err := io.ReadAll(io.LimitReader(c.in, maxTools+1))
			if err == nil && len(in) > maxTools {
				err = fmt.Errorf("more than %d bytes", maxTools)
			}
			if err != nil {
				return fmt.Errorf("reading standard input: %w", err)
			}
			out, err := do(profile, in)
			if len(out) > 0 {
				c.out.Printf("%s\n", bytes.TrimRight(out, "\n"))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&profile, "profile", openai.DefaultProfile, "one of "+strings.Join(openai.Profiles(), ", "))
	return cmd
}

func (c *cli) toolsConvert() *cobra.Command {
	return c.offline("convert", "Show what becomes of tools under a provider profile", `Read {"tools":[{"server","tool","description","inputSchema"}, …], "reserved":[NAME, …]}
from standard input and print the function tools they become, with a report of
every change. Needs no running platform.`, func(profile string, in []byte) ([]byte, error) {
		out, err := openai.ConvertJSON(profile, in)
		if err != nil {
			return nil, &hinted{err, "platform tools convert --help shows the form of the input"}
		}
		return out, nil
	})
}

func (c *cli) toolsDecode() *cobra.Command {
	return c.offline("decode", "Show what a model's call means to the server", `Read {"tools":[as for convert], "reserved":[…], "name": NAME, "arguments": STRING}
from standard input, with the name and arguments as a model sent them, and print
the server, the tool and the arguments as the server gets them, with what had to
be repaired. An error for the model is printed as {"error":{…}} with exit code 1.`, func(profile string, in []byte) ([]byte, error) {
		out, ok, err := openai.DecodeJSON(profile, in)
		if err != nil {
			return nil, &hinted{err, "platform tools decode --help shows the form of the input"}
		}
		if !ok {
			return out, errShown
		}
		return out, nil
	})
}
