package load

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/manifesttest"
)

func simple(pkg, more string) string {
	return "package: " + pkg + "\ntype: mcp-server\nmcp: {command: server-of-" + pkg + "}\n" + more
}

func packages(list []*manifest.Manifest) []string {
	var out []string
	for _, m := range list {
		out = append(out, m.Package)
	}
	return out
}

func TestAFolderThatCannotBeReadKeepsWhatCameFromIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("package: a\ntype: mcp-server\nmcp: {command: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := Manifests(Options{Dirs: []string{dir}})
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	now, err := Manifests(Options{Dirs: []string{dir}})
	if kept := Keep(before, now, err); err == nil || len(kept) != 1 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

func TestOneBadManifestStopsNoOtherAndAllFaultsAreReported(t *testing.T) {
	dir := t.TempDir()
	manifesttest.Write(t, dir+"/a.yaml", simple("a", ""))
	manifesttest.Write(t, dir+"/b.yaml", simple("b", "colour: red\n"))
	manifesttest.Write(t, dir+"/c.yml", "{")
	manifesttest.Write(t, dir+"/app/manifest.yaml", simple("app", ""))
	manifesttest.Write(t, dir+"/app/config.yaml", "not: a manifest")
	manifesttest.Write(t, dir+"/old/manifest.yml", simple("old", "alias: [1]\n"))
	for _, ignored := range []string{".hidden.yaml", "x.yaml~", ".x.yaml.swp", "x.yaml.example", "README.md", "y.example/manifest.yaml", ".git/manifest.yaml", "deep/er/manifest.yaml"} {
		manifesttest.Write(t, filepath.Join(dir, ignored), "{")
	}
	missing := filepath.Join(dir, "missing")
	got, err := Manifests(Options{Dirs: []string{dir, missing}})
	if want := []string{"a", "app"}; !slices.Equal(packages(got), want) {
		t.Errorf("loaded %q, want %q", packages(got), want)
	}
	want := strings.Join([]string{
		"missing: no such file or directory",
		`b.yaml:4:1: colour: unknown key; known keys: package, name, version, type, alias, description, disabled, mcp, commands`,
		"c.yml:1:1: did not find expected node content",
		"old/manifest.yml:4:8: alias: want a string, got a list",
	}, "\n")
	if diff := cmp.Diff(want, strings.ReplaceAll(err.Error(), dir+"/", "")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOfTwoWithOnePackageOrAliasTheFirstIsKept(t *testing.T) {
	dir := t.TempDir()
	manifesttest.Write(t, dir+"/1.yaml", simple("one", "alias: w\n"))
	manifesttest.Write(t, dir+"/2.yaml", simple("One", ""))
	manifesttest.Write(t, dir+"/3.yaml", "\n"+simple("three", "alias: W\n"))
	manifesttest.Write(t, dir+"/4.yaml", simple("four", "alias: one\n"))
	got, err := Manifests(Options{Dirs: []string{dir, dir + "/1.yaml", dir}}) // reached twice, read once
	if want := []string{"one"}; !slices.Equal(packages(got), want) {
		t.Errorf("loaded %q, want %q", packages(got), want)
	}
	want := strings.Join([]string{
		"2.yaml:1:1: package: the package One is already in 1.yaml:1, which is kept",
		"3.yaml:2:1: alias: the alias W already names the server in 1.yaml:1, which is kept",
		"4.yaml:1:1: alias: the alias one already names the server in 1.yaml:1, which is kept",
	}, "\n")
	if diff := cmp.Diff(want, strings.ReplaceAll(err.Error(), dir+"/", "")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestProjectReplacesUserReplacesEmbedded(t *testing.T) {
	dir := t.TempDir()
	user := manifesttest.Write(t, dir+"/home/.mcp.json", `{"mcpServers": {"github": {"command": "user"}, "only-user": {"command": "user"}, "clock": {"command": "user"}}}`)
	manifesttest.Write(t, dir+"/project/.mcp.json", `{"mcpServers": {"github": {"command": "project"}, "diary": {"command": "x", "args": 5}}}`)
	fsys := fstest.MapFS{
		"clock/manifest.yaml": {Data: []byte(simple("clock", ""))},
		"diary/manifest.yaml": {Data: []byte(simple("diary", ""))},
		"w.yaml":              {Data: []byte("package: w\ntype: mcp-server\nmcp: {entry: bin/w}\n")},
	}
	got, err := Manifests(Options{
		User: []string{user, dir + "/none"}, Project: []string{dir + "/project", dir + "/neither"},
		Embedded: fsys, EmbeddedDir: "/data",
	})
	var lines []string
	for _, m := range got {
		lines = append(lines, m.Package+" "+strings.Join(m.Argv(), " "))
	}
	// The project's diary is at fault: what it was to replace must not run instead.
	want := []string{"clock user", "github project", "only-user user", "w /data/bin/w"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if w := got[0].Warnings; len(w) != 1 || w[0].Message != "replaces the built-in manifest of clock" {
		t.Errorf("of clock it is said %v", w)
	}
	if f := manifest.Faults(err); len(f) != 1 || f[0].Key != "mcpServers.diary.args" {
		t.Errorf("faults are %v", err)
	}
}

func TestLinksAreFollowedAndPathsStartFromTheRealFolder(t *testing.T) {
	dir := t.TempDir()
	manifesttest.Write(t, dir+"/apps/w/manifest.yaml", "package: w\ntype: mcp-server\nmcp: {entry: server}\n")
	manifesttest.Write(t, dir+"/apps/v/manifest.yaml", "package: v\ntype: mcp-server\nmcp: {entry: server}\n")
	if err := os.Mkdir(dir+"/enabled", 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"enabled/w.yaml": "../apps/w/manifest.yaml", "enabled/v": "../apps/v", "enabled/gone.yaml": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(dir+"/enabled/pipe.yaml", 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Manifests(Options{Dirs: []string{dir + "/enabled"}})
	real, errReal := filepath.EvalSymlinks(dir)
	if errReal != nil || len(got) != 2 || got[0].Argv()[0] != real+"/apps/v/server" || got[1].Argv()[0] != real+"/apps/w/server" {
		t.Errorf("got %v, %v", packages(got), err)
	}
	want := dir + "/enabled/gone.yaml: no such file or directory\n" + dir + "/enabled/pipe.yaml: not a regular file"
	if err == nil || err.Error() != want {
		t.Errorf("faults are\n%v\nwant\n%v", err, want)
	}
}

func TestABadEditKeepsWhatRan(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dirs: []string{dir}}
	load := func() ([]*manifest.Manifest, error) { return Manifests(o) }
	manifesttest.Write(t, dir+"/a.yaml", simple("a", ""))
	manifesttest.Write(t, dir+"/b.yaml", simple("b", ""))
	manifesttest.Write(t, dir+"/.mcp.json", `{"mcpServers": {"x": {"command": "x"}, "y": {"command": "y"}, "z": {"command": "z"}}}`)
	before, err := load()
	if err != nil {
		t.Fatal(err)
	}

	manifesttest.Write(t, dir+"/a.yaml", "{")
	manifesttest.Write(t, dir+"/.mcp.json", `{"mcpServers": {"x": {"args": 1}, "z": {"command": "new-z"}}}`)
	if err := os.Remove(dir + "/b.yaml"); err != nil {
		t.Fatal(err)
	}
	now, err := load()
	kept := Keep(before, now, err)
	if want := []string{"a", "x", "z"}; !slices.Equal(packages(kept), want) || kept[2].Argv()[0] != "new-z" {
		t.Errorf("kept %q (%v), want %q", packages(kept), err, want)
	}

	manifesttest.Write(t, dir+"/.mcp.json", `{"mcpServers": `)
	now, err = load()
	if got, want := packages(Keep(kept, now, err)), []string{"a", "x", "z"}; !slices.Equal(got, want) {
		t.Errorf("kept %q of an unreadable file, want %q", got, want)
	}

	manifesttest.Write(t, dir+"/c.yaml", simple("c", "alias: x\n"))
	aliased := *kept[0]
	aliased.Alias = "X"
	now, err = load()
	if got, want := packages(Keep([]*manifest.Manifest{&aliased}, now, err)), []string{"c"}; !slices.Equal(got, want) {
		t.Errorf("kept %q where an alias was taken, want %q", got, want)
	}
	if err := os.Remove(dir + "/c.yaml"); err != nil {
		t.Fatal(err)
	}

	if err := os.RemoveAll(dir + "/a.yaml"); err != nil {
		t.Fatal(err)
	}
	manifesttest.Write(t, dir+"/.mcp.json", `{}`)
	now, err = load()
	if got := Keep(kept, now, err); len(got) != 0 || err != nil {
		t.Errorf("kept %q of files that are gone (%v)", packages(got), err)
	}
}

func TestStrictMakesUnsetVariablesFaults(t *testing.T) {
	dir := t.TempDir()
	file := manifesttest.Write(t, dir+"/.mcp.json", `{"mcpServers": {"a": {"command": "x", "args": ["${NO}"]}, "b": {"command": "x"}}}`)
	got, err := Manifests(Options{Dirs: []string{file}, Strict: true})
	want := file + ":1:48: mcpServers.a.args[0]: the variable NO is not set and has no default"
	if err == nil || err.Error() != want || !slices.Equal(packages(got), []string{"b"}) {
		t.Errorf("got %v and %v", packages(got), err)
	}
	got, err = Manifests(Options{Dirs: []string{file}})
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
	got, err := Manifests(Options{Dirs: []string{manifesttest.Write(t, t.TempDir()+"/mcp.json", b.String())}})
	if !slices.Equal(packages(got), []string{"good"}) || len(manifest.Faults(err)) != 101 {
		t.Errorf("loaded %q with %d faults", packages(got), len(manifest.Faults(err)))
	}
}

func TestAFileOfEnvironmentIsReadWithItsManifestAndEnvGoesBeforeIt(t *testing.T) {
	dir := t.TempDir()
	manifesttest.Write(t, dir+"/.env", "# comment\nexport FROM=file\nBOTH=file\nQUOTED=\"a b\"\n")
	manifesttest.Write(t, dir+"/bad.env", "SECRET_WORD without an equals sign\n")
	one := func(name, more string) {
		manifesttest.Write(t, dir+"/"+name+".yaml", "package: "+name+"\ntype: mcp-server\n"+more)
	}
	one("good", "mcp: {command: x, env_file: .env, env: {BOTH: manifest}}\n")
	one("missing", "mcp: {command: x, env_file: none.env}\n")
	one("waiting", "disabled: true\nmcp: {command: x, env_file: none.env}\n")
	one("broken", "mcp: {command: x, env_file: bad.env}\n")
	all, err := Manifests(Options{Dirs: []string{dir}})
	if got := packages(all); !slices.Equal(got, []string{"good", "waiting"}) {
		t.Fatalf("loaded %q, %v", got, err)
	}
	if diff := cmp.Diff(map[string]string{"FROM": "file", "BOTH": "manifest", "QUOTED": "a b"}, all[0].MCP.Env); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"missing.yaml:1:1: mcp.env_file: none.env: no such file", "broken.yaml:1:1: mcp.env_file: bad.env: it has a line that is not NAME=VALUE"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "SECRET_WORD") {
		t.Errorf("a fault shows the file: %v", err)
	}
}

func TestAFileThatIsNamedAndHasNoServersIsAFault(t *testing.T) {
	dir := t.TempDir()
	file := manifesttest.Write(t, dir+"/mcp.json", `{"editor.fontSize": 12}`)
	if _, err := Manifests(Options{Dirs: []string{file}}); err == nil || !strings.Contains(err.Error(), "no servers in it") {
		t.Errorf("named: %v", err)
	}
	if _, err := Manifests(Options{Dirs: []string{dir}}); err != nil {
		t.Errorf("in a folder: %v", err)
	}
}
