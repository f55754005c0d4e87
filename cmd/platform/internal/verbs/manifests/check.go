// Package manifests is the verbs that work on manifests and need no running platform:
// they check them, and make them of the files of other MCP hosts. How manifests are
// read is in mcpkit/manifest.
package manifests

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/check"
)

// checkOptions are the flags of the verb.
type checkOptions struct {
	cli.Settings
	live, verbose bool
}

// NewCheckCommand makes the verb "check".
func NewCheckCommand(c *cli.Env) *cobra.Command {
	var o checkOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "check",
		Short: "Check manifests, and with --live the servers themselves",
		Long: `Check every manifest and show how each server would be started: the effective
command, its folder and its PATH. With --live each server is started once in a
folder of its own and its tools are compared with the commands of its manifest.

The exit code is 3 when there are faults or differences, so it can guard a change
in CI. No running platform is needed.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCheck(cmd.Context(), c, o)
		},
	})
	o.ManifestFlags(cmd, "")
	cmd.Flags().BoolVar(&o.live, "live", false, "start each server and compare its tools with its manifest")
	cmd.Flags().BoolVar(&o.verbose, "verbose", false, "log what happens while servers are started")
	return cmd
}

func runCheck(ctx context.Context, c *cli.Env, opts checkOptions) error {
	o, err := c.Options(opts.Settings)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if opts.verbose {
		log = o.Log.Logger(c.Err)
	}
	res, err := check.Run(ctx, o, opts.live, log)
	if err != nil {
		return err
	}
	if c.JSON {
		err = c.PrintJSON(struct {
			OK bool `json:"ok"`
			*check.Result
		}{res.OK(), res})
		if err != nil {
			return err
		}
	} else {
		showChecked(c, res)
	}
	if !res.OK() {
		return cli.ErrFindings
	}
	return nil
}

func showChecked(c *cli.Env, res *check.Result) {
	before := ""
	for _, s := range res.Servers {
		path := s.Path
		if path != "" && path == before {
			path = "the same"
		}
		before = cmp.Or(s.Path, before)
		mark, style := "ok", console.Green
		switch {
		case s.Problem != "" || len(s.Missing)+len(s.Undeclared) > 0:
			mark, style = "!!", console.Red
		case s.Disabled:
			mark, style = "--", console.Dim
		}
		c.Out.Printf("%s %s", c.Out.Paint(style, mark), c.Out.Paint(console.Bold, s.Name))
		if s.Disabled {
			c.Out.Printf(" (disabled)")
		}
		if s.Live {
			c.Out.Printf("  %s, MCP %s", cli.Count(len(s.Tools), "tool"), s.ProtocolVersion)
		}
		c.Out.Printf("\n")
		for _, row := range [][2]string{
			{"manifest", s.Manifest}, {"url", s.URL}, {"command", cli.QuoteArgs(s.Command)}, {"folder", s.Dir}, {"PATH", path},
		} {
			if row[1] != "" {
				c.Out.Printf("   %-9s %s\n", row[0], console.Safe(row[1]))
			}
		}
		if s.Problem != "" {
			c.Out.Printf("   %-9s %s\n", "problem", c.Out.Paint(console.Red, console.Safe(s.Problem)))
		}
		for _, name := range s.Missing {
			c.Out.Printf("   %-9s %s is in the manifest, but the server does not have it\n", "drift", console.Safe(name))
		}
		for _, name := range s.Undeclared {
			c.Out.Printf("   %-9s %s is a tool of the server, but not in the manifest\n", "drift", console.Safe(name))
		}
	}
	showFaults(c, c.Out, console.Yellow, "warning:", res.Warnings)
	showFaults(c, c.Out, console.Red, "fault:", res.Faults)
	if len(res.Servers)+len(res.Faults) == 0 {
		c.Out.Printf("no manifests found\n")
	}
}

// place is FILE:LINE:COLUMN as far as it is known.
func place(f check.Fault) string {
	if f.File == "" || f.Line == 0 {
		return f.File
	}
	if f.Column == 0 {
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

func showFaults(c *cli.Env, w io.Writer, style console.Style, lead string, faults []check.Fault) {
	for _, f := range faults {
		text := f.Message
		if f.Key != "" && !strings.Contains(text, f.Key) {
			text = f.Key + ": " + text
		}
		if at := place(f); at != "" {
			text = at + ": " + text
		}
		fmt.Fprintf(w, "%s %s\n", c.Out.Paint(style, lead), console.Safe(text))
		if f.Hint != "" {
			fmt.Fprintf(w, "   %s %s\n", c.Out.Paint(console.Cyan, "hint:"), console.Safe(f.Hint))
		}
	}
}
