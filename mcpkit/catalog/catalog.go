// Package catalog holds the tool record and the names of tools.
//
// A tool's identity is the pair of server and the server's own name for it. A
// [Table] maps every accepted form of a name to that pair; names are never
// split to find where a call goes. For the tool "get_weather" of the server
// "im.polaris.weather" with the alias "weather" the forms are
//
//	im.polaris.weather.get_weather         canonical
//	mcp.im.polaris.weather.get_weather
//	mcp__im.polaris.weather__get_weather
//	weather.get_weather                    by alias
//	mcp__weather__get_weather              exported to models
//
// The package knows neither transports nor provider rules.
package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// ID is a tool's identity: the server's name in this platform and the tool's
// name as its server lists it.
type ID struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// Canonical is <server>.<tool>; a tool that already carries its server's name
// as a prefix does not get it twice.
func (id ID) Canonical() string {
	if strings.HasPrefix(id.Tool, id.Server+".") {
		return id.Tool
	}
	return id.Server + "." + id.Tool
}

// Risk is how much harm a call of a tool may do. It comes from configuration,
// never from the server's own word alone.
type Risk string

const (
	Low      Risk = "low"
	Medium   Risk = "medium"
	High     Risk = "high"
	Critical Risk = "critical"
	Unknown  Risk = "" // nobody has said
)

// Source says where a tool comes from.
type Source struct {
	Kind         string `json:"kind"` // mcp
	Server       string `json:"server"`
	OriginalName string `json:"original_name"`
}

// Tool is the record of one tool. Values are shared between snapshots: they are
// not to be changed after they were published.
type Tool struct {
	Name         string          `json:"name"` // canonical
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"` // exactly as the server sent it; may be absent or no object
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	Source       Source          `json:"source"`
	Risk         Risk            `json:"risk,omitempty"`
	Alias        string          `json:"-"` // of the server, from its manifest; may be empty
	Raw          json.RawMessage `json:"-"` // the whole tool object as the server sent it
}

// ID is the tool's identity.
func (t *Tool) ID() ID { return ID{t.Source.Server, t.Source.OriginalName} }

const (
	// MaxExportName is the portable limit of a function name in bytes.
	MaxExportName = 64
	hashLen       = 8
)

// ExportName is the name under which a tool is offered to models:
// <prefix>__<alias or server>__<tool>, in [A-Za-z0-9_-], at most 64 bytes. It
// depends on the tool's own pair, its alias and the prefix alone, so it never
// changes when neighbours come or go. Whenever a part could not be kept as it
// is, an underscore and eight hex digits of SHA-256 over the pair end the name.
func ExportName(prefix, alias string, id ID) string {
	server, exact := id.Server, true
	if alias != "" {
		server = alias
	}
	tool := strings.TrimPrefix(id.Tool, id.Server+".")
	// Tools of a package (a dotted name) are expected to carry it as a prefix,
	// tools of other servers are expected not to. The other spelling is a
	// different tool and must not take this one's name.
	if (tool != id.Tool) != strings.Contains(id.Server, ".") {
		exact = false
	}
	if tool == "" {
		tool, exact = "tool", false
	}
	if server == "" {
		server, exact = "server", false
	}
	s, okS := clean(server)
	t, okT := clean(tool)
	lead := ""
	if prefix != "" {
		p, okP := clean(prefix)
		lead, exact = p+"__", exact && okP
	}
	name := lead + s + "__" + t
	if exact && okS && okT && len(name) <= MaxExportName && !endsLikeHash(name) {
		return name
	}
	sum := sha256.Sum256([]byte(id.Server + "\x00" + id.Tool))
	tail := "_" + hex.EncodeToString(sum[:])[:hashLen]
	// A long name loses the server's end first: the tool's name tells a model more.
	room := MaxExportName - len(tail) - len(lead) - len("__")
	if len(s)+len(t) > room {
		keep := max(room-len(t), min(len(s), 8))
		s = strings.TrimRight(s[:keep], "_-")
		t = t[:min(len(t), room-len(s))]
	}
	return lead + s + "__" + t + tail
}

// clean replaces what no model API takes; it reports false when something was
// replaced or the part holds the separator.
func clean(part string) (string, bool) {
	ok := !strings.Contains(part, "__") && !strings.HasPrefix(part, "_") && !strings.HasSuffix(part, "_")
	b := []byte(part)
	out := b[:0:0]
	for _, r := range part {
		if r < 0x80 && (r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			out = append(out, byte(r))
			continue
		}
		ok = false
		if len(out) == 0 || out[len(out)-1] != '_' {
			out = append(out, '_')
		}
	}
	return strings.ReplaceAll(string(out), "__", "_"), ok
}

