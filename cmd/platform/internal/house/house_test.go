// Package house holds the repository to its own map: which room may import
// which, and how long a package may be. It has nothing but its test.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/aurorabot-dev/platform/"

// floors are the rooms of the house from the ground up. A package may import
// only what stands on a lower floor, or a package inside its own room.
var floors = [][]string{
	{"internal/httpend", "internal/jsontext"},
	{"amp", "mcpkit/durable", "mcpkit/smallfile", "mcpkit/strict", "mcpkit/fault", "mcpkit/jsoncheck", "mcpkit/internal/jsonline", "mcpkit/internal/cputime", "bridge/internal/format"},
	{"mcpkit/signal", "mcpkit/toolcall", "mcpkit/catalog", "mcpkit/manifest", "mcpkit/sandbox", "mcpkit/redact", "mcpkit/artifact", "mcpkit/fakeserver", "bridge/bus", "bridge/internal/slots", "bridge/internal/lockfile"},
	{"mcpkit/serverkit", "mcpkit/client", "mcpkit/policy", "mcpkit/appkit", "mcpkit/auth", "bridge/journal", "bridge/bustest"},
	{"bridge/admit", "bridge/history"},
	{"mcpkit/openai", "bridge/inbox", "bridge/natsbus"},
	{"bridge", "mcpkit/host"},
	{"mcpkit/gateway", "mcpkit/externalizer", "bridge/outbox"},
	{"apps", "cmd/platform/internal/console", "cmd/platform/internal/control", "cmd/platform/internal/metrics"},
	{"cmd/platform/internal/daemon"},
	{"cmd/platform/internal/cli"},
	{"cmd/platform/internal/verbs"},
	{"cmd/platform", "e2e"},
}

// room finds the room and the floor of a package.
func room(pkg string) (name string, floor int) {
	floor = -1
	for i, rooms := range floors {
		for _, r := range rooms {
			if (pkg == r || strings.HasPrefix(pkg, r+"/")) && len(r) > len(name) {
				name, floor = r, i
			}
		}
	}
	return name, floor
}

// forbidden are imports that point down and still cross a wall.
func forbidden(from, to string) bool {
	top := func(p string) string { head, _, _ := strings.Cut(p, "/"); return head }
	switch top(from) {
	case "mcpkit":
		return top(to) != "mcpkit" && top(to) != "internal"
	case "amp":
		return top(to) != "amp" && top(to) != "internal"
	case "apps":
		return to != "mcpkit/fault" && !strings.HasPrefix(to, "mcpkit/appkit") && !strings.HasPrefix(to, "apps")
	}
	return false
}

// longest is how many lines a package may have without its tests.
const longest = 900

// longer are the packages that may have more lines than longest, and why each
// of them is better long than split.
var longer = map[string]string{
	"bridge/inbox/queue": "the consumer and the pruning still share unexported readers of the folder with the listing; a package consumer is the next cut",
	"mcpkit/serverkit":   "the life of a process and of a remote connection are one state machine; env.go and the spec are the next cut",
}

// source is a package of the module as `go list` describes it.
type source struct {
	ImportPath, Dir         string
	Imports                 []string
	GoFiles, IgnoredGoFiles []string
}

// list asks the go command, once for all tests, which packages the module has.
var list = sync.OnceValues(func() ([]source, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,IgnoredGoFiles", module+"...").Output()
	if err != nil {
		return nil, err
	}
	var all []source
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p source
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		all = append(all, p)
	}
})

// packages are the packages of the module, with their paths relative to it.
func packages(t *testing.T) []source {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages were seen", len(all))
	}
	return all
}

// lines counts the lines of a package's files, those of its tests left out and
// those for other systems included.
func lines(t *testing.T, p source) int {
	t.Helper()
	n := 0
	for _, name := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		from := p.ImportPath
		fromRoom, fromFloor := room(from)
		if fromFloor < 0 {
			t.Errorf("%s stands on no floor: give it one", from)
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if toRoom, toFloor := room(to); toRoom != fromRoom && toFloor >= fromFloor || forbidden(from, to) {
				t.Errorf("%s imports %s: that does not point down", from, to)
			}
		}
	}
}

func TestPackagesAreShortEnoughForTheHouse(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		seen[p.ImportPath] = true
		reason, listed := longer[p.ImportPath]
		switch n := lines(t, p); {
		case n > longest && !listed:
			t.Errorf("%s has %d lines, more than %d: split it, or list it in longer with a reason", p.ImportPath, n, longest)
		case n <= longest && listed:
			t.Errorf("%s has %d lines, no more than %d: take it off the list longer", p.ImportPath, n, longest)
		case listed && reason == "":
			t.Errorf("%s is listed in longer without a reason", p.ImportPath)
		}
	}
	for name := range longer {
		if !seen[name] {
			t.Errorf("%s is listed in longer, and there is no such package", name)
		}
	}
}

func TestTheMapOfTheRoomsIsTheHouse(t *testing.T) {
	doc, err := os.ReadFile("../../../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var rooms []string
	for line := range strings.Lines(string(doc)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && strings.HasPrefix(line, "| `") {
			rooms = append(rooms, name)
		}
	}
	if diff := cmp.Diff(slices.Concat(floors...), rooms); diff != "" {
		t.Errorf("the floors, and the map in ARCHITECTURE.md:\n%s", diff)
	}
}
