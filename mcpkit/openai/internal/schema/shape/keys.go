package shape

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

var badKey = regexp.MustCompile(`[^a-zA-Z0-9_]+`)

// modelKey is a property's name in a form that every API takes. It depends on
// the name alone.
func modelKey(key string, hexDigits int) string {
	sum := sha256.Sum256([]byte(key))
	clean := strings.Trim(badKey.ReplaceAllString(key, "_"), "_")
	if clean == "" || clean[0] >= '0' && clean[0] <= '9' {
		clean = "p_" + clean
	}
	const longest = 64
	return clean[:min(len(clean), longest-1-hexDigits)] + "_" + hex.EncodeToString(sum[:])[:hexDigits]
}

// freeKey is modelKey with as many digits as it takes not to be taken.
func freeKey(key string, taken func(string) bool) string {
	name := modelKey(key, 8)
	for digits := 16; taken(name) && digits <= 56; digits += 8 {
		name = modelKey(key, digits)
	}
	return name
}

// renameKeys gives properties names that the API takes, and tells the codec.
func (c *conversion) renameKeys() {
	renamed := map[string]string{}
	taken := map[string]bool{}
	base.Walk(c.Root, func(n *base.Node) {
		if props := n.Object("properties"); props != nil {
			for _, k := range props.Keys() {
				taken[k] = true
			}
		}
	})
	to := func(key string) string {
		if c.Rules.Keys.MatchString(key) {
			return key
		}
		if _, ok := renamed[key]; !ok {
			name := freeKey(key, func(name string) bool { return taken[name] })
			taken[name] = true
			renamed[key] = name
		}
		return renamed[key]
	}
	base.Walk(c.Root, func(n *base.Node) {
		props := n.Object("properties")
		changed := false
		if props != nil {
			for _, k := range slices.Clone(props.Keys()) {
				name := to(k)
				if name == k {
					continue
				}
				changed = true
				props.Rename(k, name)
				h := c.Hints[n]
				if h == nil {
					h = &base.Hint{}
				}
				c.Hints[n] = &base.Hint{Keys: withKey(h.Keys, name, k), Nulls: h.Nulls, Maybe: h.Maybe}
				if o := props.Object(name); o != nil {
					if l := o.List("anyOf"); l != nil && c.Rules.SingleType {
						o = l[0].(*base.Node) // a union has no words of its own there
					}
					base.Note(o, "The parameter "+base.Quote(k)+".")
				}
				c.Report(c.Origin[n]+"/properties/"+base.Escape(k), "key_renamed", k, name, false)
			}
		}
		if l := n.List("required"); l != nil {
			out := make([]any, len(l))
			for i, v := range l {
				out[i] = to(v.(string))
			}
			n.Set("required", out)
		}
		for _, kw := range []string{"dependentRequired", "dependentSchemas"} {
			m := n.Object(kw)
			if m == nil {
				continue
			}
			for _, k := range slices.Clone(m.Keys()) {
				if l := m.List(k); l != nil {
					out := make([]any, len(l))
					for i, v := range l {
						out[i] = to(v.(string))
					}
					m.Set(k, out)
				}
				if name := to(k); name != k {
					m.Rename(k, name)
				}
			}
		}
		if changed && n.Has("propertyNames") {
			c.Remove(n, "propertyNames", "keyword_removed")
		}
	})
}

func withKey(m map[string]string, k, v string) map[string]string {
	out := map[string]string{k: v}
	for a, b := range m {
		out[a] = b
	}
	return out
}
