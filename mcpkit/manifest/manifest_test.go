package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/manifesttest"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

func mustParse(t *testing.T, file, text string, lookup func(string) (string, bool)) *Manifest {
	t.Helper()
	m, err := Parse(file, []byte(text), lookup)
	if err != nil {
		t.Fatalf("parsing:\n%v", err)
	}
	return m
}

func TestTheGuidesExampleIsAManifest(t *testing.T) {
	m := mustParse(t, "/srv/bot/apps/aurora-app-weather/manifest.yaml", manifesttest.Guide, nil)
	want := Default()
	want.Package, want.Name, want.Version, want.Type = "im.polaris.weather", "天气应用", "0.2.0", TypeServer
	want.MCP.Entry, want.MCP.Command = "mcp_server.py", Words{"uv", "run", "python"}
	want.MCP.Args = []string{"apps/aurora-app-weather/mcp_server.py"}
	want.MCP.Env = map[string]string{"AURORA_APP_CONFIG": "apps/aurora-app-weather/config.json"}
	want.MCP.HealthTimeout.Duration = 10 * time.Second
	want.MCP.Restart.Backoff.Duration = 2 * time.Second
	want.Commands = []Command{{"get_weather", "查询指定城市天气"}}
	want.Path, want.Line, want.Dir = "/srv/bot/apps/aurora-app-weather/manifest.yaml", 2, "/srv/bot/apps/aurora-app-weather"
	if diff := cmp.Diff(want, m, cmpopts.IgnoreUnexported(Manifest{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	argv := []string{"uv", "run", "python", "/srv/bot/apps/aurora-app-weather/mcp_server.py"}
	if got := m.Argv(); !slices.Equal(got, argv) {
		t.Errorf("argv is %q, want %q", got, argv)
	}
	if got := m.WorkDir(); got != "/srv/bot/apps/aurora-app-weather" {
		t.Errorf("the working directory is %q", got)
	}
}

func TestCommandEntryAndArgsMakeOneArgumentVector(t *testing.T) {
	for _, c := range []struct {
		mcp  string
		want []string
		dir  string
	}{
		{`{entry: bin/server}`, []string{"/apps/w/bin/server"}, "/apps/w"},
		{`{entry: bin/server, args: [-v]}`, []string{"/apps/w/bin/server", "-v"}, "/apps/w"},
		{`{entry: /opt/server}`, []string{"/opt/server"}, "/apps/w"},
		{`{command: python, entry: main.py}`, []string{"python", "/apps/w/main.py"}, "/apps/w"},
		{`{command: python, entry: main.py, args: []}`, []string{"python"}, "/apps/w"},
		{`{command: python, entry: main.py, args: [main.py, -q]}`, []string{"python", "/apps/w/main.py", "-q"}, "/apps/w"},
		{`{command: python, entry: main.py, args: [w/main.py]}`, []string{"python", "/apps/w/main.py"}, "/apps/w"},
		{`{command: python, entry: main.py, args: [src/main.py]}`, []string{"python", "src/main.py"}, "/apps/w"},
		{`{command: python, entry: main.py, args: [-m, x, ""]}`, []string{"python", "-m", "x", ""}, "/apps/w"},
		{`{command: ./run.sh}`, []string{"/apps/w/run.sh"}, "/apps/w"},
		{`{command: ../shared/run.sh, cwd: work}`, []string{"/apps/shared/run.sh"}, "/apps/w/work"},
		{`{command: "npx -y 'a b' \"c d\" e\\ f"}`, []string{"npx", "-y", "a b", "c d", "e f"}, "/apps/w"},
		{`{command: [npx, "a b"], cwd: /srv}`, []string{"npx", "a b"}, "/srv"},
		{`{command: "run ${TWO_WORDS}"}`, []string{"run", "two words"}, "/apps/w"},
		{`{url: "https://example.com/mcp"}`, nil, "/apps/w"},
	} {
		m := mustParse(t, "/apps/w/manifest.yaml", "package: w\ntype: mcp-server\nmcp: "+c.mcp+"\n", manifesttest.Env("TWO_WORDS=two words"))
		if got := m.Argv(); !slices.Equal(got, c.want) {
			t.Errorf("%s runs %q, want %q", c.mcp, got, c.want)
		}
		if got := m.WorkDir(); got != c.dir {
			t.Errorf("%s runs in %q, want %q", c.mcp, got, c.dir)
		}
	}
}

func TestEveryFaultOfAFileIsReportedWithItsPlaceAndRemedy(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no test files", err)
	}
	lookup := manifesttest.Env("SECRET=hunter2-hunter2", "SET=1")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(filepath.Base(file), data, lookup)
		if m != nil || err == nil {
			t.Errorf("%s is accepted", file)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the report shows what a variable holds: %v", file, err)
		}
		manifesttest.Golden(t, strings.TrimSuffix(file, ".yaml")+".golden", []byte(err.Error()+"\n"))
	}
}

func TestVariablesNeverBecomeStructure(t *testing.T) {
	nasty := "x\", injected: [\"\n  evil: true\n# ' {} ${SET} $$"
	m := mustParse(t, "/a/m.yaml", `
package: a
type: mcp-server
mcp:
  command: ["run", "${NASTY}"]
  args: ["${UNSET:-fall back}", "${EMPTY:-used}", "${EMPTY}", "$HOME $5 $${X} $$", "${SET:-}"]
  env: {V: "<${NASTY}>", D: "${MANIFEST_DIR}/c.json"}
  health_timeout: "${WAIT}"
  restart: {max_attempts: "${N}", enabled: "${ON}"}
`, manifesttest.Env("NASTY="+nasty, "EMPTY=", "SET=1", "WAIT=250ms", "N=7", "ON=false"))
	want := []string{"run", nasty, "fall back", "used", "", "$HOME $5 ${X} $", "1"}
	if got := m.Argv(); !slices.Equal(got, want) {
		t.Errorf("argv is\n%q, want\n%q", got, want)
	}
	if m.MCP.Env["V"] != "<"+nasty+">" || m.MCP.Env["D"] != "/a/c.json" || len(m.MCP.Env) != 2 {
		t.Errorf("env is %q", m.MCP.Env)
	}
	if m.MCP.HealthTimeout.Duration != 250*time.Millisecond || m.MCP.Restart.MaxAttempts != 7 || m.MCP.Restart.Enabled {
		t.Errorf("numbers are %+v", m.MCP)
	}
}

func TestADisabledServerMayLackItsVariables(t *testing.T) {
	text := "package: a\ntype: mcp-server\nmcp: {command: x, env: {T: \"${TOKEN}\"}}\n"
	m := mustParse(t, "a.yaml", "disabled: true\n"+text, nil)
	if !m.Disabled || len(m.Warnings) != 1 || m.Warnings[0].Line != 4 {
		t.Errorf("got %+v with %v", m, m.Warnings)
	}
	if _, err := Parse("a.yaml", []byte(text), nil); err == nil {
		t.Error("an enabled one is accepted without its variable")
	}
}

func TestPrivateKeysAndAnchorsAreAllowed(t *testing.T) {
	m := mustParse(t, "a.yaml", `
x-common: &env {A: "1"}
package: a
type: mcp-server
mcp: {command: x, env: *env, x-note: [1, 2]}
`, nil)
	if m.MCP.Env["A"] != "1" {
		t.Errorf("env is %q", m.MCP.Env)
	}
}

func TestAnAliasBombEndsInABoundedReport(t *testing.T) {
	var b strings.Builder
	b.WriteString("x-0: &a0 [{name: x}]\n")
	b.WriteString("x-1: &a1 {name: y")
	for i := range 2000 {
		fmt.Fprintf(&b, ", k%d: 1", i)
	}
	b.WriteString("}\npackage: a\ntype: mcp-server\nmcp: {command: x}\ncommands: [")
	for range 2000 {
		b.WriteString("*a1,")
	}
	b.WriteString("]\n")
	_, err := Parse("bomb.yaml", []byte(b.String()), nil)
	if n := len(Faults(err)); n != strict.MaxFaults+1 {
		t.Errorf("%d faults", n)
	}
}

func TestASecretIsKnownByItsNameOrByTheList(t *testing.T) {
	m := mustParse(t, "a.yaml", `
package: a
type: mcp-server
mcp:
  command: x
  env: {GITHUB_TOKEN: tok-0123456789, USE_TOKEN: "true", TOKEN_FILE: /run/secret/token, MONKEY: banana-banana, PLAIN: listed, OPENAI_API_KEY: key-0123456789}
  secrets: [PLAIN]
`, nil)
	if got, want := m.SecretValues(), []string{"key-0123456789", "listed", "tok-0123456789"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	h := mustParse(t, "h.yaml", `
package: h
type: mcp-server
mcp: {url: "https://me:pass-word@example.com/", headers: {Authorization: Bearer abcdefgh12345}}
`, nil)
	if got, want := h.SecretValues(), []string{"Bearer abcdefgh12345", "abcdefgh12345", "pass-word"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDriftComparesCommandsWithAndWithoutThePackage(t *testing.T) {
	m := &Manifest{Package: "im.w", Commands: []Command{{Name: "get"}, {Name: "im.w.set"}, {Name: "gone"}}}
	got := m.Drift([]string{"im.w.get", "set", "extra"})
	if diff := cmp.Diff(Drift{Missing: []string{"gone"}, Undeclared: []string{"extra"}}, got); diff != "" {
		t.Error(diff)
	}
	if m.Commands = nil; !m.Drift([]string{"any"}).None() {
		t.Error("a manifest without commands drifts")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(manifesttest.Guide))
	files, _ := filepath.Glob("testdata/faults/*.yaml")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data)
		}
	}
	f.Add([]byte("a: &a [*a]\nmcp: *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("f.yaml", data, manifesttest.Env("SET=1"))
		if (m == nil) == (err == nil) {
			t.Fatalf("manifest %v and error %v", m, err)
		}
		for _, fault := range Faults(err) {
			if fault.Line < 1 || fault.Column < 1 || fault.Message == "" {
				t.Fatalf("fault without a place or a word: %+v", fault)
			}
		}
		if m != nil && (!ValidPackage(m.Package) || m.MCP.Transport == Stdio && len(m.Argv()) == 0) {
			t.Fatalf("not fit to run: %+v", m)
		}
	})
}
