package shape

import (
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

const maxInline = 1_000 // nodes copied while references are replaced by their targets

const maxUnroll = 2 // times that a recursive target is repeated below itself

// inline puts targets in the places of their references, nearest the root
// first, until the budget is spent. A target inside itself is repeated
// maxUnroll times; then, and beyond the budget, stands an open schema.
func (c *conversion) inline() {
	type trail struct {
		ref string
		up  *trail
	}
	type job struct {
		node  *base.Node
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
	report := func(at, code, ref string, after *base.Node) {
		if !reported[code+ref] { // once for each target
			reported[code+ref] = true
			c.cut = true
			c.Report(at, code, ref, after, true)
		}
	}
	// resolve returns what stands in n's place, and its trail.
	resolve := func(n *base.Node, t *trail) (*base.Node, *trail) {
		for n.Has("$ref") && c.Err == nil {
			at, ref := c.Origin[n], n.String("$ref")
			target := c.Target(ref)
			rest := n.Shallow()
			rest.Delete("$ref")
			var put *base.Node
			switch {
			case target == nil:
				put = base.NewNode()
			case count(t, ref) >= maxUnroll:
				put = stump(target)
				report(at, "recursion_cut", ref, put)
			case budget <= 0:
				put = stump(target)
				report(at, "inline_budget", ref, put)
			default:
				before := c.Steps
				put = c.Clone(target)
				put.Delete("$defs", "$schema")
				budget -= c.Steps - before
			}
			t = &trail{ref, t}
			for _, kw := range rest.Keys() { // the reference's own words win
				if v, _ := rest.Get(kw); base.Annotations[kw] {
					put.Set(kw, v)
					rest.Delete(kw)
				}
			}
			c.Origin[put] = at
			if rest.Len() > 0 {
				c.Origin[rest] = at
				put = c.Both(put, rest).(*base.Node)
			}
			n = put
		}
		return n, t
	}
	used := c.Defs
	c.Root.Delete("$defs")
	queue := []job{{c.Root, &trail{ref: "#"}}}
	for len(queue) > 0 && c.Err == nil {
		j := queue[0]
		queue = queue[1:]
		base.Each(j.node, func(_ base.Place, child any) any {
			o, ok := child.(*base.Node)
			if !ok {
				return child
			}
			n, t := resolve(o, j.trail)
			queue = append(queue, job{n, t})
			return n
		})
	}
	if used != nil && used.Len() > 0 {
		c.Report("/$defs", "refs_inlined", used, nil, false)
	}
	c.Defs = nil
}

// stump is the most of a target that can be said without what is below it.
func stump(target *base.Node) *base.Node {
	out := base.NewNode()
	if t := base.Declared(target); t != 0 {
		out.Set("type", t.Keyword())
		if t&base.Array != 0 {
			out.Set("items", base.NewNode())
		}
	}
	if d := target.String("description"); d != "" {
		out.Set("description", d)
	}
	return out
}
