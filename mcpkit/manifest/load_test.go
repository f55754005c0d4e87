package manifest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func simple(pkg, more string) string {
	return "package: " + pkg + "\ntype: mcp-server\nmcp: {command: server-of-" + pkg + "}\n" + more
}

func packages(list []*Manifest) []string {
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
	before, err := Load(Options{Dirs: []string{dir}})
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	now, err := Load(Options{Dirs: []string{dir}})
	if kept := Keep(before, now, err); err == nil || len(kept) != 1 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

func TestOneBadManifestStopsNoOtherAndAllFaultsAreReported(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", simple("a", ""))
	write(t, dir+"/b.yaml", simple("b", "colour: red\n"))
	write(t, dir+"/c.yml", "{")
	write(t, dir+"/app/manifest.yaml", simple("app", ""))
	write(t, dir+"/app/config.yaml", "not: a manifest")
	write(t, dir+"/old/manifest.yml", simple("old", "alias: [1]\n"))
	for _, ignored := range []string{".hidden.yaml", "x.yaml~", ".x.yaml.swp", "x.yaml.example", "README.md", "y.example/manifest.yaml", ".git/manifest.yaml", "deep/er/manifest.yaml"} {
		write(t, filepath.Join(dir, ignored), "{")
	}
	missing := filepath.Join(dir, "missing")
	got, err := Load(Options{Dirs: []string{dir, missing}})
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
	write(t, dir+"/1.yaml", simple("one", "alias: w\n"))
	write(t, dir+"/2.yaml", simple("One", ""))
	write(t, dir+"/3.yaml", "\n"+simple("three", "alias: W\n"))
	write(t, dir+"/4.yaml", simple("four", "alias: one\n"))
	got, err := Load(Options{Dirs: []string{dir, dir + "/1.yaml", dir}}) // reached twice, read once
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
	user := write(t, dir+"/home/.mcp.json", `{"mcpServers": {"github": {"command": "user"}, "only-user": {"command": "user"}, "clock": {"command": "user"}}}`)
	write(t, dir+"/project/.mcp.json", `{"mcpServers": {"github": {"command": "project"}, "diary": {"command": "x", "args": 5}}}`)
	fsys := fstest.MapFS{
		"clock/manifest.yaml": {Data: []byte(simple("clock", ""))},
		"diary/manifest.yaml": {Data: []byte(simple("diary", ""))},
		"w.yaml":              {Data: []byte("package: w\ntype: mcp-server\nmcp: {entry: bin/w}\n")},
	}
	got, err := Load(Options{
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
	if f := Faults(err); len(f) != 1 || f[0].Key != "mcpServers.diary.args" {
		t.Errorf("faults are %v", err)
	}
}

func TestLinksAreFollowedAndPathsStartFromTheRealFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/apps/w/manifest.yaml", "package: w\ntype: mcp-server\nmcp: {entry: server}\n")
	write(t, dir+"/apps/v/manifest.yaml", "package: v\ntype: mcp-server\nmcp: {entry: server}\n")
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
	got, err := Load(Options{Dirs: []string{dir + "/enabled"}})
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
	load := func() ([]*Manifest, error) { return Load(o) }
	write(t, dir+"/a.yaml", simple("a", ""))
	write(t, dir+"/b.yaml", simple("b", ""))
	write(t, dir+"/.mcp.json", `{"mcpServers": {"x": {"command": "x"}, "y": {"command": "y"}, "z": {"command": "z"}}}`)
	before, err := load()
	if err != nil {
		t.Fatal(err)
	}

	write(t, dir+"/a.yaml", "{")
	write(t, dir+"/.mcp.json", `{"mcpServers": {"x": {"args": 1}, "z": {"command": "new-z"}}}`)
	if err := os.Remove(dir + "/b.yaml"); err != nil {
		t.Fatal(err)
	}
	now, err := load()
	kept := Keep(before, now, err)
	if want := []string{"a", "x", "z"}; !slices.Equal(packages(kept), want) || kept[2].Argv()[0] != "new-z" {
		t.Errorf("kept %q (%v), want %q", packages(kept), err, want)
	}

	write(t, dir+"/.mcp.json", `{"mcpServers": `)
	now, err = load()
	if got, want := packages(Keep(kept, now, err)), []string{"a", "x", "z"}; !slices.Equal(got, want) {
		t.Errorf("kept %q of an unreadable file, want %q", got, want)
	}

	write(t, dir+"/c.yaml", simple("c", "alias: x\n"))
	aliased := *kept[0]
	aliased.Alias = "X"
	now, err = load()
	if got, want := packages(Keep([]*Manifest{&aliased}, now, err)), []string{"c"}; !slices.Equal(got, want) {
		t.Errorf("kept %q where an alias was taken, want %q", got, want)
	}
	if err := os.Remove(dir + "/c.yaml"); err != nil {
		t.Fatal(err)
	}

	if err := os.RemoveAll(dir + "/a.yaml"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/.mcp.json", `{}`)
	now, err = load()
	if got := Keep(kept, now, err); len(got) != 0 || err != nil {
		t.Errorf("kept %q of files that are gone (%v)", packages(got), err)
	}
}
