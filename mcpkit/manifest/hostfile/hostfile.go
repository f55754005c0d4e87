// Package hostfile reads the files in which other MCP hosts keep their servers:
// mcpServers files, and those of VS Code, Zed, Amp, opencode, Codex, Goose, Continue and
// LibreChat, each by its own shape. [Parse] makes manifests of their servers, to run as
// they are; [Read] and [Server.Write] bring them over, each with a manifest.yaml of its
// own. The package knows where such hosts keep their files.
//
//	plan, err := hostfile.Read([]string{".mcp.json"}, hostfile.Options{Dir: dir, Lookup: os.LookupEnv})
//	for _, s := range plan.Servers {
//		err := s.Write("manifests", false)
//	}
//
// The files themselves are never changed.
package hostfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/hostfile/internal/shape"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/variable"
)

// Place is a file in which a host keeps servers.
type Place struct {
	Host  string `json:"host"`
	Level string `json:"level"` // project or user
	Path  string `json:"path"`
}

// Places are where hosts keep the servers of the project in dir, then those of
// the user with the given home and configuration folders. The files need not
// exist. An earlier place goes before a later one.
func Places(dir, home, config string) []Place {
	project := func(host string, path ...string) Place {
		return Place{host, "project", filepath.Join(append([]string{dir}, path...)...)}
	}
	user := func(host, base string, path ...string) Place {
		return Place{host, "user", filepath.Join(append([]string{base}, path...)...)}
	}
	return []Place{
		project("Claude Code", ".mcp.json"),
		project("VS Code", ".vscode", "mcp.json"),
		project("Cursor", ".cursor", "mcp.json"),
		project("Gemini CLI", ".gemini", "settings.json"),
		user("Claude Code", home, ".claude.json"),
		user("Claude Desktop", config, "Claude", "claude_desktop_config.json"),
		user("VS Code", config, "Code", "User", "mcp.json"),
		user("VS Code", config, "Code", "User", "settings.json"),
		user("Cursor", home, ".cursor", "mcp.json"),
		user("Windsurf", home, ".codeium", "windsurf", "mcp_config.json"),
		user("Gemini CLI", home, ".gemini", "settings.json"),
		project("Zed", ".zed", "settings.json"),
		user("Zed", config, "zed", "settings.json"),
		project("opencode", "opencode.json"),
		user("opencode", config, "opencode", "opencode.json"),
		user("Amp", config, "amp", "settings.json"),
		user("Codex", home, ".codex", "config.toml"),
		user("Goose", config, "goose", "config.yaml"),
		user("Continue", home, ".continue", "config.yaml"),
		user("Copilot CLI", home, ".copilot", "mcp-config.json"),
		user("Kiro", home, ".kiro", "settings", "mcp.json"),
	}
}

// Known says, for a person whose file has no servers in it, where servers are looked
// for.
const Known = shape.Known

// Options say how files are read.
type Options struct {
	// Dir is the project: of the servers that a user's file holds for single
	// projects only those for this folder, or one above it, are taken.
	Dir string
	// Lookup finds a variable's value; nil means that none is set.
	Lookup func(string) (string, bool)
}

// Server is a server of another host's file.
type Server struct {
	*manifest.Manifest
	Text     []byte   // of its manifest.yaml
	Unset    []string // variables that must be set before it can start
	Kept     []string // keys that only its host understands, kept under x-imported
	Literal  []string // names of secrets whose values stand in the file
	Replaces []string // places with a server of the same name that gave way to this one
}

// Plan is what files hold.
type Plan struct {
	Servers []*Server         // by package
	Faults  []*manifest.Fault // entries that cannot be brought over, and files that cannot be read
}

// Read reads files. Where several have a server of the same name the first file
// counts, and in one file what is for a single project before what is for all.
func Read(files []string, o Options) *Plan {
	p := &Plan{}
	byName := make(map[string]*Server)
	for _, file := range files {
		for _, m := range p.read(file, o) {
			if first := byName[m.Package]; first != nil {
				first.Replaces = append(first.Replaces, fmt.Sprintf("%s:%d", m.Path, m.Line))
				continue
			}
			byName[m.Package] = describe(m, o)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p.Servers = append(p.Servers, byName[name])
	}
	return p
}

// maxFile bounds a file, in bytes.
const maxFile = 16 << 20

// read returns the servers of one file, those that count first.
func (p *Plan) read(file string, o Options) []*manifest.Manifest {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		err = fmt.Errorf("not a regular file of at most %d MiB", maxFile>>20)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		p.Faults = append(p.Faults, &manifest.Fault{File: file, Message: err.Error()})
		return nil
	}
	all, err := Convert(file, bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	faults := manifest.Faults(err)
	p.Faults = append(p.Faults, faults...)
	if len(all)+len(faults) == 0 {
		p.Faults = append(p.Faults, &manifest.Fault{File: file, Message: "no servers in it", Hint: shape.Known})
	}
	all = slices.DeleteFunc(all, func(m *manifest.Manifest) bool { return m.Project != "" && !within(o.Dir, m.Project) })
	slices.SortStableFunc(all, func(a, b *manifest.Manifest) int { return len(b.Project) - len(a.Project) })
	return all
}

// within reports whether dir is the folder of a project or below it.
func within(dir, project string) bool {
	rel, err := filepath.Rel(project, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// describe writes the manifest of m and says what is to be known of it.
func describe(m *manifest.Manifest, o Options) *Server {
	unset := slices.DeleteFunc(variables(m), func(name string) bool {
		if o.Lookup == nil {
			return false
		}
		_, ok := o.Lookup(name)
		return ok
	})
	return &Server{Manifest: m, Text: Marshal(m), Unset: unset, Kept: slices.Sorted(maps.Keys(m.Foreign)), Literal: m.LiteralSecrets()}
}

// variables are the names of the variables without a default in all values, as
// [Convert] writes them, sorted.
func variables(m *manifest.Manifest) []string {
	c := &m.MCP
	values := slices.Concat([]string(c.Command), c.Args, []string{c.Cwd, c.URL, c.EnvFile}, slices.Collect(maps.Values(c.Env)), slices.Collect(maps.Values(c.Headers)))
	var names []string
	for _, v := range values {
		parts, _ := variable.Dialect{}.Segments(v) // what cannot be read is a fault elsewhere
		for _, p := range parts {
			if p.Name != "" && !p.Defaults && p.Name != manifest.DirVariable {
				names = append(names, p.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// File is the name of the server's manifest in a folder of manifests.
func (s *Server) File() string { return s.Package + ".yaml" }

// Write makes the manifest's file in dir, readable by its owner alone. An
// existing file is replaced only where replace is set; else the error wraps
// fs.ErrExist.
func (s *Server) Write(dir string, replace bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, s.File())
	if replace {
		return durable.WriteFile(path, s.Text)
	}
	return durable.CreateFile(path, s.Text)
}
