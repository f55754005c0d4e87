package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// inline puts targets in the places of their references, nearest the root
// first, until the budget is spent. A target inside itself is repeated
// maxUnroll times; then, and beyond the budget, stands an open schema.
func (c *conv) inline() {
	type trail struct {
		ref string
		up  *trail
	}
	type job struct {
		node  *object
		trail *trail
	}
	count := func(t *trail, ref string) (n int) {
		for ; t != nil; t = t.up {
			if t.ref == ref {
				n++
			}
		}
		return n
	}
	budget := maxInline
	reported := map[string]bool{}
	report := func(at, code, ref string, after *object) {
		if !reported[code+ref] { // once for each target
			reported[code+ref] = true
			c.cut = true
			c.change(at, code, ref, after, true)
		}
	}
	// resolve returns what stands in n's place, and its trail.
	resolve := func(n *object, t *trail) (*object, *trail) {
		for n.Has("$ref") && c.err == nil {
			at, ref := c.origin[n], n.String("$ref")
			target := c.target(ref)
			rest := n.Shallow()
			rest.Delete("$ref")
			var put *object
			switch {
			case target == nil:
				put = newObject()
			case count(t, ref) >= maxUnroll:
				put = stump(target)
				report(at, "recursion_cut", ref, put)
			case budget <= 0:
				put = stump(target)
				report(at, "inline_budget", ref, put)
			default:
				before := c.steps
				put = c.clone(target)
				put.Delete("$defs", "$schema")
				budget -= c.steps - before
			}
			t = &trail{ref, t}
			for _, kw := range rest.Keys() { // the reference's own words win
				if v, _ := rest.Get(kw); annotations[kw] {
					put.Set(kw, v)
					rest.Delete(kw)
				}
			}
			c.origin[put] = at
			if rest.Len() > 0 {
				c.origin[rest] = at
				put = c.both(put, rest).(*object)
			}
			n = put
		}
		return n, t
	}
	used := c.defs
	c.root.Delete("$defs")
	queue := []job{{c.root, &trail{ref: "#"}}}
	for len(queue) > 0 && c.err == nil {
		j := queue[0]
		queue = queue[1:]
		each(j.node, func(_ place, child any) any {
			o, ok := child.(*object)
			if !ok {
				return child
			}
			n, t := resolve(o, j.trail)
			queue = append(queue, job{n, t})
			return n
		})
	}
	if used != nil && used.Len() > 0 {
		c.change("/$defs", "refs_inlined", used, nil, false)
	}
	c.defs = nil
}

// stump is the most of a target that can be said without what is below it.
func stump(target *object) *object {
	out := newObject()
	if t := declared(target); t != 0 {
		out.Set("type", t.keyword())
		if t&tArray != 0 {
			out.Set("items", newObject())
		}
	}
	if d := target.String("description"); d != "" {
		out.Set("description", d)
	}
	return out
}

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

// renameKeys gives properties names that the API takes, and tells the codec.
func (c *conv) renameKeys() {
	renamed := map[string]string{}
	taken := map[string]bool{}
	nodes(c.root, func(n *object) {
		if props := n.Object("properties"); props != nil {
			for _, k := range props.Keys() {
				taken[k] = true
			}
		}
	})
	to := func(key string) string {
		if c.rules.Keys.MatchString(key) {
			return key
		}
		if _, ok := renamed[key]; !ok {
			name := modelKey(key, 8)
			for digits := 16; taken[name]; digits += 8 {
				name = modelKey(key, min(digits, 56))
			}
			taken[name] = true
			renamed[key] = name
		}
		return renamed[key]
	}
	nodes(c.root, func(n *object) {
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
				h := c.hints[n]
				if h == nil {
					h = &hint{}
				}
				c.hints[n] = &hint{keys: withKey(h.keys, name, k), nulls: h.nulls, maybe: h.maybe}
				if o := props.Object(name); o != nil {
					if l := o.List("anyOf"); l != nil && c.rules.SingleType {
						o = l[0].(*object) // a union has no words of its own there
					}
					note(o, "The parameter "+asText(k)+".")
				}
				c.change(c.origin[n]+"/properties/"+escape(k), "key_renamed", k, name, false)
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
			c.remove(n, "propertyNames", "keyword_removed")
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
