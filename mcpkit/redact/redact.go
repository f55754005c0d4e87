// Package redact takes secrets and hidden characters out of text, JSON and logs.
//
//	r := redact.New([]string{os.Getenv("GITHUB_TOKEN")})
//	clean, hits := r.JSON(result)            // {"text":"token is [redacted:secret]"}
//	logger := slog.New(r.Handler(handler))   // the same for log records
//	text, n := redact.Strip(text)            // nothing invisible reaches a model
//	fmt.Println(redact.Show(name))           // nothing moves the cursor: \x1b[2J
//
// Removed are the configured secrets, also where they stand URL-encoded or
// JSON-escaped, and what has the shape of a known token (package shapes). A secret
// that is encoded in another way, cut in two, or shorter than [MinSecret] is not
// found: redaction limits accidents, it does not stop a server that wants to leak.
// Hidden characters inside a secret hide it, so text is stripped first.
//
// One pass over the text looks for two rare bytes of everything that could be
// there; nothing else is examined, and text without a find is returned as it is.
package redact

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aurorabot-dev/platform/mcpkit/redact/internal/shapes"
)

// MinSecret is the least number of bytes of a configured secret: removing less
// would spoil any text.
const MinSecret = 4

// Hits counts finds by the name of the rule; nil is none. Configured secrets
// are under "secret".
type Hits map[string]int

func (h *Hits) add(rule string) {
	if *h == nil {
		*h = Hits{}
	}
	(*h)[rule]++
}

// Merge adds the counts of other to h.
func (h *Hits) Merge(other Hits) {
	if len(other) > 0 && *h == nil {
		*h = Hits{}
	}
	for rule, n := range other {
		(*h)[rule] += n
	}
}

// Rules are the names of the rules that were hit, sorted.
func (h Hits) Rules() []string {
	if len(h) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(h))
}

// Redactor removes secrets. It is safe for concurrent use; nil and the zero
// value know the shapes of tokens and no configured secrets.
type Redactor struct {
	index atomic.Pointer[index]
}

// New makes a Redactor that also removes the given secrets.
func New(secrets []string) *Redactor {
	r := &Redactor{}
	r.Set(secrets)
	return r
}

// Set replaces the configured secrets.
func (r *Redactor) Set(secrets []string) { r.index.Store(newIndex(secrets)) }

// shapesOnly is made when it is needed: most commands redact nothing.
var shapesOnly = sync.OnceValue(func() *index { return newIndex(nil) })

func (r *Redactor) load() *index {
	if r != nil {
		if x := r.index.Load(); x != nil {
			return x
		}
	}
	return shapesOnly()
}

// String returns s without secrets, and what was found.
func (r *Redactor) String(s string) (string, Hits) {
	var hits Hits
	return r.load().clean(s, &hits), hits
}

// Bytes is String for bytes. It returns b itself where nothing was found.
func (r *Redactor) Bytes(b []byte) ([]byte, Hits) {
	var hits Hits
	s := view(b)
	out := r.load().clean(s, &hits)
	if hits == nil {
		return b, nil
	}
	return []byte(out), hits
}

// index finds the places where something could be. Of every literal it knows two
// overlapping pairs of bytes, the rarest there are, so that it is met by one of
// them when a text is read two bytes at a time.
type index struct {
	pairs    [1 << 16 / 64]uint64 // bit set: the pair is of some literal, or has a sign that assigns
	literals [256][]literal       // by slot of the pair; longer ones first
	secrets  []string             // longer ones first
}

// literal is a text of at least three bytes at which a rule is tried.
type literal struct {
	text string
	rule *shapes.Rule // nil for a configured secret
	key  int          // where in text the pair is
}

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// slot spreads pairs over the lists of literals.
func slot(p uint16) uint8 { return uint8(p>>8)*31 ^ uint8(p) }

