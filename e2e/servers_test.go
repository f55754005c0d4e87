//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// thirdParty are the servers that nobody here wrote: how each is started from
// the folder of e2e/setup, and a call of one of its tools that works without a
// network beyond this machine.
var thirdParty = []struct {
	name, command, env string
	tool, args         string
	want               string // in the result's text; empty where only an answer is asked for
	fails              bool   // the tool's own failure is the answer: it wants the internet
}{
	{name: "everything", command: "mcp-server-everything", tool: "echo", args: `{"message":"hello"}`, want: "hello"},
	{name: "filesystem", command: "mcp-server-filesystem, ${SCRATCH}", tool: "list_allowed_directories", args: `{}`, want: "Allowed directories"},
	{name: "memory", command: "mcp-server-memory", env: "MEMORY_FILE_PATH: ${SCRATCH}/memory.jsonl", tool: "create_entities",
		args: `{"entities":[{"name":"Aurora","entityType":"bot","observations":["has hands"]}]}`, want: "Aurora"},
	{name: "thinking", command: "mcp-server-sequential-thinking", tool: "sequentialthinking",
		args: `{"thought":"one","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`, want: "thoughtNumber"},
	{name: "playwright", command: "playwright-mcp, --headless, --no-sandbox, --isolated, --executable-path, /usr/bin/chromium",
		tool: "browser_navigate", args: `{"url":"data:text/html,<title>Aurora</title><h1>Hello</h1>"}`, want: "Page URL"},
	{name: "desktop", command: "desktop-commander", tool: "get_config", args: `{}`, want: "configuration"},
	{name: "runner", command: "mcp-server-code-runner", tool: "run-code", args: `{"code":"console.log(6*7)","languageId":"javascript"}`, want: "42"},
	{name: "airbnb", command: "mcp-server-airbnb", tool: "airbnb_search", args: `{"location":"Berlin"}`, want: "rror", fails: true},
	{name: "context7", command: "context7-mcp", tool: "resolve-library-id", args: `{"libraryName":"go","query":"channels"}`, want: "rror", fails: true},
	{name: "mongodb", command: "mongodb-mcp-server", env: `MDB_MCP_TELEMETRY: "disabled"`, tool: "list-connections", args: `{}`},
}

// manifestOf starts a server through npx, as people do: npx, a shell and node
// make a chain of processes.
func manifestOf(name, command, env string, scratch string) string {
	text := fmt.Sprintf(`package: %s
version: 1.0.0
type: mcp-server
mcp:
  command: [npx, --no-install, %s]
  cwd: %s
  health_timeout: 180
  call_timeout: 120
  env:
    HOME: %s
`, name, strings.ReplaceAll(command, "${SCRATCH}", scratch), filepath.Join(root, ".tools/npm"), scratch)
	if env != "" {
		text += "    " + strings.ReplaceAll(env, "${SCRATCH}", scratch) + "\n"
	}
	return text
}

