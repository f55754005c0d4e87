package servers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/confine"
	"github.com/aurorabot-dev/platform/mcpkit/sandbox"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// ownFolders are variables that name a folder in which programs keep what is theirs.
var ownFolders = []string{
	"TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
	"npm_config_cache", "NPM_CONFIG_CACHE", "UV_CACHE_DIR",
}

// Profile is what a manifest's server may reach, or nil where it is not confined. Spec
// is how it is started, home the folder that it has in place of the user's home, and
// hidden what no server may reach. Nothing is made.
func Profile(m *manifest.Manifest, spec serverkit.Spec, home string, hidden []string) *sandbox.Profile {
	s := &m.MCP.Sandbox
	if !s.Confined() {
		return nil
	}
	p := &sandbox.Profile{
		Hidden: slices.Clone(hidden), HomeDir: home, Home: variable(spec, "HOME"), Network: sandbox.NetworkAll,
		NoNesting: s.Profile == confine.Strict,
		Limits:    sandbox.Limits{Memory: int64(s.Limits.Memory), Processes: s.Limits.Processes, OpenFiles: s.Limits.OpenFiles},
	}
	if s.NoNetwork() {
		p.Network = sandbox.NetworkNone
	}
	if data := variable(spec, "AURORA_APP_DATA_DIR"); data != "" {
		p.Own = []string{data}
	}
	if !filepath.IsAbs(p.Home) || p.Home == "/" {
		p.Home = "/home/server"
	}
	for _, name := range ownFolders {
		if dir := variable(spec, name); filepath.IsAbs(dir) && !below(dir, p.Home) && dir != "/" {
			p.Temp = append(p.Temp, filepath.Clean(dir))
		}
	}
	// The file of the manifest may hold what is secret, and its folder other manifests.
	p.Hidden = append(p.Hidden, absolute(m.Path))
	private := func(path string) bool {
		return slices.ContainsFunc(p.Hidden, func(h string) bool { return below(path, h) })
	}
	real, _ := os.UserHomeDir()
	switch {
	case m.MCP.Cwd != "":
		if spec.Dir != "/" && !below(real, spec.Dir) { // who wrote / or the home did not mean to give all of it
			p.Read = append(p.Read, spec.Dir)
		}
	case filepath.Base(m.Path) == "manifest.yaml" && !m.Shared && !slices.Contains(hidden, m.Dir):
		p.OwnRead = append(p.OwnRead, m.Dir) // the server's own folder
	}
	for _, path := range sandbox.Named(spec.Command, spec.Dir, real) {
		switch {
		case !private(path):
			p.Read = append(p.Read, path)
		case filepath.Dir(path) == m.Dir && program(path):
			p.OwnRead = append(p.OwnRead, path) // a script beside its manifest
		}
	}
	read, write := m.SandboxPaths()
	p.Read, p.Write = append(p.Read, read...), write
	return p
}

// program reports whether a file can be a program: configuration is not.
func program(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && !slices.Contains([]string{".yaml", ".yml", ".json", ".toml", ".env", ""}, filepath.Ext(path))
}

// confine gives a spec the sandbox that its manifest asks for.
func (x *Connector) confine(m *manifest.Manifest, spec *serverkit.Spec) error {
	if !m.MCP.Sandbox.Confined() {
		return nil
	}
	home, err := x.Layout.MakeHome(m.Package)
	if err != nil {
		return err
	}
	spec.Sandbox = Profile(m, *spec, home, append(slices.Clone(x.Private), x.Layout.Data))
	return nil
}

// SandboxProblem says why a server could not be confined as its manifest asks, or is
// empty. The folders of the server itself need not exist yet.
func SandboxProblem(m *manifest.Manifest, spec serverkit.Spec, hidden []string) string {
	p := Profile(m, spec, "", hidden)
	if p == nil {
		return ""
	}
	if err := sandbox.Available(); err != nil {
		return "mcp.sandbox: " + err.Error()
	}
	p.Own = nil
	_, err := p.Mounts()
	var missing *fs.PathError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &missing):
		return "mcp.sandbox: " + missing.Path + " does not exist or cannot be read: correct it or leave it out"
	}
	return "mcp.sandbox: " + err.Error()
}

// variable is the value of a variable in the environment of a server.
func variable(s serverkit.Spec, name string) (value string) {
	for _, kv := range s.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// below reports whether path is dir or in it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
