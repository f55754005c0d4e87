package offers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/openai"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// toolsOptions are the flags of the verb.
type toolsOptions struct {
	format, server, profile string
}

// NewToolsCommand makes the verb "tools".
func NewToolsCommand(c *cli.Env) *cobra.Command {
	return cli.Listing("tools", func() *cobra.Command { return newToolsListCommand(c) },
		newToolsConvertCommand(c), newToolsDecodeCommand(c))
}

func newToolsListCommand(c *cli.Env) *cobra.Command {
	var o toolsOptions
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the tools that are offered",
		Long: `List the tools of all servers. With --format openai the output is the JSON array
that a chat completions request takes as "tools", byte for byte the same for the
same catalogue.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: c.Online(func(ctx context.Context, client *control.Client, _ []string) error {
			return runToolsList(ctx, c, client, o)
		}),
	}
	c.JSONFlag(cmd).Flags().StringVar(&o.format, "format", "table", "table, json (as --json) or openai")
	cmd.MarkFlagsMutuallyExclusive("json", "format")
	cmd.Flags().StringVar(&o.server, "server", "", "only the tools of this server, by name or alias")
	cmd.Flags().StringVar(&o.profile, "profile", "", "provider profile for --format openai: "+strings.Join(openai.Profiles(), ", "))
	return cmd
}

func runToolsList(ctx context.Context, c *cli.Env, client *control.Client, o toolsOptions) error {
	if slices.Contains(openai.Profiles(), o.format) && o.format != "openai" {
		return cli.Usage(cli.Hint(fmt.Errorf("--format %q is not known", o.format), "a provider is a profile: --format openai --profile "+o.format))
	}
	if err := cli.OneOf("format", o.format, "table", "json", "openai"); err != nil {
		return err
	}
	if err := cli.OneOf("profile", cmp.Or(o.profile, openai.DefaultProfile), openai.Profiles()...); err != nil {
		return err
	}
	if o.profile != "" && o.format != "openai" {
		return cli.Usage(cli.Hint(errors.New("--profile changes nothing but --format openai"), "add --format openai"))
	}
	if o.format == "openai" {
		raw, err := client.Export(ctx, o.profile, o.server)
		if err != nil {
			return err
		}
		if c.Out.Terminal() {
			var pretty bytes.Buffer
			if json.Indent(&pretty, raw, "", "  ") == nil {
				raw = cli.InertJSON(pretty.Bytes())
			}
		}
		c.Out.Printf("%s\n", raw)
		return nil
	}
	tools, err := client.Tools(ctx, o.server)
	if err != nil {
		return err
	}
	if c.JSON || o.format == "json" {
		return c.PrintJSON(map[string]any{"tools": tools})
	}
	var rows [][]console.Cell
	for _, t := range tools {
		rows = append(rows, []console.Cell{
			{Text: t.ExportName, Style: console.Bold}, {Text: t.Name}, {Text: t.Risk}, {Text: string(t.Action), Style: actionStyle(t.Action)}, {Text: t.Description},
		})
	}
	if len(rows) == 0 {
		c.Out.Printf("no tools: see \"platform servers\"\n")
		return nil
	}
	c.Out.Table([]string{"NAME FOR MODELS", "TOOL", "RISK", "POLICY", "DESCRIPTION"}, rows)
	return nil
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
