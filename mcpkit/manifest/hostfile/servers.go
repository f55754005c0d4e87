package hostfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/variable"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// server is one entry of an mcpServers file, in the spellings that are in use.
type server struct {
	Type          string            `json:"type,omitempty"`
	Transport     string            `json:"transport,omitempty"`
	TransportType string            `json:"transportType,omitempty"`
	Command       argv              `json:"command,omitempty"`
	Args          []string          `json:"args,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	Environment   map[string]string `json:"environment,omitempty"`
	Cwd           string            `json:"cwd,omitempty"`
	URL           string            `json:"url,omitempty"`
	ServerURL     string            `json:"serverUrl,omitempty"`
	HTTPURL       string            `json:"httpUrl,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Description   string            `json:"description,omitempty"`
	Disabled      bool              `json:"disabled,omitempty"`
	Enabled       *bool             `json:"enabled,omitempty"`
}

// argv is a list of words, or one word as a string, which is never split.
type argv []string

func (argv) Split(s string) ([]string, error) { return []string{s}, nil }

// reading says how an mcpServers file is read.
type reading struct {
	lookup variable.Lookup
	strict bool // unset variables are faults
	keep   bool // variables stay, in the spelling of manifests
}

// Parse reads the servers of a file that another host may own: mcpServers, or
// the servers of VS Code, also inside "mcp". Other keys beside them are none of
// our business. File names the file in faults, dir is the folder that it is in,
// and lookup finds variables: an unset one is a fault where strict is set, else
// empty and a warning. Faulty servers are returned marked, for their names.
func Parse(file, dir string, data []byte, lookup func(string) (string, bool), strict bool) ([]*manifest.Manifest, []*manifest.Fault) {
	return parse(file, dir, data, reading{lookup: lookup, strict: strict})
}

// Convert reads an mcpServers file and returns its servers as manifests with
// their variables kept, and what only its own host understands as Foreign, fit
// for [Marshal]. Those that the file holds for single projects are among them,
// with Project. Faulty entries are left out and
// reported in the error, which joins every *manifest.Fault.
func Convert(file string, data []byte) ([]*manifest.Manifest, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("finding the folder of %s: %w", file, err)
	}
	all, faults := parse(file, dir, data, reading{keep: true})
	good := slices.DeleteFunc(all, func(m *manifest.Manifest) bool { return m.Faulty })
	for _, m := range good {
		for _, w := range m.Warnings {
			if w.Message == strict.UnknownKey {
				w.Message = "unknown key, kept under " + foreignKey
			}
		}
		if m.MCP.Transport != manifest.Stdio {
			continue
		}
		// The manifest will be in another folder: what starts from this one must say so.
		here := func(path string) string {
			if filepath.IsAbs(path) || strings.HasPrefix(path, "${") {
				return path
			}
			return filepath.Join(strings.ReplaceAll(m.Dir, "$", "$$"), path)
		}
		m.MCP.Cwd = here(m.MCP.Cwd)
		if strings.Contains(m.MCP.Command[0], "/") {
			m.MCP.Command[0] = here(m.MCP.Command[0])
		}
	}
	return good, manifest.Join(faults)
}

// parse is [Parse] for every way of reading.
func parse(file, dir string, data []byte, o reading) ([]*manifest.Manifest, []*manifest.Fault) {
	if base := filepath.Base(dir); base == ".vscode" || base == ".cursor" {
		dir = filepath.Dir(dir)
	}
	e := variable.Expander{Foreign: true, Lenient: !o.strict}
	e.Lookup = func(name string) (string, bool) {
		if name == "workspaceFolder" {
			return dir, true
		}
		if name == "userHome" {
			name = "HOME"
		}
		return variable.With(o.lookup, manifest.DirVariable, dir)(name)
	}
	value := e.Expand
	if o.keep {
		value = func(s string) (string, error) { return variable.Translate(s, dir) }
	}
	doc := strict.JSON(file, data, strict.Options{Loose: true, String: value})
	if doc.Root == nil {
		return nil, doc.Faults
	}
	lists := findServers(doc.Root, o.keep)
	if lists == nil {
		return nil, nil
	}
	var all []*manifest.Manifest
	for _, list := range lists {
		if list.project != "" {
			dir = list.project
		}
		all = append(all, list.servers(doc, file, dir, o)...)
	}
	doc.Sort()
	return all, doc.Faults
}

// serverList is a place in a file that holds servers.
type serverList struct {
	path    string // of keys
	node    *yaml.Node
	project string // the folder that these are for; empty where they are for the file's own
}

// servers reads the entries of a list.
func (l serverList) servers(doc *strict.Document, file, dir string, o reading) (all []*manifest.Manifest) {
	if l.node.Kind != yaml.MappingNode {
		doc.FaultAt(l.path, "", "want an object with one entry for each server")
		return nil
	}
	seen := map[string]bool{}
	for name, entry := range members(l.node) {
		key := l.path + "." + name.Value
		if seen[name.Value] {
			doc.FaultNode(name, key, "", "two servers of this name; the first is kept")
			continue
		}
		seen[name.Value] = true
		before, warned := doc.Count, len(doc.Warnings)
		var s server
		doc.DecodeNode(entry, key, &s)
		m := s.manifest(name.Value, o.keep, func(k, hint, format string, args ...any) {
			if !doc.Faulty(key+k) && (k != "" || !doc.Faulty(key+".command", key+".url")) {
				doc.FaultAt(key+k, hint, format, args...)
			}
		})
		m.Path, m.Dir, m.Line, m.Project = file, dir, name.Line, l.project
		m.Faulty = doc.Count > before
		m.Warnings = slices.Clone(doc.Warnings[warned:])
		warnOdd(m, name, key)
		if o.keep {
			keepForeign(m, entry)
		}
		all = append(all, m)
	}
	return all
}

