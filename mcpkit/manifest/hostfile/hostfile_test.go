package hostfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/manifesttest"
)

// taken is each server's command by name.
func taken(p *Plan) map[string]string {
	out := make(map[string]string)
	for _, s := range p.Servers {
		out[s.Name] = s.MCP.Command[0]
	}
	return out
}

func TestTheFirstFileCountsAndInItWhatIsForTheNearestProject(t *testing.T) {
	dir := t.TempDir()
	project := manifesttest.Write(t, dir+"/.mcp.json", `{"mcpServers": {"a": {"command": "project-a"}}}`)
	user := manifesttest.Write(t, dir+"/.claude.json", `{
		"mcpServers": {"a": {"command": "user-a"}, "b": {"command": "user-b"}, "c": {"command": "user-c"}},
		"projects": {
			"/src": {"mcpServers": {"b": {"command": "src-b"}, "c": {"command": "src-c"}}},
			"/src/app": {"mcpServers": {"b": {"command": "app-b"}}},
			"/src/apple": {"mcpServers": {"c": {"command": "apple-c"}}},
			"relative": {"mcpServers": {"d": {"command": "d"}}}
		}}`)
	p := Read([]string{project, user}, Options{Dir: "/src/app/cmd"})
	want := map[string]string{"a": "project-a", "b": "app-b", "c": "src-c"}
	if diff := cmp.Diff(want, taken(p)); diff != "" || len(p.Faults) > 0 {
		t.Errorf("%s %v", diff, p.Faults)
	}
	for _, s := range p.Servers {
		if want := map[string]int{"a": 1, "b": 2, "c": 1}[s.Name]; len(s.Replaces) != want {
			t.Errorf("%s stands instead of %q", s.Name, s.Replaces)
		}
	}
	p = Read([]string{user}, Options{Dir: "/elsewhere"})
	if diff := cmp.Diff(map[string]string{"a": "user-a", "b": "user-b", "c": "user-c"}, taken(p)); diff != "" {
		t.Error(diff)
	}
}

func TestAFileThatCannotBeReadIsAFaultAndTheOthersAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	good := manifesttest.Write(t, dir+"/mcp.json", "\ufeff{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}")
	p := Read([]string{dir + "/missing", dir + "/pipe", dir, manifesttest.Write(t, dir+"/bad.json", `{"mcpServers": [`), good}, Options{})
	var files []string
	for _, f := range p.Faults {
		files = append(files, filepath.Base(f.File))
	}
	if want := []string{"missing", "pipe", filepath.Base(dir), "bad.json"}; !slices.Equal(files, want) || len(p.Servers) != 1 {
		t.Errorf("faults of %q, %d servers", files, len(p.Servers))
	}
}

func TestVariablesSecretsAndForeignKeysAreSaid(t *testing.T) {
	file := manifesttest.Write(t, t.TempDir()+"/mcp.json", `{"servers": {"s": {
		"url": "https://${HOST}/${env:PATH_PART}/${X:-y}", "headers": {"Authorization": "Bearer 0123456789", "X-Api-Key": "${input:the-key}"}, "tools": ["*"], "gallery": true}}}`)
	p := Read([]string{file}, Options{Lookup: func(name string) (string, bool) { return "h", name == "HOST" }})
	if len(p.Servers) != 1 {
		t.Fatal(p.Faults)
	}
	s := p.Servers[0]
	got := [][]string{s.Unset, s.Literal, s.Kept}
	if diff := cmp.Diff([][]string{{"PATH_PART", "THE_KEY"}, {"Authorization"}, {"gallery"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAManifestIsReplacedOnlyOnRequestAndIsForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	file := manifesttest.Write(t, t.TempDir()+"/mcp.json", `{"mcpServers": {"s": {"command": "x"}}}`)
	s := Read([]string{file}, Options{}).Servers[0]
	if err := s.Write(dir, false); err != nil {
		t.Fatal(err)
	}
	path := manifesttest.Write(t, filepath.Join(dir, "s.yaml"), "mine")
	if err := s.Write(dir, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("writing over a manifest: %v", err)
	}
	if raw, _ := os.ReadFile(path); string(raw) != "mine" {
		t.Errorf("it holds %q", raw)
	}
	if err := s.Write(dir, true); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || int(info.Size()) != len(s.Text) {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
