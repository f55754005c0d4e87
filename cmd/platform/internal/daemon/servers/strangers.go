package servers

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/apps"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// Strangers are the servers that bear the name of a built-in app and are not that
// app, by package, each with what to say of it. A manifest of one's own may replace a
// built-in one, to give an app other limits or variables; trust goes with the program
// and not with the name. Data is the data folder.
func Strangers(data string, list []*manifest.Manifest) map[string]*manifest.Fault {
	own, _ := load.Manifests(load.Options{Embedded: apps.Manifests, EmbeddedDir: data, Lookup: os.LookupEnv})
	exe := ExeDir()
	out := make(map[string]*manifest.Fault)
	for _, m := range list {
		i := slices.IndexFunc(own, func(app *manifest.Manifest) bool { return app.Package == m.Package })
		if i < 0 || sameProgram(data, m, own[i], exe) {
			continue
		}
		out[m.Package] = &manifest.Fault{
			File: m.Path, Line: m.Line, Column: 1, Key: "package",
			Message: fmt.Sprintf("%s is the package of a built-in app, and this runs something else: the policy's built-in rules do not hold for it", m.Package),
			Hint:    "give it a package of its own, or say in policy.yaml how far you trust it",
		}
	}
	return out
}

// sameProgram reports whether two manifests run one program in one way, as far as it
// can be told from outside.
func sameProgram(data string, m, app *manifest.Manifest, exe string) bool {
	if m.Path == app.Path {
		return true
	}
	if m.MCP.Transport != app.MCP.Transport || slices.ContainsFunc(slices.Collect(maps.Keys(m.MCP.Env)), loads) {
		return false
	}
	a, b := MakeSpec(m, data), MakeSpec(app, data)
	if !slices.Equal(a.Command[1:], b.Command[1:]) {
		return false
	}
	one, err := Program(a, exe)
	if err != nil {
		return false
	}
	other, err := Program(b, exe)
	if err != nil {
		return false
	}
	x, err := os.Stat(one)
	if err != nil {
		return false
	}
	y, err := os.Stat(other)
	return err == nil && os.SameFile(x, y)
}

// loads reports whether a variable has the system load other code into a program.
func loads(name string) bool {
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_")
}

// Program is the absolute path of the program that a server runs.
func Program(s serverkit.Spec, exe string) (string, error) {
	return serverkit.ResolveCommand(s.Command[0], s.Dir, PathOf(s), exe)
}

// PathOf is the PATH of a server.
func PathOf(s serverkit.Spec) (path string) { return variable(s, "PATH") }

// ExeDir is the folder of the platform itself, or "".
func ExeDir() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(exe)
}

// Distrusted are the strangers that the policy file says nothing of.
func Distrusted(r *rules.Rules, strangers map[string]*manifest.Fault) (out []*manifest.Fault) {
	for _, name := range slices.Sorted(maps.Keys(strangers)) {
		if _, by := r.Trust(name); by.File == rules.Builtin {
			out = append(out, strangers[name])
		}
	}
	return out
}

// Aliases are the names of servers by alias, and by name, for the rules of a policy.
func Aliases(manifests map[string]*manifest.Manifest) map[string]string {
	out := make(map[string]string, 2*len(manifests))
	for name, m := range manifests {
		if m.Alias != "" && manifests[m.Alias] == nil { // a server's own name comes first
			out[m.Alias] = name
		}
		out[name] = name
	}
	return out
}