// keepForeign keeps what only the other host understands.
func keepForeign(m *manifest.Manifest, entry *yaml.Node) {
	known := reflect.TypeFor[server]()
	for key, value := range members(entry) {
		ours := slices.ContainsFunc(reflect.VisibleFields(known), func(f reflect.StructField) bool {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return name == key.Value
		})
		var v any
		if ours || value.Decode(&v) != nil {
			continue
		}
		if m.Foreign == nil {
			m.Foreign = make(map[string]any)
		}
		m.Foreign[key.Value] = v
	}
}

// members are the keys of a mapping and their values, in order.
func members(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// findServers are the places of a file that hold servers, none where it has
// none: one for the file as a whole, and if wanted those that Claude Code keeps
// for single projects.
func findServers(root *yaml.Node, projects bool) (lists []serverList) {
	get := func(n *yaml.Node, name string) *yaml.Node {
		for key, value := range members(n) {
			if key.Value == name && value.ShortTag() != "!!null" {
				return value
			}
		}
		return nil
	}
	mcp := get(root, "mcp")
	for _, at := range []serverList{
		{path: "mcpServers", node: get(root, "mcpServers")}, {path: "servers", node: get(root, "servers")},
		{path: "mcp.mcpServers", node: get(mcp, "mcpServers")}, {path: "mcp.servers", node: get(mcp, "servers")},
	} {
		if at.node != nil {
			lists = append(lists, at)
			break
		}
	}
	if projects {
		for dir, project := range members(get(root, "projects")) {
			if node := get(project, "mcpServers"); node != nil && filepath.IsAbs(dir.Value) {
				lists = append(lists, serverList{"projects." + dir.Value + ".mcpServers", node, dir.Value})
			}
		}
	}
	return lists
}

// manifest turns the entry into a manifest. Keys given to fault begin with a dot.
func (s *server) manifest(name string, raw bool, fault manifest.Report) *manifest.Manifest {
	m := manifest.Default()
	m.MCP.HealthTimeout.Duration = foreignHealth
	m.Package, m.Name, m.Type, m.Shared = packageOf(name), name, manifest.TypeServer, true
	m.Raw = raw
	m.Description = s.Description
	m.Disabled = s.Disabled || s.Enabled != nil && !*s.Enabled
	c := &m.MCP
	c.Command, c.Args, c.Cwd, c.Headers = manifest.Words(s.Command), s.Args, s.Cwd, s.Headers
	if len(s.Env)+len(s.Environment) > 0 {
		c.Env = map[string]string{}
		maps.Copy(c.Env, s.Environment)
		maps.Copy(c.Env, s.Env)
	}
	for _, u := range []string{s.URL, s.ServerURL, s.HTTPURL} {
		if c.URL == "" {
			c.URL = u
		}
	}
	said := s.Type
	for _, t := range []string{s.Transport, s.TransportType} {
		if said == "" {
			said = t
		}
	}
	switch strings.ToLower(said) {
	case "":
		m.Complete(false)
	case "stdio", "local":
	case "http", "sse", "streamable-http", "streamablehttp", "streamable_http", "remote":
		c.Transport = manifest.HTTP
	default:
		m.Complete(false)
		fault(".type", "stdio, http, streamable-http and sse are known", "unknown type %q", strict.Clip(said, 40))
	}
	m.Check(func(key, hint, format string, args ...any) {
		// The entry is flat and its identity is its key.
		key, nested := strings.CutPrefix(key, "mcp")
		if !nested {
			key = ""
		}
		fault(key, hint, format, args...)
	})
	return m
}

// packageOf makes an identity of a name that may be any text. What is no package
// name gets a hash, so that two names never become one.
func packageOf(name string) string {
	if manifest.ValidPackage(name) || name == "" {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if r < 0x80 && manifest.ValidPackage(string(r)) {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
	}
	short := b.String()
	if short = strings.TrimRight(short[:min(len(short), 60)], "-"); short == "" {
		short = "server"
	}
	return short + "-" + shortHash(name)
}

// warnOdd notes what other hosts would not run either.
func warnOdd(m *manifest.Manifest, at *yaml.Node, key string) {
	warn := func(format string, args ...any) {
		m.Warnings = append(m.Warnings, &manifest.Fault{File: m.Path, Line: at.Line, Column: at.Column, Key: key, Message: fmt.Sprintf(format, args...)})
	}
	if m.Package != m.Name && m.Name != "" {
		warn("the name is no package name; the server is known as %s", m.Package)
	}
	if c := m.MCP.Command; len(c) == 1 && strings.ContainsAny(c[0], " \t") && !strings.Contains(c[0], "/") {
		warn("command is one program, blanks included; put its arguments into args")
	}
}

// foreignHealth is the health timeout of servers from other hosts' files, which
// cannot state one: most are started by npx and download themselves first.
const foreignHealth = 3 * time.Minute

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