// endsLikeHash reports whether name ends as a hashed name would.
func endsLikeHash(name string) bool {
	i := len(name) - hashLen - 1
	if i < 0 || name[i] != '_' {
		return false
	}
	return strings.Trim(name[i+1:], "0123456789abcdef") == ""
}

// Table maps names to tools. It is immutable and safe for concurrent use.
type Table struct {
	tools   []*Tool
	exports map[string]*Tool
	forms   map[string][]*Tool // every accepted full form
	bare    map[string][]*Tool // a tool's own name: never enough to call it
	names   map[ID]string
}

// NewTable indexes tools, which must be distinct by ID, under the export prefix
// (usually "mcp"). Tools are kept in the order of their canonical names.
func NewTable(prefix string, tools []*Tool) *Table {
	t := &Table{
		tools:   slices.Clone(tools),
		exports: make(map[string]*Tool, len(tools)),
		forms:   make(map[string][]*Tool, 3*len(tools)),
		bare:    make(map[string][]*Tool, len(tools)),
		names:   make(map[ID]string, len(tools)),
	}
	slices.SortFunc(t.tools, func(a, b *Tool) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Source.Server, b.Source.Server),
			strings.Compare(a.Source.OriginalName, b.Source.OriginalName))
	})
	for _, tool := range t.tools {
		id := tool.ID()
		short := strings.TrimPrefix(id.Tool, id.Server+".")
		name := ExportName(prefix, tool.Alias, id)
		t.names[id] = name
		t.exports[name] = tool
		for _, form := range []string{
			id.Canonical(), "mcp." + id.Canonical(),
			"mcp__" + id.Server + "__" + id.Tool, "mcp__" + id.Server + "__" + short,
		} {
			t.add(t.forms, form, tool)
		}
		if tool.Alias != "" {
			t.add(t.forms, tool.Alias+"."+short, tool)
			t.add(t.forms, "mcp."+tool.Alias+"."+short, tool)
		}
		t.add(t.bare, id.Tool, tool)
		t.add(t.bare, short, tool)
	}
	return t
}

func (t *Table) add(m map[string][]*Tool, name string, tool *Tool) {
	if !slices.Contains(m[name], tool) {
		m[name] = append(m[name], tool)
	}
}

// Tools are all tools, sorted by canonical name. The slice is shared.
func (t *Table) Tools() []*Tool { return t.tools }

// ExportName is the exported name of a tool in the table, or "".
func (t *Table) ExportName(id ID) string { return t.names[id] }

// Resolve finds the one tool that name means in any accepted form. A bare name,
// a name that several tools share, and an unknown name are *fault.Errors with
// candidates; nothing is guessed.
func (t *Table) Resolve(name string) (*Tool, error) {
	if tool, ok := t.exports[name]; ok {
		return tool, nil
	}
	switch found := t.forms[name]; {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, t.ambiguous(name, found)
	}
	if found := t.bare[name]; len(found) > 0 {
		return nil, t.ambiguous(name, found)
	}
	e := fault.New(fault.ToolNotFound, "there is no tool %.200q", name)
	e.Candidates = t.near(name)
	return nil, e
}

func (t *Table) ambiguous(name string, found []*Tool) error {
	e := fault.New(fault.AmbiguousCall, "%.200q does not say which server is meant; use a full name", name)
	for _, tool := range found {
		e.Candidates = append(e.Candidates, t.names[tool.ID()])
	}
	return e
}

// near lists up to five exported names of tools that name may have been meant
// for: first those with a form that is spelled nearly so, the nearest first, then
// those that hold its last word.
func (t *Table) near(name string) []string {
	type hit struct {
		name string
		d    int
	}
	last := name[strings.LastIndexAny(name, "._")+1:]
	limit := min(4, len(name)/4)
	var hits []hit
	for _, tool := range t.tools {
		n := t.names[tool.ID()]
		d := min(strict.Distance(name, n, limit), strict.Distance(name, tool.ID().Canonical(), limit))
		if tool.Alias != "" {
			short := strings.TrimPrefix(tool.Source.OriginalName, tool.Source.Server+".")
			d = min(d, strict.Distance(name, tool.Alias+"."+short, limit))
		}
		if d <= limit || len(last) >= 3 && strings.Contains(n, last) {
			hits = append(hits, hit{n, min(d, limit+1)})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return a.d - b.d })
	var out []string
	for _, h := range hits[:min(len(hits), 5)] {
		out = append(out, h.name)
	}
	return out
}