// ownApps are the manifests of the three apps.
func ownApps(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, app := range []string{"weather", "clock", "diary"} {
		raw, err := os.ReadFile(filepath.Join(root, "apps", app, "manifest.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all[app+".yaml"] = string(raw)
	}
	return all
}

func TestServersThatNobodyHereWroteAreCalledInASandbox(t *testing.T) {
	manifests := ownApps(t)
	for name, text := range manifests {
		manifests[name] = strings.Replace(text, "\nmcp:\n", "\nmcp:\n  sandbox: {profile: offline}\n", 1)
	}
	profiles := map[string]string{
		"everything": "strict", "filesystem": "offline", "memory": "strict", "thinking": "strict", "desktop": "default",
		"runner": "offline", "context7": "default", "mongodb": "default",
	}
	for _, s := range thirdParty {
		if profile := profiles[s.name]; profile != "" {
			manifests[s.name+".yaml"] = manifestOf(s.name, s.command, s.env, t.TempDir()) + "  sandbox: {profile: " + profile + "}\n"
		}
	}
	p := start(t, manifests)
	p.ready(len(manifests), 4*time.Minute)
	var listed struct {
		Servers []struct{ Name, Sandbox string }
	}
	if out, err := p.verb("servers", "--json"); err != nil || json.Unmarshal(out, &listed) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, s := range listed.Servers {
		if want := cmp.Or(profiles[s.Name], "offline"); s.Sandbox != want {
			t.Errorf("%s is confined by %q, want %q", s.Name, s.Sandbox, want)
		}
	}
	for _, s := range thirdParty {
		if profiles[s.name] == "" {
			continue
		}
		out, err := p.verb("call", s.name+"."+s.tool, s.args, "--timeout", "120s", "--json")
		if err != nil && !s.fails {
			t.Errorf("%s: %v", s.name, err)
		}
		if !strings.Contains(string(out), s.want) {
			t.Errorf("%s: the result lacks %q: %s", s.name, s.want, out)
		}
	}
	if _, err := p.verb("call", "im.polaris.diary.write_entry", `{"date":"2026-11-29","content":"今天很好"}`); err != nil {
		t.Error(err)
	}
	p.end(syscall.SIGTERM, 30*time.Second)
}

func TestServersThatNobodyHereWroteAreRunAndCalled(t *testing.T) {
	manifests := ownApps(t)
	for _, s := range thirdParty {
		scratch := t.TempDir()
		manifests[s.name+".yaml"] = manifestOf(s.name, s.command, s.env, scratch)
	}
	p := start(t, manifests)
	all := len(thirdParty) + 3
	p.ready(all, 4*time.Minute)

	var listed struct {
		Tools []struct {
			ExportName string `json:"export_name"`
			Source     struct {
				Server       string `json:"server"`
				OriginalName string `json:"original_name"`
			} `json:"source"`
		}
	}
	out, err := p.verb("tools", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		t.Fatal(err)
	}
	export := make(map[string]string)
	perServer := make(map[string]int)
	for _, tool := range listed.Tools {
		export[tool.Source.Server+"/"+tool.Source.OriginalName] = tool.ExportName
		perServer[tool.Source.Server]++
	}
	if len(perServer) != all {
		t.Errorf("tools of %d servers are listed, want %d: %v", len(perServer), all, perServer)
	}
	t.Logf("%d tools: %v", len(listed.Tools), perServer)

	calls := 0
	for _, s := range thirdParty {
		t.Run(s.name, func(t *testing.T) {
			name := export[s.name+"/"+s.tool]
			if name == "" {
				t.Fatalf("the tool %s is not listed", s.tool)
			}
			out, err := p.verb("call", name, s.args, "--timeout", "120s", "--json")
			calls++
			if err != nil && !s.fails {
				t.Fatal(err)
			}
			if !strings.Contains(string(out), s.want) {
				t.Errorf("the result lacks %q: %s", s.want, out)
			}
		})
	}
	for _, c := range [][2]string{
		{"im.polaris.clock.get_time", `{"timezone":"Asia/Shanghai"}`},
		{"im.polaris.diary.write_entry", `{"date":"2026-11-29","content":"今天很好"}`},
		{"im.polaris.diary.search_entries", `{"query":"很好"}`},
	} {
		if _, err := p.verb("call", c[0], c[1]); err != nil {
			t.Error(err)
		}
		calls++
	}

	until(t, 20*time.Second, "an event of each start and each call", func() (bool, any) {
		started, called := p.count("lifecycle.started", ""), p.count("tool.completed", "")+p.count("tool.failed", "")
		return started == all && called == calls, fmt.Sprintf("%d of %d started, %d of %d called", started, all, called, calls)
	})
	if n := p.count("diary.written", "im.polaris.diary"); n != 1 {
		t.Errorf("%d events diary.written, want 1", n)
	}

	p.end(syscall.SIGTERM, 30*time.Second)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the platform ended with %d", code)
	}
	p.nothingLeft()
	if n := p.count("lifecycle.stopped", ""); n != all {
		t.Errorf("%d events lifecycle.stopped, want %d", n, all)
	}
	if n := p.count("lifecycle.crashed", ""); n != 0 {
		t.Errorf("%d servers crashed", n)
	}
}

func TestKillingThePlatformLeavesNoChildOrGrandchild(t *testing.T) {
	scratch := t.TempDir()
	p := start(t, map[string]string{
		"everything.yaml": manifestOf("everything", "mcp-server-everything", "", scratch),
		"playwright.yaml": manifestOf("playwright", "playwright-mcp, --headless, --no-sandbox, --isolated, --executable-path, /usr/bin/chromium", "", scratch),
		"airbnb.yaml":     manifestOf("airbnb", "mcp-server-airbnb", "", scratch),
	})
	p.ready(3, 2*time.Minute)
	// A browser is a family of processes of its own, some in other sessions.
	if _, err := p.verb("call", "playwright.browser_navigate", `{"url":"data:text/html,hello"}`, "--timeout", "60s"); err != nil {
		t.Fatal(err)
	}
	before := p.leftovers()
	if len(before) < 6 {
		t.Errorf("only %d processes run: %v", len(before), before)
	}
	p.end(syscall.SIGKILL, 10*time.Second)
	p.nothingLeft()

	// Started again on the same folder, it finds a dead socket and an inbox in use.
	p.run()
	p.ready(3, 2*time.Minute)
	p.end(syscall.SIGTERM, 30*time.Second)
	p.nothingLeft()
}