func newIndex(secrets []string) *index {
	x := &index{}
	for _, s := range secrets {
		for _, form := range forms(s) {
			if len(form) >= MinSecret && !shapes.OfMarkers(form) {
				x.secrets = append(x.secrets, form)
			}
		}
	}
	slices.SortFunc(x.secrets, func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	x.secrets = slices.Compact(x.secrets)
	for _, s := range x.secrets {
		x.add(literal{text: s})
	}
	for i := range shapes.Rules {
		for _, text := range shapes.Rules[i].Literals {
			x.add(literal{text: text, rule: &shapes.Rules[i]})
		}
	}
	for _, list := range x.literals {
		slices.SortStableFunc(list, func(a, b literal) int { return len(b.text) - len(a.text) })
	}
	for c := range 256 {
		for _, sign := range []byte{'=', ':'} {
			x.mark(pair(sign, byte(c)))
			x.mark(pair(byte(c), sign))
		}
	}
	return x
}

func (x *index) add(l literal) {
	t := l.text
	rank := func(i int) int { return shapes.Frequency(t[i]) + 2*shapes.Frequency(t[i+1]) + shapes.Frequency(t[i+2]) }
	best := 0
	for i := 1; i+2 < min(len(t), 32); i++ {
		if rank(i) < rank(best) {
			best = i
		}
	}
	for _, l.key = range []int{best, best + 1} {
		p := pair(t[l.key], t[l.key+1])
		x.mark(p)
		x.literals[slot(p)] = append(x.literals[slot(p)], l)
	}
}

func (x *index) mark(p uint16) { x.pairs[p>>6] |= 1 << (p & 63) }

// forms are the ways in which a secret is written.
func forms(s string) []string {
	out := []string{s, strings.TrimSpace(s)}
	// Of a secret with several lines, such as a key, each line is one too.
	if lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
		for _, line := range lines {
			if line = strings.TrimSpace(line); len(line) >= 16 {
				out = append(out, line)
			}
		}
	}
	for _, f := range slices.Clone(out) {
		out = append(out, url.QueryEscape(f), url.PathEscape(f))
		if raw := appendQuoted(nil, f); len(raw) != len(f)+2 {
			out = append(out, string(raw[1:len(raw)-1]))
		}
	}
	return out
}

// clean removes everything from s. A replacement may by its edges complete
// another secret, so it looks again; where that does not end it gives up the
// whole text.
func (x *index) clean(s string, hits *Hits) string {
	for range 4 {
		out, found := x.pass(s, hits)
		if !found {
			return s
		}
		s = out
	}
	if _, found := x.pass(s, &Hits{}); found {
		return shapes.Marker(shapes.Secret)
	}
	return s
}

// pass replaces every find in s once.
func (x *index) pass(s string, hits *Hits) (string, bool) {
	var out []byte
	done := 0
	for i := 1; i < len(s); i += 2 {
		p := pair(s[i-1], s[i])
		if x.pairs[p>>6]&(1<<(p&63)) == 0 {
			continue
		}
		start, end, name := x.find(s, i-1, done)
		if end == 0 {
			continue
		}
		hits.add(name)
		out = append(out, s[done:start]...)
		out = append(out, shapes.Marker(name)...)
		done, i = end, end-1
	}
	if out == nil {
		return s, false
	}
	return string(append(out, s[done:]...)), true
}

// find looks for what has the pair of bytes at i, or for what a sign there
// assigns. Nothing before done is looked at. No find has end 0.
func (x *index) find(s string, i, done int) (start, end int, name string) {
	for _, l := range x.literals[slot(pair(s[i], s[i+1]))] {
		at := i - l.key
		switch {
		case at < done || s[at] != l.text[0] || !strings.HasPrefix(s[at:], l.text):
		case l.rule == nil:
			return at, at + x.longest(s[at:]), shapes.Secret
		default:
			if start, end = l.rule.Find(s, at, at+len(l.text)); end > start && start >= done {
				return start, end, l.rule.Name
			}
		}
	}
	for _, at := range [2]int{i, i + 1} {
		if s[at] == '=' || s[at] == ':' {
			if start, end = shapes.Assignment(s, at, at+1); end > start && start >= done {
				return start, end, shapes.Password
			}
		}
	}
	return 0, 0, ""
}

// longest is the length of the longest secret that s begins with: the one whose
// three bytes came first may be the beginning of another.
func (x *index) longest(s string) int {
	for _, secret := range x.secrets {
		if strings.HasPrefix(s, secret) {
			return len(secret)
		}
	}
	return 0
}
