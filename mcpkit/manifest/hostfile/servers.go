package hostfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/hostfile/internal/shape"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/variable"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// server is one entry, as package shape leaves it.
type server struct {
	Type          string            `json:"type,omitempty"`
	Command       argv              `json:"command,omitempty"`
	Args          []string          `json:"args,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	EnvFile       string            `json:"env_file,omitempty"`
	Cwd           string            `json:"cwd,omitempty"`
	URL           string            `json:"url,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Auth          *manifest.Auth    `json:"auth,omitempty"`
	Description   string            `json:"description,omitempty"`
	Disabled      bool              `json:"disabled,omitempty"`
	Enabled       *bool             `json:"enabled,omitempty"`
	IncludeTools  []string          `json:"include_tools,omitempty"`
	ExcludeTools  []string          `json:"exclude_tools,omitempty"`
	CallTimeout   strict.Duration   `json:"call_timeout,omitzero"`
	HealthTimeout strict.Duration   `json:"health_timeout,omitzero"`
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

// Parse reads the servers of a file that another host may own, in each of the forms
// that package shape knows. Other keys beside them are none of our business. File
// names the file in faults, dir is the folder that it is in, and lookup finds
// variables: an unset one is a fault where strict is set, else empty and a warning.
// Faulty servers are returned marked, for their names.
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
		if m.MCP.EnvFile != "" {
			m.MCP.EnvFile = here(m.MCP.EnvFile)
		}
		if strings.Contains(m.MCP.Command[0], "/") {
			m.MCP.Command[0] = here(m.MCP.Command[0])
		}
	}
	return good, manifest.Join(faults)
}

// parse is [Parse] for every way of reading.
func parse(file, dir string, data []byte, o reading) ([]*manifest.Manifest, []*manifest.Fault) {
	switch filepath.Base(dir) {
	case ".vscode", ".cursor", ".gemini", ".roo", ".zed", ".kilocode", ".amazonq":
		dir = filepath.Dir(dir) // hosts start servers in the project
	}
	e := variable.Expander{Lenient: !o.strict, Lookup: func(name string) (string, bool) {
		text, env, ok := variable.Place(name, dir)
		if ok && env == "" {
			return text, true
		}
		return variable.With(o.lookup, manifest.DirVariable, dir)(cmp.Or(env, name))
	}}
	doc := shape.Parse(file, data, strict.Options{Loose: true, String: func(s string) (string, error) {
		if o.keep {
			return e.Dialect.Translate(s, dir)
		}
		return e.Expand(s)
	}})
	if doc.Root == nil {
		return nil, doc.Faults
	}
	e.Dialect = shape.Dialect(file, doc.Root)
	lists := shape.Lists(doc.Root, o.keep)
	if lists == nil {
		return nil, nil
	}
	var all []*manifest.Manifest
	for _, list := range lists {
		if list.Project != "" {
			dir = list.Project
		}
		all = append(all, servers(list, doc, file, dir, o, e.Dialect)...)
	}
	doc.Sort()
	return all, doc.Faults
}

