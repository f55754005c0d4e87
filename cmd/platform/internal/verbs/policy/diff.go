package policy

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

func newDiffCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "diff SERVER",
		Short: "Show how a server's tools differ from what was approved",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runDiff(ctx, c, client, a)
		}),
	})
}

func runDiff(ctx context.Context, c *cli.Env, client *control.Client, a []string) error {
	tools, err := client.Diff(ctx, a[0])
	if err != nil {
		return err
	}
	if c.JSON {
		err = c.PrintJSON(map[string]any{"tools": tools})
	} else {
		showDiff(c, tools)
	}
	if err == nil && len(tools) > 0 {
		return cli.ErrFindings
	}
	return err
}

func showDiff(c *cli.Env, tools []review.ToolDiff) {
	if len(tools) == 0 {
		c.Out.Printf("every tool is as it was approved\n")
	}
	side := func(mark string, style console.Style, v json.RawMessage) {
		if len(v) > 0 {
			c.Out.Printf("    %s\n", c.Out.Paint(style, mark+" "+console.Safe(unescaped(v))))
		}
	}
	for _, t := range tools {
		c.Out.Printf("%s %s\n", c.Out.Paint(console.Bold, console.Safe(t.Tool)), c.Out.Paint(console.Yellow, string(t.State)))
		for _, ch := range t.Changes {
			c.Out.Printf("  %s\n", console.Safe(ch.Pointer))
			side("-", console.Red, ch.Before)
			side("+", console.Green, ch.After)
		}
	}
}

// unescaped is a JSON value with <, > and & as they are, for people.
func unescaped(v json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(v))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return string(v)
	}
	out, err := jsontext.Marshal(value)
	if err != nil {
		return string(v)
	}
	return string(out)
}
