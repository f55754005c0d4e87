package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// describe writes servers, warnings and faults for people to compare.
func describe(list []*Manifest, faults []*Fault) string {
	var b strings.Builder
	for _, m := range list {
		if m.faulty {
			continue
		}
		fmt.Fprintf(&b, "%s (%s) line %d", m.Package, m.Name, m.Line)
		if m.Disabled {
			b.WriteString(" disabled")
		}
		if m.MCP.Transport == HTTP {
			fmt.Fprintf(&b, "\n  url %s headers %q\n", m.MCP.URL, m.MCP.Headers)
		} else {
			fmt.Fprintf(&b, "\n  %q in %s env %q\n", m.Argv(), m.WorkDir(), m.MCP.Env)
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
	files, err := filepath.Glob("testdata/servers/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no test files", err)
	}
	lookup := env("HOME=/home/me", "API_KEY=key", "REGION=asia")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := "/project"
		if filepath.Base(file) == "vscode.json" {
			dir = "/project/.vscode"
		}
		got := describe(parseServers(filepath.Base(file), dir, data, foreignOptions{lookup: lookup}))
		golden(t, strings.TrimSuffix(file, ".json")+".golden", []byte(got))
	}
}

func TestStrictMakesUnsetVariablesFaults(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir+"/.mcp.json", `{"mcpServers": {"a": {"command": "x", "args": ["${NO}"]}, "b": {"command": "x"}}}`)
	got, err := Load(Options{Dirs: []string{file}, Strict: true})
	want := file + ":1:48: mcpServers.a.args[0]: the variable NO is not set and has no default"
	if err == nil || err.Error() != want || !slices.Equal(packages(got), []string{"b"}) {
		t.Errorf("got %v and %v", packages(got), err)
	}
	got, err = Load(Options{Dirs: []string{file}})
	if err != nil || len(got) != 2 || len(got[0].Warnings) != 1 {
		t.Errorf("otherwise got %v and %v", packages(got), err)
	}
}

func TestFaultsBeyondTheReportSpoilTheirServersToo(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"mcpServers": {`)
	for i := range 500 {
		fmt.Fprintf(&b, `"s%d": {"args": 1},`, i)
	}
	b.WriteString(`"good": {"command": "x"}}}`)
	got, err := Load(Options{Dirs: []string{write(t, t.TempDir()+"/mcp.json", b.String())}})
	if !slices.Equal(packages(got), []string{"good"}) || len(Faults(err)) != 101 {
		t.Errorf("loaded %q with %d faults", packages(got), len(Faults(err)))
	}
}

func TestAnImportedServerMeansTheSameAsBefore(t *testing.T) {
	lookup := env("HOME=/home/me", "API_KEY=key", "REGION=asia", "TOKEN=t", "PERPLEXITY_KEY=")
	for _, name := range []string{"claude", "vscode", "others"} {
		file, err := filepath.Abs("testdata/servers/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		direct, _ := parseServers(file, filepath.Dir(file), data, foreignOptions{lookup: lookup})
		direct = slices.DeleteFunc(direct, func(m *Manifest) bool { return m.faulty })
		imported, _ := Convert(file, data)
		if len(imported) != len(direct) || len(direct) == 0 {
			t.Fatalf("%s: %d servers imported, %d read", name, len(imported), len(direct))
		}
		for i, m := range imported {
			text := Marshal(m)
			back, err := Parse("/elsewhere/"+m.Package+".yaml", text, lookup)
			if err != nil {
				t.Errorf("%s: %v in\n%s", m.Name, err, text)
				continue
			}
			opts := []cmp.Option{cmpopts.IgnoreUnexported(Manifest{}), cmpopts.IgnoreFields(Manifest{}, "Path", "Line", "Dir", "Warnings"), cmpopts.IgnoreFields(MCP{}, "Cwd", "Command"), cmpopts.EquateEmpty()}
			if diff := cmp.Diff(direct[i], back, opts...); diff != "" {
				t.Errorf("%s: (-direct +imported)\n%s", m.Name, diff)
			}
			if m.MCP.Transport == Stdio && (back.WorkDir() != direct[i].WorkDir() || !slices.Equal(back.Argv(), direct[i].Argv())) {
				t.Errorf("%s: runs %q in %s, before %q in %s", m.Name, back.Argv(), back.WorkDir(), direct[i].Argv(), direct[i].WorkDir())
			}
		}
	}
}

func TestMarshalLeavesOutDefaultsAndKeepsTheRest(t *testing.T) {
	m := mustParse(t, "/apps/w/manifest.yaml", guide, nil)
	m.MCP.Restart.Enabled = false
	m.MCP.MaxLine = 1 << 20
	m.Warnings = []*Fault{{Key: "x", Message: "odd\nthing: - {"}}
	text := Marshal(m)
	golden(t, "testdata/marshal.golden", text)
	back := mustParse(t, "/apps/w/manifest.yaml", string(text), nil)
	if diff := cmp.Diff(m, back, cmpopts.IgnoreUnexported(Manifest{}), cmpopts.IgnoreFields(Manifest{}, "Line", "Warnings")); diff != "" {
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
		_, faults := parseServers("f.json", "/x", data, foreignOptions{})
		for _, fault := range faults {
			if fault.Line < 1 || fault.Column < 1 || fault.Message == "" {
				t.Fatalf("fault without a place or a word: %+v", fault)
			}
		}
		imported, _ := Convert("/x/f.json", data)
		for _, m := range imported {
			_, err := Parse("m.yaml", Marshal(m), func(string) (string, bool) { return "v", true })
			for _, fault := range Faults(err) {
				// A value may outgrow a rule once its variables are in, but what
				// was written is YAML and has no key that is unknown.
				if fault.Message == "unknown key" || fault.Key == "" {
					t.Fatalf("%v in\n%s", fault, Marshal(m))
				}
			}
		}
	})
}