// servers reads the entries of a list.
func servers(l shape.List, doc *strict.Document, file, dir string, o reading, dialect variable.Dialect) (all []*manifest.Manifest) {
	if l.Node.Kind != yaml.MappingNode {
		doc.FaultAt(l.Path, "", "want an object with one entry for each server")
		return nil
	}
	seen := map[string]bool{}
	for name, entry := range shape.Members(l.Node) {
		key := strings.TrimPrefix(l.Path+"."+name.Value, ".")
		if seen[name.Value] {
			doc.FaultNode(name, key, "", "two servers of this name; the first is kept")
			continue
		}
		seen[name.Value] = true
		before, warned := doc.Count, len(doc.Warnings)
		odd := shell(entry, dialect)
		odd = append(odd, l.Common(entry)...)
		var s server
		doc.DecodeNode(entry, key, &s)
		m := s.manifest(name.Value, o.keep, func(k, hint, format string, args ...any) {
			if !doc.Faulty(key+k) && (k != "" || !doc.Faulty(key+".command", key+".url")) {
				doc.FaultAt(key+k, hint, format, args...)
			}
		})
		m.Path, m.Dir, m.Line, m.Project = file, dir, name.Line, l.Project
		m.Disabled = m.Disabled || slices.Contains(l.Excluded, name.Value)
		m.Faulty = doc.Count > before
		m.Warnings = slices.Clone(doc.Warnings[warned:])
		warnOdd(m, name, key, odd)
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
	for key, value := range shape.Members(entry) {
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

// manifest turns the entry into a manifest. Keys given to fault begin with a dot.
func (s *server) manifest(name string, raw bool, fault manifest.Report) *manifest.Manifest {
	m := manifest.Default()
	m.MCP.HealthTimeout.Duration = foreignHealth
	m.Package, m.Name, m.Type, m.Shared = packageOf(name), name, manifest.TypeServer, true
	m.Raw = raw
	m.Description = s.Description
	m.Disabled = s.Disabled || s.Enabled != nil && !*s.Enabled
	c := &m.MCP
	c.Command, c.Args, c.Env, c.EnvFile, c.Cwd = manifest.Words(s.Command), s.Args, s.Env, s.EnvFile, s.Cwd
	c.URL, c.Headers = s.URL, s.Headers
	if s.Auth != nil {
		c.Auth = *s.Auth
	}
	c.Tools = manifest.Tools{Include: s.IncludeTools, Exclude: s.ExcludeTools}
	if s.HealthTimeout.Duration > 0 {
		c.HealthTimeout = s.HealthTimeout
	}
	if s.CallTimeout.Duration > 0 {
		c.CallTimeout = s.CallTimeout
		c.MaxCallTime.Duration = max(c.MaxCallTime.Duration, c.CallTimeout.Duration)
	}
	switch strings.ToLower(s.Type) {
	case "":
		m.Complete(false)
	case "stdio", "local":
	case "http", "sse", "streamable-http", "streamablehttp", "streamable_http", "remote":
		c.Transport = manifest.HTTP
	default:
		m.Complete(false)
		fault(".type", "stdio, http, streamable-http and sse are known", "unknown type %q", strict.Clip(s.Type, 40))
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
func warnOdd(m *manifest.Manifest, at *yaml.Node, key string, odd []string) {
	warnAt := func(key, format string, args ...any) {
		m.Warnings = append(m.Warnings, &manifest.Fault{File: m.Path, Line: at.Line, Column: at.Column, Key: key, Message: fmt.Sprintf(format, args...)})
	}
	warn := func(format string, args ...any) { warnAt(key, format, args...) }
	if m.Package != m.Name && m.Name != "" {
		warn("the name is no package name; the server is known as %s", m.Package)
	}
	if c := m.MCP.Command; len(c) == 1 && strings.ContainsAny(c[0], " \t") && !strings.ContainsAny(c[0], `/\`) {
		warn("command is one program, blanks included; put its arguments into args")
	}
	for _, text := range odd {
		warn("%s", text)
	}
	for i, arg := range m.MCP.Args {
		if _, value, ok := strings.Cut(arg, "="); strings.HasPrefix(arg, "~/") || ok && strings.HasPrefix(value, "~/") {
			warnAt(fmt.Sprintf("%s.args[%d]", key, i), "~ is not expanded; write ${HOME} instead")
		}
	}
}

// shell says which names in an entry's values only a shell would put in.
func shell(entry *yaml.Node, dialect variable.Dialect) (odd []string) {
	for key, value := range shape.Members(entry) {
		for _, at := range slices.Concat([]*yaml.Node{value}, value.Content) {
			for _, name := range dialect.Shell(at.Value) {
				odd = append(odd, fmt.Sprintf("%s: %s is text and no variable; write ${%s}", key.Value, name, strings.Trim(name, "$%")))
			}
		}
	}
	return odd
}

// foreignHealth is the health timeout of servers from other hosts' files, which
// cannot state one: most are started by npx and download themselves first.
const foreignHealth = 3 * time.Minute

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
