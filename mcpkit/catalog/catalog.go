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

// Table maps names to tools. It is immutable and safe for concurrent use.
type Table struct {
	prefix  string
	tools   []*Tool
	ids     map[ID]*Tool
	exports map[string]*Tool   // by exported name
	forms   map[string][]*Tool // every accepted full form
	bare    map[string][]*Tool // a tool's own name: never enough to call it
	former  map[string][]*Tool // the names under which earlier versions exported tools
	names   map[ID]string
	refused []*Tool
}

// NewTable indexes tools, which must be distinct by ID, under the export prefix
// (usually "mcp"; empty for none). Tools are kept in the order of their canonical
// names.
//
// The exported name of a tool is <prefix>__<alias or server>__<tool>, with an underscore
// and 16 hex digits of a hash of its pair where the name is too long, or its server's
// name is no better than that of another server would be; see docs/design/names.md.
// Where another tool has a claim to the name, by any of its own forms and whatever the
// case of letters, each of them gets the hash, and the name without it is ambiguous: a
// name that meant one tool never comes to mean another one that appeared later.
func NewTable(prefix string, tools []*Tool) *Table { return newTable(prefix, tools, hashedName) }

// newTable is NewTable with another hash, for tests of two tools with equal hashes.
func newTable(prefix string, tools []*Tool, hashed func(prefix, alias string, id ID) string) *Table {
	t := &Table{
		prefix:  prefix,
		tools:   slices.Clone(tools),
		ids:     make(map[ID]*Tool, len(tools)),
		exports: make(map[string]*Tool, len(tools)),
		forms:   make(map[string][]*Tool, 6*len(tools)),
		bare:    make(map[string][]*Tool, 2*len(tools)),
		former:  make(map[string][]*Tool, 2*len(tools)),
		names:   make(map[ID]string, len(tools)),
	}
	slices.SortFunc(t.tools, func(a, b *Tool) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Source.Server, b.Source.Server),
			strings.Compare(a.Source.OriginalName, b.Source.OriginalName))
	})
	claims := make(claims, 8*len(tools))
	for _, tool := range t.tools {
		id := tool.ID()
		t.ids[id] = tool
		own, former := forms(prefix, tool.Alias, id), formerNames(prefix, tool.Alias, id)
		for _, form := range own {
			add(t.forms, form, tool)
		}
		for _, form := range former {
			add(t.former, form, tool)
		}
		claimed := slices.Concat(own, former)
		if !ownsLabel(cmp.Or(tool.Alias, id.Server)) {
			// Names of the server that owns the label are not to depend on this one.
			claimed = []string{ownName(prefix, tool.Alias, id)}
		}
		for _, form := range claimed {
			claims.add(form, tool)
		}
		add(t.bare, id.Tool, tool)
		add(t.bare, short(id), tool)
	}
	t.export(prefix, claims, hashed)
	return t
}

// export gives each tool its name, and no name to tools that could not be told apart.
func (t *Table) export(prefix string, claims claims, hashed func(prefix, alias string, id ID) string) {
	for _, tool := range t.tools {
		id := tool.ID()
		name := ownName(prefix, tool.Alias, id)
		if claims.contested(name) {
			name = hashed(prefix, tool.Alias, id)
			claims.add(name, tool)
		}
		t.names[id] = name
	}
	for _, tool := range t.tools {
		id := tool.ID()
		name := t.names[id]
		add(t.forms, name, tool)
		if claims.contested(name) {
			delete(t.names, id)
			t.refused = append(t.refused, tool)
			continue
		}
		t.exports[name] = tool
	}
}

func add(m map[string][]*Tool, name string, tool *Tool) {
	if !slices.Contains(m[name], tool) {
		m[name] = append(m[name], tool)
	}
}

// Prefix leads the exported names; it may be empty.
func (t *Table) Prefix() string { return t.prefix }

// Tools are all tools, sorted by canonical name. The slice is shared.
func (t *Table) Tools() []*Tool { return t.tools }

// Refused are the tools without an exported name: even with a hash of 64 bits their
// name is that of another tool, which no two honest tools come to. They are offered
// to nobody.
func (t *Table) Refused() []*Tool { return t.refused }

// Tool is the tool with an identity, or nil.
func (t *Table) Tool(id ID) *Tool { return t.ids[id] }

// ExportName is the exported name of a tool in the table, or "".
func (t *Table) ExportName(id ID) string { return t.names[id] }

// Resolve finds the one tool that name means in any accepted form. A bare name,
// a name that several tools share, and an unknown name are *fault.Errors with
// candidates; nothing is guessed. A name under which an earlier version exported a
// tool still means that tool; see [Table.Renamed].
func (t *Table) Resolve(name string) (*Tool, error) {
	switch found := t.Matching(name); {
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

// Renamed is the exported name of the tool that an earlier version exported under
// name; ok is false where name is good as it is, or no tool's.
func (t *Table) Renamed(name string) (now string, ok bool) {
	if len(t.forms[name]) > 0 || len(t.former[name]) != 1 {
		return "", false
	}
	return t.names[t.former[name][0].ID()], true
}

// Matching are the tools that name means in any accepted form, none where it means
// none and several where it is ambiguous. A bare name means none.
func (t *Table) Matching(name string) []*Tool {
	if tool := t.exports[name]; tool != nil {
		return []*Tool{tool}
	}
	found := t.forms[name]
	for _, tool := range t.former[name] {
		if !slices.Contains(found, tool) {
			found = append(slices.Clip(found), tool)
		}
	}
	return found
}

func (t *Table) ambiguous(name string, found []*Tool) error {
	e := fault.New(fault.AmbiguousCall, "%.200q does not say which server is meant; use a full name", name)
	for _, tool := range found {
		if name := t.names[tool.ID()]; name != "" {
			e.Candidates = append(e.Candidates, name)
		}
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
		if n == "" {
			continue
		}
		d := min(strict.Distance(name, n, limit), strict.Distance(name, tool.ID().Canonical(), limit))
		if tool.Alias != "" {
			d = min(d, strict.Distance(name, tool.Alias+"."+short(tool.ID()), limit))
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
