package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
)

func (c *cli) checkCommand() *cobra.Command {
	o := daemon.Defaults()
	var config string
	var dirs []string
	var live, verbose bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "check",
		Short: "Check manifests, and with --live the servers themselves",
		Long: `Check every manifest and show how each server would be started: the effective
command, its folder and its PATH. With --live each server is started once in a
folder of its own and its tools are compared with the commands of its manifest.

The exit code is 3 when there are faults or differences, so it can guard a change
in CI. No running platform is needed.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.settings(cmd, &o, config, dirs); err != nil {
				return err
			}
			log := slog.New(slog.DiscardHandler)
			if verbose {
				log = o.Log.Logger(c.err)
			}
			res, err := daemon.Check(cmd.Context(), o, live, log)
			if err != nil {
				return err
			}
			if c.json {
				err = c.printJSON(struct {
					OK bool `json:"ok"`
					*daemon.Checked
				}{res.OK(), res})
				if err != nil {
					return err
				}
			} else {
				c.showChecked(res)
			}
			if !res.OK() {
				return errFindings
			}
			return nil
		},
	})
	cmd.Flags().StringVar(&config, "config", "", "configuration file (default platform.yaml, if there is one)")
	cmd.Flags().StringArrayVar(&dirs, "manifests", nil, "folder or file with manifests; may be repeated")
	cmd.Flags().BoolVar(&live, "live", false, "start each server and compare its tools with its manifest")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "log what happens while servers are started")
	return cmd
}

func (c *cli) showChecked(res *daemon.Checked) {
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
		c.out.Printf("%s %s", c.out.Paint(style, mark), c.out.Paint(console.Bold, s.Name))
		if s.Disabled {
			c.out.Printf(" (disabled)")
		}
		if s.Live {
			c.out.Printf("  %s, MCP %s", count(len(s.Tools), "tool"), s.ProtocolVersion)
		}
		c.out.Printf("\n")
		for _, row := range [][2]string{
			{"manifest", s.Manifest}, {"url", s.URL}, {"command", strings.Join(quoteArgs(s.Command), " ")}, {"folder", s.Dir}, {"PATH", path},
		} {
			if row[1] != "" {
				c.out.Printf("   %-9s %s\n", row[0], console.Safe(row[1]))
			}
		}
		if s.Problem != "" {
			c.out.Printf("   %-9s %s\n", "problem", c.out.Paint(console.Red, console.Safe(s.Problem)))
		}
		for _, name := range s.Missing {
			c.out.Printf("   %-9s %s is in the manifest, but the server does not have it\n", "drift", console.Safe(name))
		}
		for _, name := range s.Undeclared {
			c.out.Printf("   %-9s %s is a tool of the server, but not in the manifest\n", "drift", console.Safe(name))
		}
	}
	c.showFaults(c.out, console.Yellow, "warning:", res.Warnings)
	c.showFaults(c.out, console.Red, "fault:", res.Faults)
	if len(res.Servers)+len(res.Faults) == 0 {
		c.out.Printf("no manifests found\n")
	}
}

// place is FILE:LINE:COLUMN as far as it is known.
func place(f daemon.CheckedFault) string {
	if f.File == "" || f.Line == 0 {
		return f.File
	}
	if f.Column == 0 {
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

func (c *cli) showFaults(w io.Writer, style console.Style, lead string, faults []daemon.CheckedFault) {
	for _, f := range faults {
		text := f.Message
		if f.Key != "" && !strings.Contains(text, f.Key) {
			text = f.Key + ": " + text
		}
		if at := place(f); at != "" {
			text = at + ": " + text
		}
		fmt.Fprintf(w, "%s %s\n", c.out.Paint(style, lead), console.Safe(text))
		if f.Hint != "" {
			fmt.Fprintf(w, "   %s %s\n", c.out.Paint(console.Cyan, "hint:"), console.Safe(f.Hint))
		}
	}
}

func quoteArgs(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = quoteArg(a)
	}
	return out
}
