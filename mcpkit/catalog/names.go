package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	// MaxExportName is the portable limit of a function name in bytes.
	MaxExportName = 64
	hashDigits    = 16 // 64 bits: nobody finds two tools with one hash by trying
	formerDigits  = 8  // of the names that earlier versions exported
)

// short is a tool's own name without its server's.
func short(id ID) string { return strings.TrimPrefix(id.Tool, id.Server+".") }

// plainName is the name under which a tool is offered to models unless its server
// offers another tool with a claim to it: <prefix>__<alias or server>__<tool>, or
// without the first part where prefix is empty. Each run of characters outside
// [A-Za-z0-9_-] is an underscore, and an empty part is a word. ok is false where the
// name is too long, or where the server has no claim to its label; see ownsLabel.
func plainName(prefix, alias string, id ID) (name string, ok bool) {
	lead, server, tool := parts(prefix, alias, id)
	name = lead + server + "__" + tool
	return name, len(name) <= MaxExportName && ownsLabel(cmp.Or(alias, id.Server))
}

// Label is a server's name, or its alias, as it stands in exported names.
func Label(server string) string {
	_, label, _ := parts("", server, ID{})
	return label
}

// ownName is plainName, or hashedName where that does not do.
func ownName(prefix, alias string, id ID) string {
	if name, ok := plainName(prefix, alias, id); ok {
		return name
	}
	return hashedName(prefix, alias, id)
}

// ownsLabel reports whether a server has its label without a hash: of all the servers
// whose names are equal once dots are underscores, one has it, so that the names of a
// server's tools depend on no other server. com.example.search has com_example_search,
// as it reads like a package; my_server, which does not, has its own name.
func ownsLabel(label string) bool {
	text, exact := clean(label)
	dotted := strings.Contains(label, ".")
	switch {
	case !exact && (!dotted || strings.ReplaceAll(label, ".", "_") != text):
		return false // such as two underscores, or letters that no model API takes
	case dotted:
		return !strings.Contains(label, "_") && isPackage(strings.Split(label, "."))
	}
	return !isPackage(strings.Split(label, "_"))
}

// isPackage reports whether words are those of a package, which is named by a domain
// in reverse.
func isPackage(words []string) bool {
	return len(words) > 2 && slices.Contains(domains, words[0]) || len(words) == 2 && slices.Contains(domains[:5], words[0])
}

// domains are top-level domains that packages are named by. The first five are words
// that hardly begin the name of anything else.
var domains = strings.Fields(`com org edu gov im
	ai app at au be biz br ca ch cloud cn co cz de dev dk es eu fi fr info int io it jp kr me
	net nl no pl ru se tech uk us xyz`)

// parts are what the exported names of a tool are made of.
func parts(prefix, alias string, id ID) (lead, server, tool string) {
	if server, _ = clean(cmp.Or(alias, id.Server)); server == "" {
		server = "server"
	}
	if tool, _ = clean(short(id)); tool == "" {
		tool = "tool"
	}
	if prefix != "" {
		lead, _ = clean(prefix)
		lead += "__"
	}
	return lead, server, tool
}

// hashedName is a name of the same parts with an underscore and 16 hex digits of SHA-256 over the pair,
// in at most MaxExportName bytes.
func hashedName(prefix, alias string, id ID) string {
	lead, server, tool := parts(prefix, alias, id)
	return withHash(lead, server, tool, id, hashDigits)
}

// withHash joins the parts of a name and ends it in a hash of the pair.
func withHash(lead, server, tool string, id ID, digits int) string {
	sum := sha256.Sum256([]byte(id.Server + "\x00" + id.Tool))
	tail := "_" + hex.EncodeToString(sum[:])[:digits]
	// A long name loses the server's end first: the tool's name tells a model more.
	room := MaxExportName - len(tail) - len(lead) - len("__")
	if len(server)+len(tool) > room {
		keep := max(room-len(tool), min(len(server), 8))
		server = strings.TrimRight(server[:keep], "_-")
		tool = tool[:min(len(tool), room-len(server))]
	}
	return lead + server + "__" + tool + tail
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
	text := string(out)
	for strings.Contains(text, "__") { // which separates the parts of a name
		text = strings.ReplaceAll(text, "__", "_")
	}
	return text, ok
}

// forms are the accepted full forms of a tool's name. Among them are its exported name,
// unless that is contested, and the same without a prefix.
func forms(prefix, alias string, id ID) []string {
	own := short(id)
	out := []string{
		id.Canonical(), "mcp." + id.Canonical(),
		"mcp__" + id.Server + "__" + id.Tool, "mcp__" + id.Server + "__" + own,
		ownName(prefix, alias, id), ownName("", alias, id),
	}
	if alias != "" {
		out = append(out, alias+"."+own, "mcp."+alias+"."+own)
	}
	return out
}

// formerNames are the exported names of a tool by the rule of earlier versions, with
// the prefix and, as prompts had it, without: a tool of a dotted server was expected to
// have the server's name as a prefix and a tool of any other server not to, and the
// other spelling, like each name in which something was replaced, ended in eight hex
// digits. Models, hosts' settings and files of people remember these names.
func formerNames(prefix, alias string, id ID) []string {
	out := []string{formerName(prefix, alias, id)}
	if prefix != "" {
		out = append(out, formerName("", alias, id))
	}
	return out
}

func formerName(prefix, alias string, id ID) string {
	label, own := cmp.Or(alias, id.Server), short(id)
	exact := (own != id.Tool) == strings.Contains(id.Server, ".") && own != "" && label != ""
	for _, part := range []string{label, own, prefix} {
		if _, ok := clean(part); !ok {
			exact = false
		}
	}
	lead, server, tool := parts(prefix, alias, id)
	name := lead + server + "__" + tool
	if exact && len(name) <= MaxExportName && !endsLikeHash(name) {
		return name
	}
	return withHash(lead, server, tool, id, formerDigits)
}

// endsLikeHash reports whether name ends as a hashed name of earlier versions would.
func endsLikeHash(name string) bool {
	i := len(name) - formerDigits - 1
	return i >= 0 && name[i] == '_' && strings.Trim(name[i+1:], "0123456789abcdef") == ""
}

// claims are the tools that a name belongs to, whatever the case of its letters: hosts
// and model APIs there are that take names which differ by nothing else for one.
type claims map[string]claim

type claim struct {
	by     *Tool
	shared bool
}

func (c claims) add(name string, tool *Tool) {
	key := strings.ToLower(name)
	was := c[key]
	c[key] = claim{tool, was.shared || was.by != nil && was.by != tool}
}

// contested reports whether more than one tool has a claim to a name.
func (c claims) contested(name string) bool { return c[strings.ToLower(name)].shared }
