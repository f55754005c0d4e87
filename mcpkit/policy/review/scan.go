package review

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review/injection"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// Severity says how sure a finding is to be an attack.
type Severity = injection.Severity

// The severities, from harmless to harmful.
const (
	Note    = injection.Note
	Warning = injection.Warning
	Danger  = injection.Danger
)

// Finding is one place that looks like poison.
type Finding struct {
	Server   string   `json:"server"`
	Tool     string   `json:"tool"`    // the server's own name, made safe to print
	Pointer  string   `json:"pointer"` // RFC 6901, into the tool as its server listed it
	Code     string   `json:"code"`    // a stable word, see the rules
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Excerpt  string   `json:"excerpt"` // what was found, made safe to print
}

const (
	maxText     = 64 << 10 // bytes of one tool that are read
	maxFindings = 40       // of one tool
	maxExcerpt  = 120      // characters
)

var padding = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[\s\x{00a0}\x{3000}]{80,}|\n\s*(?:\n\s*){12,}`)
})

// scanner looks through the tools of one catalogue.
type scanner struct {
	names map[string][]catalog.ID // by look
	tools []string                // distinctive names, with their servers below
	owner map[string][]string
	mcp   []string // servers' names with a dot
}

func newScanner(tools []*catalog.Tool) *scanner {
	s := &scanner{names: map[string][]catalog.ID{}, owner: map[string][]string{}}
	servers := map[string]bool{}
	for _, t := range tools {
		id := t.ID()
		look := skeleton(short(id))
		s.names[look] = append(s.names[look], id)
		if servers[id.Server] = true; distinctive(short(id)) {
			name := strings.ToLower(short(id))
			if !slices.Contains(s.owner[name], id.Server) {
				s.owner[name] = append(s.owner[name], id.Server)
			}
		}
	}
	for name := range s.owner {
		s.tools = append(s.tools, name)
	}
	for server := range servers {
		if strings.ContainsAny(server, ".-_") && len(server) >= 6 {
			s.mcp = append(s.mcp, strings.ToLower(server))
		}
	}
	slices.Sort(s.tools)
	slices.Sort(s.mcp)
	return s
}

func short(id catalog.ID) string { return strings.TrimPrefix(id.Tool, id.Server+".") }

// distinctive reports whether a tool's name cannot be an ordinary word.
func distinctive(name string) bool { return len(name) >= 7 && strings.ContainsAny(name, "_-.") }

// Scan looks for poison in one tool, without regard to others.
func Scan(t *catalog.Tool) []Finding { return newScanner([]*catalog.Tool{t}).scan(t) }

// scan lists the findings of one tool, ordered by place and code.
func (s *scanner) scan(t *catalog.Tool) []Finding {
	c := collector{id: t.ID()}
	s.name(&c, t)
	raw, read := t.Raw, 0
	if len(raw) == 0 {
		raw = Definition(t)
	}
	err := walk(raw, func(at func() string, value string) bool {
		if read += len(value); read > maxText {
			c.add(at(), "too_long", Danger, "the definition is too long to be read in whole", value)
			return false
		}
		s.value(&c, at, value)
		return len(c.found) < maxFindings
	})
	if err != nil {
		c.add("", "unreadable", Danger, "the definition cannot be read: "+err.Error(), "")
	}
	slices.SortFunc(c.found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Code, b.Code), strings.Compare(a.Excerpt, b.Excerpt))
	})
	return slices.Compact(c.found)
}

type collector struct {
	id    catalog.ID
	found []Finding
}

func (c *collector) add(at, code string, severity Severity, message, excerpt string) {
	shown := redact.Show(excerpt)
	if r := []rune(shown); len(r) > maxExcerpt {
		shown = string(r[:maxExcerpt]) + "…"
	}
	c.found = append(c.found, Finding{c.id.Server, redact.Show(c.id.Tool), redact.Show(at), code, severity, message, shown})
}

// value looks at one string of the definition.
func (s *scanner) value(c *collector, at func() string, value string) {
	if seen, n := redact.Strip(value); n > 0 {
		c.add(at(), "hidden_characters", Danger, fmt.Sprintf("%d characters are not seen by people", n), value)
		value = seen
	}
	if m := padding().FindStringIndex(value); m != nil && strings.TrimSpace(value[m[1]:]) != "" {
		c.add(at(), "padding", Warning, "text stands behind a wide gap", value[m[1]:])
	}
	flat := injection.Plain(value)
	for _, hit := range injection.Find(value) {
		c.add(at(), hit.Code, hit.Severity, hit.Message, hit.Excerpt)
	}
	if injection.LongRun(flat) {
		c.add(at(), "encoded", Warning, "it holds a long run that nobody can read", flat)
	}
	for _, other := range s.mcp {
		if i := strings.Index(flat, other); i >= 0 && other != strings.ToLower(c.id.Server) && !strings.HasPrefix(strings.ToLower(c.id.Server), other) {
			c.add(at(), "names_server", Warning, "it speaks of the server "+other, injection.Around(flat, []int{i, i + len(other)}))
		}
	}
	if strings.Contains(flat, "mcp__") {
		c.add(at(), "names_tool", Warning, "it speaks of an exported name", flat)
	}
	s.otherTools(c, at, flat)
}

// otherTools finds the names of other servers' tools.
func (s *scanner) otherTools(c *collector, at func() string, flat string) {
	if !strings.ContainsAny(flat, "_-.") {
		return
	}
	for word := range strings.FieldsFuncSeq(flat, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.'
	}) {
		word = strings.Trim(word, ".-")
		owners, known := s.owner[word]
		if !known || word == flat || slices.Contains(owners, c.id.Server) {
			continue
		}
		c.add(at(), "names_tool", Warning, "it speaks of a tool of "+redact.Show(owners[0]), word)
	}
}

// name looks at the tool's name beside all others'.
func (s *scanner) name(c *collector, t *catalog.Tool) {
	id := t.ID()
	name := short(id)
	look := skeleton(name)
	if mixed(name) {
		c.add("/name", "homoglyph_name", Danger, "the name mixes letters that look like others", name)
	}
	var like, same []string // other tools, which may be hundreds: one finding is enough of each
	for _, other := range s.names[look] {
		switch {
		case other == id:
		case spelled(short(other)) != spelled(name) && spelled(name) == look:
			// The other one is written with look-alikes; this one is as it seems.
		case spelled(short(other)) != spelled(name):
			like = append(like, redact.Show(other.Canonical()))
		case other.Server != id.Server:
			same = append(same, redact.Show(other.Canonical()))
		}
	}
	if len(like) > 0 {
		c.add("/name", "homoglyph_name", Danger, "the name looks like "+firstOf(like), name)
	}
	if len(same) > 0 {
		c.add("/name", "same_name", Note, "another server has a tool of that name: "+firstOf(same), name)
	}
	lower := strings.ToLower(name)
	for _, server := range s.mcp {
		if own := strings.ToLower(id.Server); server != own && !strings.HasPrefix(own, server) && strings.Contains(lower, server) {
			c.add("/name", "poses_as", Danger, "the name holds that of the server "+server, name)
		}
	}
	if strings.HasPrefix(lower, "mcp__") || strings.HasPrefix(lower, "mcp.") {
		c.add("/name", "poses_as", Danger, "the name has the form of an exported one", name)
	}
}

// firstOf is the first in order of names and how many more there are.
func firstOf(names []string) string {
	first := slices.Min(names)
	if more := len(names) - 1; more > 0 {
		return fmt.Sprintf("%s and %d more", first, more)
	}
	return first
}

// walk visits every member name and every string of a JSON value, with the
// place it stands at, until visit returns false.
func walk(raw []byte, visit func(at func() string, value string) bool) error {
	type frame struct {
		object, value bool // in an object: a value comes next, not a name
		name          string
		index         int
	}
	var stack []frame
	at := func() string {
		var b strings.Builder
		for _, f := range stack {
			b.WriteByte('/')
			if f.object {
				b.WriteString(escape(f.name))
			} else {
				b.WriteString(strconv.Itoa(f.index))
			}
		}
		return b.String()
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for first := true; first || len(stack) > 0; first = false {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		if len(stack) > 0 {
			top := &stack[len(stack)-1]
			if name, ok := tok.(string); ok && top.object && !top.value {
				top.name, top.value = name, true
				if !visit(at, name) {
					return nil
				}
				continue
			}
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				stack = append(stack, frame{object: v == '{'})
				continue
			}
			stack = stack[:len(stack)-1]
		case string:
			if !visit(at, v) {
				return nil
			}
		}
		if len(stack) > 0 { // a value has ended
			top := &stack[len(stack)-1]
			top.value = false
			top.index++
		}
	}
	return nil
}

// skeleton is what a name looks like: names with one skeleton are taken for one
// another.
func skeleton(name string) string {
	name, _ = redact.Strip(name)
	return strings.Map(func(r rune) rune {
		if like, ok := injection.Lookalike(r); ok {
			r = like
		}
		switch r {
		case '-', '.', ' ':
			return '_'
		case '0':
			return 'o'
		case '1', '|':
			return 'l'
		}
		return r
	}, strings.ToLower(strings.ReplaceAll(norm.NFKC.String(name), "I", "l")))
}

// spelled is a name without regard to case and to what separates its words.
func spelled(name string) string {
	return strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace(strings.ToLower(name))
}

// mixed reports whether a name holds Latin letters and such that only look so.
func mixed(name string) bool {
	latin, like := false, false
	for _, r := range strings.ToLower(norm.NFKC.String(name)) {
		latin = latin || r >= 'a' && r <= 'z'
		_, ok := injection.Lookalike(r)
		like = like || ok
	}
	return latin && like
}
