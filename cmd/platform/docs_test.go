package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

const repository = "../.."

// pages are the texts for readers, by path from the repository's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := os.DirFS(repository)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/design/*.md", "manifests/*.md"} {
		names, err := fs.Glob(root, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(root, name)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = string(text)
		}
	}
	if len(found) < 10 {
		t.Fatalf("only %d pages were found", len(found))
	}
	return found
}

var (
	link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	code = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`")
)

func TestLinksOfTheDocsLeadSomewhere(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(repository, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// commandLine finds commands in console blocks, indented blocks and code spans.
var commandLine = regexp.MustCompile("(?m)(?:^\\$ (?:bin/)?|^    (?:bin/)?|`)platform( [^`\n]*)")

func TestCommandsInTheDocsExist(t *testing.T) {
	seen := 0
	for page, text := range pages(t) {
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			line, _, _ := strings.Cut(m[1], " #")
			line, _, _ = strings.Cut(line, "'{")
			words := strings.Fields(line)
			cmd, rest, err := root(cli.New(nil, io.Discard, io.Discard)).Find(words)
			if err != nil || !cmd.HasParent() {
				t.Errorf("%s: there is no such command: platform%s", page, m[1])
				continue
			}
			seen++
			for _, word := range rest {
				name, isFlag := strings.CutPrefix(word, "-")
				if !isFlag || name == "" {
					continue
				}
				name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
				if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil &&
					(len(name) > 1 || cmd.Flags().ShorthandLookup(name) == nil) {
					t.Errorf("%s: %s has no flag %s", page, cmd.CommandPath(), word)
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands were found", seen)
	}
}

// block returns the first fenced block after the heading or words in lead.
func block(t *testing.T, text, lead string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, lead)
	_, after, fenced := strings.Cut(after, "\n```")
	_, after, _ = strings.Cut(after, "\n")
	body, _, closed := strings.Cut(after, "\n```")
	if !ok || !fenced || !closed {
		t.Fatalf("no block after %q", lead)
	}
	return body + "\n"
}

func TestTheSettingsInTheDocsAreTheDefaults(t *testing.T) {
	text := block(t, pages(t)["docs/operate.md"], "## Settings: platform.yaml")
	file := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var got settings.Options // zero: what the page leaves out stays zero
	if err := got.ReadConfig(file, true); err != nil {
		t.Fatal(err)
	}
	want := settings.Defaults()
	want.Data = filepath.Join(filepath.Dir(file), want.Data)
	want.Manifests, want.Events, want.NATS.URLs = []string{}, map[string]string{}, []string{}
	want.Gateway.Hosts, want.Gateway.Origins = []string{}, []string{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("docs/operate.md says\n%+v\nthe defaults are\n%+v", got, want)
	}
}

func TestEveryKeyOfAManifestIsInTheDocs(t *testing.T) {
	type node struct {
		Properties map[string]json.RawMessage
		Items      json.RawMessage
	}
	text := pages(t)["docs/connect-any-server.md"]
	seen := 0
	var walk func(prefix string, raw json.RawMessage)
	walk = func(prefix string, raw json.RawMessage) {
		var n node
		if err := json.Unmarshal(raw, &n); err != nil {
			t.Fatal(err)
		}
		var items node
		if len(n.Items) > 0 {
			if err := json.Unmarshal(n.Items, &items); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case len(n.Properties) > 0:
			for name, p := range n.Properties {
				walk(strings.TrimPrefix(prefix+"."+name, "."), p)
			}
		case len(items.Properties) > 0:
			walk(prefix+"[]", n.Items)
		default:
			seen++
			if !strings.Contains(text, "| `"+prefix+"` |") {
				t.Errorf("docs/connect-any-server.md lacks the key %s", prefix)
			}
		}
	}
	walk("", manifest.Schema())
	if seen < 25 {
		t.Errorf("only %d keys were found", seen)
	}
}

func TestTheExampleManifestsAreRight(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(repository, "manifests", "*.example"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	dir := t.TempDir()
	for _, from := range examples {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, strings.TrimSuffix(filepath.Base(from), ".example"))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := load.Manifests(load.Options{Dirs: []string{dir}, Lookup: os.LookupEnv})
	if err != nil || len(found) != len(examples) {
		t.Errorf("%d of %d examples are good: %v", len(found), len(examples), err)
	}
}

// moduleOf writes a module of its own, which takes this one from its folder, and
// builds it.
func moduleOf(t *testing.T, name, binary string, files map[string]string) (dir string) {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	files["go.sum"] = string(sums)
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := "github.com/aurorabot-dev/platform"
	goIn(t, dir, "mod", "init", name)
	goIn(t, dir, "mod", "edit", "-replace", own+"="+root, "-require", own+"@v0.0.0")
	goIn(t, dir, "build", "-mod=mod", "-o", binary, ".")
	return dir
}

// goIn runs the go command in a module of its own.
func goIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), []string{"GOFLAGS=", "GOWORK=off"})
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestTheAppOfTheReadmeWorks builds the README's app in a module of its own, as
// its reader would, runs its tests from the docs, and starts it once.
func TestTheAppOfTheReadmeWorks(t *testing.T) {
	all := pages(t)
	dir := moduleOf(t, "dice", "aurora-dice", map[string]string{
		"manifest.yaml": block(t, all["README.md"], "`manifest.yaml`:"),
		"service.go":    block(t, all["README.md"], "`service.go`,"),
		"main.go":       block(t, all["README.md"], "`main.go`,"),
		"main_test.go":  block(t, all["docs/write-an-app.md"], "`main_test.go`"),
	})
	goIn(t, dir, "test", "-mod=mod", ".")
	var out, errOut bytes.Buffer
	args := []string{"check", "--manifests", dir, "--live", "--data", filepath.Join(dir, "data")}
	if code := execute(t.Context(), args, strings.NewReader(""), &out, &errOut); code != cli.ExitDone {
		t.Errorf("platform check gave %d\n%s%s", code, &out, &errOut)
	}
	if want := "ok my.dice  1 tool,"; !strings.Contains(out.String(), want) {
		t.Errorf("platform check does not say %q:\n%s", want, &out)
	}
}

// TestTheProgramThatEmbedsTheGateWorks builds the program of docs/embed.md in a
// module of its own and lets it call a server.
func TestTheProgramThatEmbedsTheGateWorks(t *testing.T) {
	dir := moduleOf(t, "mybot", "mybot", map[string]string{"main.go": block(t, pages(t)["docs/embed.md"], "`main.go`:")})
	argv, env := fakeserver.Command("echo")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "mybot"), append([]string{"mine.echo", `{"message":"through the gate"}`}, argv...)...)
	cmd.Dir, cmd.Env = dir, slices.Concat(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"tool: mcp__mine__echo\n", "event: tool.completed\n", `"text":"through the gate"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the program does not say %q:\n%s", want, out)
		}
	}
}

func TestThePolicyInTheDocsIsTheDefault(t *testing.T) {
	text := block(t, pages(t)["docs/policy.md"], "## The policy file")
	got, err := rules.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	// Empty and absent are the same to the rules, so compare what is written.
	written := func(c *rules.Config) string {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if got, want := written(got.Config()), written(rules.DefaultConfig()); got != want {
		t.Errorf("docs/policy.md says\n%s\nthe defaults are\n%s", got, want)
	}
	for _, key := range strings.Fields("builtin trust risk unlisted actions servers tools limits flow resources review approvals ledger") {
		if !strings.Contains("\n"+text, "\n"+key+":") {
			t.Errorf("docs/policy.md lacks the key %s", key)
		}
	}
}
