package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := c.dial()
			if err != nil {
				return err
			}
			switch format {
			case "openai":
				raw, err := client.Export(cmd.Context(), profile, server)
				if err != nil {
					return err
				}
				if c.out.Terminal() {
					var pretty bytes.Buffer
					if json.Indent(&pretty, raw, "", "  ") == nil {
						raw = pretty.Bytes()
					}
				}
				c.out.Printf("%s\n", raw)
				return nil
			case "table", "json":
			default:
				return &usageError{fmt.Errorf("--format is table, json or openai, not %q", format), cmd}
			}
			tools, err := client.Tools(cmd.Context(), server)
			if err != nil {
				return err
			}
			if format == "json" {
				return c.printJSON(map[string]any{"tools": tools})
			}
			var rows [][]console.Cell
			for _, t := range tools {
				rows = append(rows, []console.Cell{{Text: t.ExportName, Style: console.Bold}, {Text: t.Name}, {Text: t.Description}})
			}
			if len(rows) == 0 {
				c.out.Printf("no tools: see \"platform servers\"\n")
				return nil
			}
			c.out.Table([]string{"NAME FOR MODELS", "TOOL", "DESCRIPTION"}, rows)
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table, json or openai")
	cmd.Flags().StringVar(&server, "server", "", "only the tools of this server")
	cmd.Flags().StringVar(&profile, "profile", "", "provider profile for --format openai")
	return cmd
}
