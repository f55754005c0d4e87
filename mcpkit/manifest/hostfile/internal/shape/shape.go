// Package shape knows the forms in which MCP hosts write their servers, and brings
// an entry of each into one: the keys of mcpServers files as Claude Desktop writes
// them, and the keys of a manifest for what these have no word for.
//
//	doc, dialect := shape.Parse(".codex/config.toml", data, options)
//	for _, list := range shape.Lists(doc.Root, false) {
//		for name, entry := range shape.Members(list.Node) {
//			notes := list.Common(entry)
//		}
//	}
//
// It changes nodes of a document and decodes nothing.
package shape

import (
	"cmp"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/variable"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Known says, for a person whose file has no servers in it, where servers are
// looked for.
const Known = `they stand under "mcpServers", "servers" (VS Code), "context_servers" (Zed), "amp.mcpServers" (Amp), "mcp" (opencode, Crush), "mcp_servers" (Codex, TOML) or "extensions" (Goose, YAML)`

// Parse parses a file by the ending of its name: TOML, YAML, else JSON.
func Parse(file string, data []byte, o strict.Options) *strict.Document {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".toml":
		return strict.TOML(file, data, o)
	case ".yaml", ".yml":
		return strict.YAML(file, data, o)
	}
	return strict.JSON(file, data, o)
}

// Dialect is how variables are written in a file of the project in folder.
func Dialect(file string, root *yaml.Node) variable.Dialect {
	d := variable.Dialect{Foreign: true}
	switch filepath.Base(filepath.Dir(file)) {
	case ".gemini", ".copilot":
		d.Dollar = true
	}
	if filepath.Base(file) == "mcp-config.json" || gemini(root) || typed(root, "stdio", "http", "sse") != nil {
		d.Dollar = true
	}
	d.Braces = typed(root, "local", "remote") != nil
	inputs := items(Get(root, "inputs")) // of VS Code, in a file of its own and in the settings
	for _, input := range append(inputs, items(Get(Get(root, "mcp"), "inputs"))...) {
		id, def := Get(input, "id"), Get(input, "default")
		if id != nil && def != nil && def.Kind == yaml.ScalarNode {
			if d.Inputs == nil {
				d.Inputs = make(map[string]string)
			}
			d.Inputs[id.Value] = def.Value
		}
	}
	return d
}

// gemini reports whether a file has what only Gemini CLI's settings have.
func gemini(root *yaml.Node) bool {
	if mcp := Get(root, "mcp"); Get(mcp, "excluded") != nil || Get(mcp, "allowed") != nil {
		return true
	}
	for _, entry := range Members(Get(root, "mcpServers")) {
		if Get(entry, "httpUrl") != nil || Get(entry, "includeTools") != nil || Get(entry, "excludeTools") != nil || Get(entry, "trust") != nil {
			return true
		}
	}
	return false
}

// List is a place in a file that holds servers.
type List struct {
	Path    string     // of keys
	Node    *yaml.Node // a mapping of names to entries
	Project string     // the folder that these are for; empty where they are for the file's own
	// Excluded are the names of servers that the host does not start.
	Excluded []string
	// Timeout is the manifest's key for the host's key of that name: call_timeout, or
	// health_timeout where a host waits that long for the list of tools.
	Timeout string
}

// Lists are the places of a file that hold servers, none where it has none: one for
// the file as a whole, and if wanted those that Claude Code keeps for single projects.
func Lists(root *yaml.Node, projects bool) (lists []List) {
	mcp := Get(root, "mcp")
	for _, at := range []List{
		{Path: "mcpServers", Node: Get(root, "mcpServers")}, {Path: "servers", Node: Get(root, "servers")},
		{Path: "mcp.mcpServers", Node: Get(mcp, "mcpServers")}, {Path: "mcp.servers", Node: Get(mcp, "servers")},
		{Path: "context_servers", Node: Get(root, "context_servers")},
		{Path: "amp.mcpServers", Node: Get(root, "amp.mcpServers")},
		{Path: "mcp_servers", Node: Get(root, "mcp_servers")},
		{Path: "mcp", Node: typed(root, "local", "remote"), Timeout: "health_timeout"}, // opencode
		{Path: "mcp", Node: typed(root, "stdio", "http", "sse")},                       // Crush
		{Path: "extensions", Node: goose(root)},
		{Path: "", Node: bare(root)},
	} {
		if at.Node != nil {
			at.Node = named(at.Node)
			at.Excluded = excluded(mcp, at.Node)
			at.Timeout = cmp.Or(at.Timeout, "call_timeout")
			lists = append(lists, at)
			break
		}
	}
	if projects {
		for dir, project := range Members(Get(root, "projects")) {
			if node := Get(project, "mcpServers"); node != nil && filepath.IsAbs(dir.Value) {
				lists = append(lists, List{
					Path: "projects." + dir.Value + ".mcpServers", Node: node, Project: dir.Value, Timeout: "call_timeout",
					Excluded: texts(Get(project, "disabledMcpServers")),
				})
			}
		}
	}
	return lists
}

