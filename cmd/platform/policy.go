package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

func (c *cli) policyCommand() *cobra.Command {
	return group("policy", "Say what the policy does with a tool, and why", `The policy is policy.yaml and, below it, what is built in. Its rules decide which calls
run, which wait for a person and which are refused.`,
		c.policyExplain())
}

func (c *cli) policyExplain() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "explain TOOL",
		Short: "Say what would become of a call, which rule decides, and where it stands",
		Args:  args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			x, err := client.Explain(cmd.Context(), a[0])
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(x)
			}
			for line := range strings.Lines(x.String()) {
				c.out.Printf("%s\n", console.Safe(strings.TrimRight(line, "\n")))
			}
			return nil
		}),
	})
}

func (c *cli) catalogCommand() *cobra.Command {
	return group("catalog", "Review what servers say of their tools", `What a server says of its tools goes to a model, so it is scanned for what could
mislead one, and what was approved is pinned by its hash. A tool that is new or is
no longer what was approved asks again before it runs.`,
		c.catalogReview(), c.catalogDiff(), c.catalogApprove())
}

func (c *cli) catalogReview() *cobra.Command {
	var server string
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "review",
		Short: "Show the state of each tool and what is odd about it",
		Long: `Show the state of each tool (approved, unpinned, added, changed) and what the scan found.
The exit code is 3 when there are findings or tools that want a review.`,
		Args: args(cobra.NoArgs),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			report, err := client.Review(cmd.Context(), server)
			if err != nil {
				return err
			}
			if c.json {
				err = c.printJSON(report)
			} else {
				c.showReview(report)
			}
			if err == nil && wantsReview(report) {
				return errFindings
			}
			return err
		}),
	})
	cmd.Flags().StringVar(&server, "server", "", "only this server, by name or alias")
	return cmd
}

func wantsReview(r review.Report) bool {
	for _, s := range r.Servers {
		for _, t := range s.Tools {
			if t.State != review.Approved || len(t.Findings) > 0 {
				return true
			}
		}
	}
	return false
}

func (c *cli) showReview(r review.Report) {
	if len(r.Servers) == 0 {
		c.out.Printf("no tools: see \"platform servers\"\n")
	}
	for _, s := range r.Servers {
		c.out.Printf("%s  %s\n", c.out.Paint(console.Bold, console.Safe(s.Server)), c.out.Paint(console.Dim, s.Fingerprint))
		var rows [][]console.Cell
		for _, t := range s.Tools {
			style := console.Yellow
			if t.State == review.Approved {
				style = console.Green
			}
			rows = append(rows, []console.Cell{{Text: "  " + t.Tool}, {Text: string(t.State), Style: style}, {Text: ""}})
			for _, f := range t.Findings {
				what := f.Excerpt
				if f.Pointer == "/name" { // which the row above has
					what = f.Message
				}
				rows = append(rows, []console.Cell{{Text: ""}, {Text: string(f.Severity), Style: console.Red}, {Text: fmt.Sprintf("%s at %s: %s", f.Code, f.Pointer, what)}})
			}
		}
		c.out.Table(nil, rows)
	}
}

func (c *cli) catalogDiff() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "diff SERVER",
		Short: "Show how a server's tools differ from what was approved",
		Args:  args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			tools, err := client.Diff(cmd.Context(), a[0])
			if err != nil {
				return err
			}
			if c.json {
				err = c.printJSON(map[string]any{"tools": tools})
			} else {
				c.showDiff(tools)
			}
			if err == nil && len(tools) > 0 {
				return errFindings
			}
			return err
		}),
	})
}

func (c *cli) showDiff(tools []review.ToolDiff) {
	if len(tools) == 0 {
		c.out.Printf("every tool is as it was approved\n")
	}
	side := func(mark string, style console.Style, v json.RawMessage) {
		if len(v) > 0 {
			c.out.Printf("    %s\n", c.out.Paint(style, mark+" "+console.Safe(unescaped(v))))
		}
	}
	for _, t := range tools {
		c.out.Printf("%s %s\n", c.out.Paint(console.Bold, console.Safe(t.Tool)), c.out.Paint(console.Yellow, string(t.State)))
		for _, ch := range t.Changes {
			c.out.Printf("  %s\n", console.Safe(ch.Pointer))
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
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(value) != nil {
		return string(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func (c *cli) catalogApprove() *cobra.Command {
	var hash string
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "approve SERVER [TOOL]",
		Short: "Approve a server's tools, or one of them, as they are now",
		Long: `Approve a server's tools, or one of them, as they are now, and show them as
"catalog review" does.`,
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			r := control.PinRequest{Server: a[0], Hash: hash, Actor: actor()}
			if len(a) == 2 {
				r.Tool = a[1]
			}
			if err := client.Pin(cmd.Context(), r); err != nil {
				return err
			}
			report, err := client.Review(cmd.Context(), r.Server)
			if err != nil {
				return err
			}
			for i := range report.Servers {
				s := &report.Servers[i]
				s.Tools = slices.DeleteFunc(s.Tools, func(t review.ToolReport) bool { return r.Tool != "" && t.Tool != r.Tool })
			}
			if c.json {
				return c.printJSON(report)
			}
			c.showReview(report)
			return nil
		}),
	})
	cmd.Flags().StringVar(&hash, "hash", "", "approve only if the tools still have this fingerprint, as review showed it")
	return cmd
}
