package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/aurorabot-dev/platform/"

// floors are the rooms of the house from the ground up. A package may import
// only what stands on a lower floor, or a package inside its own room.
var floors = [][]string{
	{"internal/jsontext"},
	{"amp", "mcpkit/durable", "mcpkit/smallfile", "mcpkit/fault", "mcpkit/jsoncheck", "mcpkit/internal/jsonline", "mcpkit/internal/cputime"},
	{"mcpkit/signal", "mcpkit/catalog", "mcpkit/manifest", "mcpkit/redact", "mcpkit/artifact", "mcpkit/fakeserver", "bridge/bus", "bridge/internal/slots", "bridge/internal/lockfile"},
	{"mcpkit/serverkit", "mcpkit/client", "mcpkit/policy", "mcpkit/appkit", "mcpkit/auth", "bridge/journal", "bridge/bustest"},
	{"bridge/admit"},
	{"mcpkit/openai", "bridge/inbox", "bridge/natsbus"},
	{"bridge", "mcpkit/host"},
	{"mcpkit/gateway", "mcpkit/externalizer", "bridge/outbox"},
	{"apps", "cmd/platform/internal/console", "cmd/platform/internal/control", "cmd/platform/internal/metrics"},
	{"cmd/platform/internal/daemon"},
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

func TestImportsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		from := strings.TrimPrefix(p.ImportPath, module)
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
	if seen < 10 {
		t.Errorf("only %d packages were seen", seen)
	}
}

func TestTheMapOfTheRoomsIsTheHouse(t *testing.T) {
	doc, err := os.ReadFile("../../docs/design/README.md")
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
		t.Errorf("the floors, and the map in docs/design/README.md:\n%s", diff)
	}
}
