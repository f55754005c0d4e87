// Package confine is what a manifest says of a server's sandbox: the keys of
// mcp.sandbox, what they mean together, and what is wrong with them. It confines
// nothing; package sandbox does.
package confine

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Values of Sandbox.Profile.
const (
	Default = "default" // the system read-only, own data and home, the network
	Offline = "offline" // the same without network
	Strict  = "strict"  // as offline, and no namespaces within, which browsers make
	Off     = "off"     // not confined
)

// Values of Sandbox.Network.
const (
	NetworkAll  = "all"
	NetworkNone = "none"
)

// Sandbox says what a stdio server and its descendants may reach beside the system,
// their own data folder and a home of their own. Where it cannot be had, the server is
// not started.
type Sandbox struct {
	Profile string   `json:"profile,omitempty" jsonschema:"default, offline, strict or off; default where any other key of sandbox is given"`
	Read    []string `json:"read,omitempty" jsonschema:"files and folders that the server may read, relative to the manifest's folder"`
	Write   []string `json:"write,omitempty" jsonschema:"files and folders that the server may read and write, relative to the manifest's folder"`
	Network string   `json:"network,omitempty" jsonschema:"all or none; all in the profile default, none in the others"`
	Limits  Limits   `json:"limits,omitzero" jsonschema:"bounds of all processes of the server together"`
}

// Limits bound a confined server; zero is without limit.
type Limits struct {
	Memory    strict.Size `json:"memory,omitzero" jsonschema:"private memory of all processes; the server is ended beyond"`
	Processes int         `json:"processes,omitempty" jsonschema:"number of processes; the server is ended beyond"`
	OpenFiles int         `json:"open_files,omitempty" jsonschema:"descriptors of each process"`
}

// Confined reports whether the server's processes are to be confined.
func (s *Sandbox) Confined() bool {
	return s.Profile != Off && !reflect.ValueOf(*s).IsZero()
}

// NoNetwork reports whether a confined server has no network.
func (s *Sandbox) NoNetwork() bool {
	return s.Network == NetworkNone || s.Network == "" && (s.Profile == Offline || s.Profile == Strict)
}

// Check reports what is wrong with the values of s, which are at mcp.sandbox.
func (s *Sandbox) Check(fault func(key, hint, format string, args ...any)) {
	const key = "mcp.sandbox"
	if !slices.Contains([]string{"", Default, Offline, Strict, Off}, s.Profile) {
		fault(key+".profile", "write default, offline, strict or off", "unknown profile %q", strict.Clip(s.Profile, 40))
	}
	if !slices.Contains([]string{"", NetworkAll, NetworkNone}, s.Network) {
		fault(key+".network", "write all or none", "unknown network %q", strict.Clip(s.Network, 40))
	}
	rest := *s
	if rest.Profile = ""; s.Profile == Off && !reflect.ValueOf(rest).IsZero() {
		fault(key, "leave profile: off or the other keys out", "profile off confines nothing, so the other keys are without effect")
	}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"read", s.Read}, {"write", s.Write}} {
		for i, path := range list.paths {
			at := fmt.Sprintf("%s.%s[%d]", key, list.key, i)
			switch {
			case path == "":
				fault(at, "", "the path is empty")
			case path == "~" || strings.HasPrefix(path, "~/"):
				fault(at, "write ${HOME} instead", "~ is not expanded")
			case filepath.Clean(path) == "/":
				fault(at, "name the folders that the server needs", "the whole machine cannot be given")
			}
		}
	}
	if n := s.Limits.Memory; n != 0 && (n < 16<<20 || n > 1<<40) {
		fault(key+".limits.memory", "", "%v is outside 16MiB to 1TiB", n)
	}
	if n := s.Limits.Processes; n < 0 || n > 1<<20 {
		fault(key+".limits.processes", "", "%d is outside 1 to 1048576", n)
	}
	if n := s.Limits.OpenFiles; n != 0 && (n < 16 || n > 1<<20) {
		fault(key+".limits.open_files", "", "%d is outside 16 to 1048576", n)
	}
}
