package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/hostfile"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// imported is what --json prints of one server.
type imported struct {
	Package  string   `json:"package"`
	Name     string   `json:"name"`
	From     string   `json:"from"` // FILE:LINE
	File     string   `json:"file"` // of its manifest
	State    string   `json:"state"`
	Unset    []string `json:"unset,omitempty"`
	Kept     []string `json:"kept,omitempty"`
	Literal  []string `json:"literal_secrets,omitempty"`
	Replaces []string `json:"replaces,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// States of an imported server.
const (
	written = "written"
	planned = "planned" // by --dry-run
	exists  = "exists"
)

// importOptions are the flags of the verb.
type importOptions struct {
	cli.Settings
	to         string
	only       []string
	dry, force bool
}

// NewImportCommand makes the verb "import".
func NewImportCommand(c *cli.Env) *cobra.Command {
	var o importOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "import [FILE...]",
		Short: "Turn the servers of another MCP host into manifests",
		Long: `Turn the servers of other hosts' files into manifests, one file each. The files are
those of Claude Desktop and Code, VS Code, Cursor, Windsurf, Gemini CLI, Zed, Amp,
opencode, Codex, Goose, Continue, LibreChat and others; they are never changed.
Without FILE the files that such hosts have on this machine are listed.

Variables stay variables: ${env:X} becomes ${X}, ${input:some-id} of VS Code becomes
${SOME_ID}. Keys that only the other host understands are kept under x-imported.
Where several files have a server of the same name, the first file named counts.

A manifest that exists is left alone, unless --force is given. The exit code is 3 when
an entry could not be taken over or a manifest exists.`,
		Example: `  platform import .mcp.json
  platform import ~/.config/Claude/claude_desktop_config.json --server github --dry-run`,
		RunE: func(cmd *cobra.Command, files []string) error {
			return runImport(c, o, files)
		},
	})
	cmd.Flags().StringVar(&o.to, "to", "", `folder for the manifests (default the first of platform.yaml, else "manifests")`)
	o.ConfigFlag(cmd)
	cmd.Flags().StringArrayVar(&o.only, "server", nil, "import only this server; may be repeated")
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "show the manifests, write nothing")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace manifests that exist")
	return cmd
}

func runImport(c *cli.Env, o importOptions, files []string) error {
	if len(files) == 0 {
		return listHosts(c)
	}
	if o.to == "" {
		set, err := c.Options(o.Settings)
		if err != nil {
			return err
		}
		o.to = settings.DefaultManifests
		if i := slices.IndexFunc(set.Manifests, func(m string) bool { return m != settings.Builtin }); i >= 0 {
			o.to = set.Manifests[i]
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	plan := hostfile.Read(files, hostfile.Options{Dir: dir, Lookup: os.LookupEnv})
	for _, name := range o.only {
		if !slices.ContainsFunc(plan.Servers, named(name)) {
			return cli.Hint(fmt.Errorf("there is no server %q in the files", name), "platform import "+cli.QuoteArgs(files)+" --dry-run shows what there is")
		}
	}
	return importServers(c, plan, o)
}

func named(name string) func(*hostfile.Server) bool {
	return func(s *hostfile.Server) bool { return s.Name == name || s.Package == name }
}

func importServers(c *cli.Env, plan *hostfile.Plan, o importOptions) error {
	var all []imported
	complete := len(plan.Faults) == 0
	for _, s := range plan.Servers {
		if len(o.only) > 0 && !slices.ContainsFunc(o.only, func(name string) bool { return named(name)(s) }) {
			continue
		}
		v := imported{
			Package: s.Package, Name: s.Name, From: fmt.Sprintf("%s:%d", s.Path, s.Line), File: filepath.Join(o.to, s.File()), State: written,
			Unset: s.Unset, Kept: s.Kept, Literal: literalSecrets(s), Replaces: s.Replaces,
		}
		for _, w := range s.Warnings {
			v.Warnings = append(v.Warnings, w.Error())
		}
		if o.dry {
			v.State = planned
		} else if err := s.Write(o.to, o.force); errors.Is(err, fs.ErrExist) {
			v.State, complete = exists, false
		} else if err != nil {
			return fmt.Errorf("writing the manifest of %s: %w", s.Package, err)
		}
		if !c.JSON {
			showImported(c, v, s.Text)
		}
		all = append(all, v)
	}
	if c.JSON {
		faults := make([]string, len(plan.Faults))
		for i, f := range plan.Faults {
			faults[i] = f.Error()
		}
		err := c.PrintJSON(struct {
			Servers []imported `json:"servers"`
			Faults  []string   `json:"faults"`
		}{append([]imported{}, all...), faults})
		if err != nil {
			return err
		}
	} else {
		showImportFaults(c, plan.Faults)
	}
	if !complete {
		return cli.ErrFindings
	}
	return nil
}

func showImported(c *cli.Env, v imported, text []byte) {
	mark, style := "ok", console.Green
	if v.State == exists {
		mark, style = "!!", console.Yellow
	}
	c.Out.Printf("%s %s  %s\n", c.Out.Paint(style, mark), c.Out.Paint(console.Bold, v.Package), console.Safe(v.File))
	row := func(label, format string, args ...any) {
		c.Out.Printf("   %-9s %s\n", label, console.Safe(fmt.Sprintf(format, args...)))
	}
	row("from", "%s", v.From)
	switch v.State {
	case exists:
		row("problem", "the manifest exists and was left alone; --force replaces it")
	case planned:
		for line := range strings.Lines(string(text)) {
			c.Out.Printf("   | %s\n", console.Safe(strings.TrimRight(line, "\n")))
		}
	}
	if len(v.Unset) > 0 {
		row("set", "%s in the platform's environment before it starts", strings.Join(v.Unset, ", "))
	}
	if len(v.Literal) > 0 {
		row("secret", "%s stands in the file as it is; a variable such as ${%s} is better", strings.Join(v.Literal, ", "), variableOf(v.Literal[0]))
	}
	if len(v.Kept) > 0 {
		row("kept", "%s, which only the other host understands", strings.Join(v.Kept, ", "))
	}
	if len(v.Replaces) > 0 {
		row("instead of", "%s", strings.Join(v.Replaces, ", "))
	}
}

// literalSecrets are the names of what holds a secret that stands in the file: by its
// name, or because it has the shape of one under whichever name.
func literalSecrets(s *hostfile.Server) []string {
	names := slices.Clone(s.Literal)
	var shapes *redact.Redactor
	look := func(name, value string) {
		if _, hits := shapes.String(variables.ReplaceAllString(value, "")); len(hits) > 0 {
			names = append(names, name)
		}
	}
	for _, values := range []map[string]string{s.MCP.Env, s.MCP.Headers} {
		for name, value := range values {
			look(name, value)
		}
	}
	before := ""
	for i, arg := range slices.Concat([]string(s.MCP.Command), s.MCP.Args) {
		name := fmt.Sprintf("argument %d", i)
		switch flag, _, inline := strings.Cut(arg, "="); {
		case inline && strings.HasPrefix(arg, "-"):
			name = flag
		case strings.HasPrefix(before, "-"):
			name = before
		}
		look(name, arg)
		before = arg
	}
	look("url", s.MCP.URL)
	slices.Sort(names)
	return slices.Compact(names)
}

// variables are the places of a value that are no secret, whatever will stand there.
var variables = regexp.MustCompile(`\$\{[^}]*\}`)

// variableOf is a name as environment variables are spelt.
func variableOf(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToUpper(name), "_"), "_")
}

var notInNames = regexp.MustCompile(`[^A-Z0-9]+`)

func showImportFaults(c *cli.Env, faults []*manifest.Fault) {
	for _, f := range faults {
		c.Out.Printf("%s %s\n", c.Out.Paint(console.Red, "fault:"), console.Safe(f.Error()))
	}
}