// excluded are the servers of a list that Gemini CLI's settings leave out.
func excluded(mcp, list *yaml.Node) (names []string) {
	allowed, out := Get(mcp, "allowed"), texts(Get(mcp, "excluded"))
	for name := range Members(list) {
		if slices.Contains(out, name.Value) || allowed != nil && !slices.Contains(texts(allowed), name.Value) {
			names = append(names, name.Value)
		}
	}
	return names
}

// typed is the mapping under "mcp" whose members are servers with one of these types, or
// nil.
func typed(root *yaml.Node, types ...string) *yaml.Node {
	mcp := Get(root, "mcp")
	for _, entry := range Members(mcp) {
		if typ := Get(entry, "type"); typ != nil && slices.Contains(types, typ.Value) {
			return mcp
		}
	}
	return nil
}

// goose is the mapping under "extensions" without what is built into Goose, or nil.
func goose(root *yaml.Node) *yaml.Node {
	all := Get(root, "extensions")
	servers := like(all)
	for name, entry := range Members(all) {
		if typ := Get(entry, "type"); typ != nil && slices.Contains([]string{"stdio", "sse", "streamable_http"}, typ.Value) {
			remove(entry, "name")
			servers.Content = append(servers.Content, name, entry)
		}
	}
	if servers == nil || len(servers.Content) == 0 {
		return nil
	}
	return servers
}

// bare is the file itself where it is a mapping of servers and of nothing else, or
// nil.
func bare(root *yaml.Node) *yaml.Node {
	n := 0
	for _, entry := range Members(root) {
		n++
		if Get(entry, "command") == nil && Get(entry, "url") == nil && Get(entry, "serverUrl") == nil && Get(entry, "httpUrl") == nil {
			return nil
		}
	}
	if n == 0 {
		return nil
	}
	return root
}

// named makes of a list of entries that have names a mapping. What is no such list is
// returned as it is.
func named(list *yaml.Node) *yaml.Node {
	if list.Kind != yaml.SequenceNode {
		return list
	}
	out := like(list)
	out.Kind, out.Tag = yaml.MappingNode, "!!map"
	for _, entry := range list.Content {
		name := Get(entry, "name")
		if name == nil || name.Kind != yaml.ScalarNode {
			return list
		}
		remove(entry, "name")
		out.Content = append(out.Content, name, entry)
	}
	return out
}

// like is an empty node of the kind and place of n; nil for nil.
func like(n *yaml.Node) *yaml.Node {
	if n == nil {
		return nil
	}
	return &yaml.Node{Kind: n.Kind, Tag: n.Tag, Line: n.Line, Column: n.Column}
}

// Members are the keys of a mapping and their values, in order; none of what is no
// mapping.
func Members(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
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

// Get is a member of a mapping that is not null, or nil.
func Get(n *yaml.Node, name string) *yaml.Node {
	for key, value := range Members(n) {
		if key.Value == name && value.ShortTag() != "!!null" {
			return value
		}
	}
	return nil
}

// items are the elements of a list; none of what is no list.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// texts are the scalars of a list, or the one that stands in its place.
func texts(n *yaml.Node) (all []string) {
	if n != nil && n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	for _, item := range items(n) {
		if item.Kind == yaml.ScalarNode {
			all = append(all, item.Value)
		}
	}
	return all
}
