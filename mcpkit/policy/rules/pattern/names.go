package pattern

import (
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// Names are what the words of a policy file may mean beside names of servers and
// canonical names of tools.
type Names struct {
	// Aliases are the names of the servers that are set up, by alias, and by name.
	Aliases map[string]string
	// Table is the catalogue; nil is an empty one.
	Table *catalog.Table
}

// Server is the pattern of a server, in which an alias is the name of its server. A
// pattern that is a server's name stays that, whatever the aliases.
func (n Names) Server(p Pattern) Pattern {
	if server := n.Aliases[p.Text]; server != "" {
		return parse(p.Text, server)
	}
	return parse(p.Text, p.Text)
}

// Tool is the pattern of a tool, in which an alias is the name of its server, and an
// exported name, of now or of an earlier version, is the tool's. An exported name that
// means several tools covers all of them for denials and higher risks, and none for
// what is granted.
func (n Names) Tool(p Pattern) Pattern {
	out := parse(p.Text, n.withServer(p.Text))
	if n.Table == nil || out.wild > 0 || !strings.Contains(p.Text, "__") {
		return out
	}
	for _, tool := range n.Table.Matching(p.Text) {
		out.named = append(out.named, tool.ID())
	}
	out.sure = len(out.named) == 1
	return out
}

// withServer is a tool's pattern with the name of a server in place of its alias.
func (n Names) withServer(text string) string {
	if alias, tool, pair := strings.Cut(text, Pair); pair {
		if server := n.Aliases[alias]; server != "" {
			return server + Pair + tool
		}
		return text
	}
	alias, tool, ok := strings.Cut(text, ".") // an alias has no dot
	server := n.Aliases[alias]
	if !ok || server == "" || server == alias {
		return text
	}
	for _, name := range n.Aliases { // a server's own name comes before an alias
		if strings.HasPrefix(text, name+".") {
			return text
		}
	}
	return server + "." + tool
}

// Idle reports whether a pattern, a tool's or a server's, covers nothing that is set
// up. A pattern of a server whose tools are not known, because it does not run, may
// cover one of them and is not idle.
func (n Names) Idle(p Pattern, tool bool) bool {
	if len(p.named) > 0 {
		return false
	}
	listed := map[string]bool{}
	if n.Table != nil {
		for _, t := range n.Table.Tools() {
			listed[t.Source.Server] = true
			if _, maybe := p.Covers(Of(t.ID())); tool && maybe || !tool && p.Server(t.Source.Server) {
				return false
			}
		}
	}
	for label, server := range n.Aliases {
		switch {
		case !tool && p.Server(server),
			tool && !listed[server] && (p.server != "" && Glob(p.server, server) || p.server == "" && begins(p.text, server+".")),
			tool && !listed[server] && strings.HasPrefix(p.text, catalog.Label(label)+"__"),
			tool && !listed[server] && strings.HasPrefix(p.text, "mcp__"+catalog.Label(label)+"__"):
			return false
		}
	}
	return true
}

// begins reports whether something that pattern covers begins with prefix.
func begins(pattern, prefix string) bool {
	for i := range len(pattern) + 1 {
		if Glob(pattern[:i], prefix) {
			return true
		}
	}
	return false
}
