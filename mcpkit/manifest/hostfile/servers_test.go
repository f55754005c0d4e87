package hostfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/manifesttest"
)

// report writes servers, warnings and faults for people to compare.
func report(list []*manifest.Manifest, faults []*manifest.Fault) string {
	var b strings.Builder
	for _, m := range list {
		if m.Faulty {
			continue
		}
		fmt.Fprintf(&b, "%s (%s) line %d", m.Package, m.Name, m.Line)
		if m.Disabled {
			b.WriteString(" disabled")
		}
		if m.MCP.Transport == manifest.HTTP {
			fmt.Fprintf(&b, "\n  url %s headers %q\n", m.MCP.URL, m.MCP.Headers)
		} else {
			fmt.Fprintf(&b, "\n  %q in %s env %q\n", m.Argv(), m.WorkDir(), m.MCP.Env)
		}
		if c, d := m.MCP, manifest.Default().MCP; c.CallTimeout != d.CallTimeout || c.HealthTimeout.Duration != foreignHealth {
			fmt.Fprintf(&b, "  ready within %v, calls within %v\n", c.HealthTimeout, c.CallTimeout)
		}
		if c := m.MCP; c.EnvFile+c.Auth.ClientID != "" || c.Tools.Include != nil || c.Tools.Exclude != nil {
			fmt.Fprintf(&b, "  env file %q, client %q, tools %q without %q\n", c.EnvFile, c.Auth.ClientID, c.Tools.Include, c.Tools.Exclude)
		}
		for _, w := range m.Warnings {
			fmt.Fprintf(&b, "  warning: %v\n", w)
		}
	}
	for _, f := range faults {
		fmt.Fprintf(&b, "fault: %v\n", f)
	}
	return b.String()
}

func TestServersFilesOfOtherHostsAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/servers/*.[jty]*")
	if err != nil || len(files) == 0 {
		t.Fatal("no test files", err)
	}
	lookup := manifesttest.Env("HOME=/home/me", "API_KEY=key", "REGION=asia")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := "/project"
		if filepath.Base(file) == "vscode.json" {
			dir = "/project/.vscode"
		}
		got := report(Parse(filepath.Base(file), dir, data, lookup, false))
		manifesttest.Golden(t, strings.TrimSuffix(file, filepath.Ext(file))+".golden", []byte(got))
	}
}

func TestAnImportedServerMeansTheSameAsBefore(t *testing.T) {
	lookup := manifesttest.Env("HOME=/home/me", "API_KEY=key", "REGION=asia", "TOKEN=t", "PERPLEXITY_KEY=")
	for _, name := range []string{
		"claude.json", "vscode.json", "others.json", "zed.json", "amp.json", "opencode.json", "codex.toml", "goose.yaml", "continue.yaml",
		"librechat.yaml", "bare.json", "listed.json", "gemini.json",
	} {
		file, err := filepath.Abs("testdata/servers/" + name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		direct, _ := Parse(file, filepath.Dir(file), data, lookup, false)
		direct = slices.DeleteFunc(direct, func(m *manifest.Manifest) bool { return m.Faulty })
		imported, _ := Convert(file, data)
		if len(imported) != len(direct) || len(direct) == 0 {
			t.Fatalf("%s: %d servers imported, %d read", name, len(imported), len(direct))
		}
		for i, m := range imported {
			text := Marshal(m)
			back, err := manifest.Parse("/elsewhere/"+m.Package+".yaml", text, lookup)
			if err != nil {
				t.Errorf("%s: %v in\n%s", m.Name, err, text)
				continue
			}
			opts := []cmp.Option{cmpopts.IgnoreFields(manifest.Manifest{}, "Level", "Shared", "Faulty", "Raw", "Path", "Line", "Dir", "Warnings"), cmpopts.IgnoreFields(manifest.MCP{}, "Cwd", "Command"), cmpopts.EquateEmpty()}
			if diff := cmp.Diff(direct[i], back, opts...); diff != "" {
				t.Errorf("%s: (-direct +imported)\n%s", m.Name, diff)
			}
			if m.MCP.Transport == manifest.Stdio && (back.WorkDir() != direct[i].WorkDir() || !slices.Equal(back.Argv(), direct[i].Argv())) {
				t.Errorf("%s: runs %q in %s, before %q in %s", m.Name, back.Argv(), back.WorkDir(), direct[i].Argv(), direct[i].WorkDir())
			}
		}
	}
}

func mustParse(t *testing.T, text string) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Parse("/apps/w/manifest.yaml", []byte(text), nil)
	if err != nil {
		t.Fatalf("parsing:\n%v", err)
	}
	return m
}

func TestMarshalLeavesOutDefaultsAndKeepsTheRest(t *testing.T) {
	m := mustParse(t, manifesttest.Guide)
	m.MCP.Restart.Enabled = false
	m.MCP.MaxLine = 1 << 20
	m.Warnings = []*manifest.Fault{{Key: "x", Message: "odd\nthing: - {"}}
	text := Marshal(m)
	manifesttest.Golden(t, "testdata/marshal.golden", text)
	back := mustParse(t, string(text))
	if diff := cmp.Diff(m, back, cmpopts.IgnoreFields(manifest.Manifest{}, "Level", "Shared", "Faulty", "Raw", "Line", "Warnings")); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
}

func FuzzServers(f *testing.F) {
	files, _ := filepath.Glob("testdata/servers/*.json")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, faults := Parse("f.json", "/x", data, nil, false)
		for _, fault := range faults {
			if fault.Line < 1 || fault.Column < 1 || fault.Message == "" {
				t.Fatalf("fault without a place or a word: %+v", fault)
			}
		}
		imported, _ := Convert("/x/f.json", data)
		for _, m := range imported {
			_, err := manifest.Parse("m.yaml", Marshal(m), func(string) (string, bool) { return "v", true })
			for _, fault := range manifest.Faults(err) {
				// A value may outgrow a rule once its variables are in, but what
				// was written is YAML and has no key that is unknown.
				if fault.Message == "unknown key" || fault.Key == "" {
					t.Fatalf("%v in\n%s", fault, Marshal(m))
				}
			}
		}
	})
}
