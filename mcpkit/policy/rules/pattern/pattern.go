// Package pattern is the names and globs of servers and tools in the policy file: which
// tools one covers, surely or perhaps, and which of two decides.
//
//	names := pattern.Names{Aliases: map[string]string{"weather": "im.polaris.weather"}, Table: table}
//	p := names.Tool(pattern.Parse("weather.get_*"))
//	sure, maybe := p.Covers(pattern.Of(tool.ID()))
//
// What follows from a rule whose pattern covers a tool is package rules'.
package pattern

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// Pair separates server and tool in the pair form of a tool pattern. The
// protocol allows no colon in a tool's name.
const Pair = "::"

// Glob reports whether pattern covers the whole of s. An asterisk stands for any
// run of characters, dots and nothing included; a question mark for exactly one.
// Everything else stands for itself, in its own case.
func Glob(pattern, s string) bool {
	star, mark := -1, 0 // where the last asterisk stood, and what it has taken so far
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
			continue
		case p < len(pattern) && pattern[p] == '?':
			_, size := utf8.DecodeRuneInString(s[i:])
			p, i = p+1, i+size
			continue
		case p < len(pattern) && pattern[p] == s[i]:
			p, i = p+1, i+1
			continue
		case star < 0:
			return false
		}
		_, size := utf8.DecodeRuneInString(s[mark:])
		mark += size
		p, i = star+1, mark
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Subject is a tool as patterns see it.
type Subject struct {
	id       catalog.ID
	server   string
	original string // the server's own name for the tool
	own      string // the same without the server's prefix
	plain    string // canonical
	strict   string // canonical; the dots in own can be reached by * and ? alone
}

// Of is a tool as patterns see it.
func Of(id catalog.ID) Subject {
	s := Subject{id: id, server: id.Server, original: id.Tool, own: strings.TrimPrefix(id.Tool, id.Server+"."), plain: id.Canonical()}
	s.strict = s.plain
	if strings.Contains(s.own, ".") {
		s.strict = id.Server + "." + strings.ReplaceAll(s.own, ".", "\x00")
	}
	return s
}

// Pattern is one name or glob of the policy file.
type Pattern struct {
	Text         string // as written
	text         string // the same, with a server's name in place of its alias
	server, tool string // of the pair form; server is empty in the canonical form
	literals     int    // characters that stand for themselves
	wild         int    // asterisks and question marks
	named        []catalog.ID
	sure         bool // named is what the text means, beyond doubt
}

// Parse reads a pattern. What makes no sense covers nothing.
func Parse(text string) Pattern { return parse(text, text) }

func parse(written, text string) Pattern {
	p := Pattern{Text: written, text: text, wild: strings.Count(text, "*") + strings.Count(text, "?")}
	p.literals = utf8.RuneCountInString(text) - p.wild
	if server, tool, ok := strings.Cut(text, Pair); ok {
		p.server, p.tool = server, tool
		p.literals-- // both forms of one name weigh the same
	}
	return p
}

// Server reports whether p, which is a server's, covers a server.
func (p Pattern) Server(name string) bool { return Glob(p.text, name) }

// Covers reports whether p covers a tool: surely, or only if a dot in the pattern may
// stand for one in the tool's own name, or the text means another tool, too.
func (p Pattern) Covers(s Subject) (sure, maybe bool) {
	if slices.Contains(p.named, s.id) {
		sure, maybe = p.sure, true
	}
	if p.server != "" {
		pair := Glob(p.server, s.server) && (Glob(p.tool, s.original) || Glob(p.tool, s.own))
		return sure || pair, maybe || pair
	}
	sure = sure || Glob(p.text, s.strict)
	return sure, sure || maybe || s.strict != s.plain && Glob(p.text, s.plain)
}

// Compare orders patterns by precedence: exact names first, then whatever spells
// out more of the name, then fewer wildcards, then the pair form, then the text.
func (p Pattern) Compare(q Pattern) int {
	return cmp.Or(
		cmp.Compare(min(p.wild, 1), min(q.wild, 1)),
		cmp.Compare(q.literals, p.literals),
		cmp.Compare(p.wild, q.wild),
		strings.Compare(q.server, p.server),
		strings.Compare(p.text, q.text),
	)
}
