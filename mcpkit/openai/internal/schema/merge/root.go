package merge

import (
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// FlattenRoot makes the root one object with type and properties. What the
// union said that one object cannot say goes into the tool's description.
func (c *Conversion) FlattenRoot() {
	before := c.Root
	used := c.reachable(nil)
	if base.Combined(before) || before.String("type") != "object" {
		c.keepRootTarget()
	}
	if base.Combined(before) {
		flat := c.Flatten(before, nil, "root")
		for _, kw := range []string{"$schema", "$defs"} {
			if v, ok := before.Get(kw); ok {
				flat.Set(kw, v)
			}
		}
		c.Origin[flat] = ""
		c.Root = flat
		c.Prune(used)
	}
	r := c.Root
	if v, ok := r.Get("type"); v != "object" {
		if t := base.Declared(r); !ok || t&base.Object != 0 {
			c.Report("/type", "root_type", v, "object", false)
		} else {
			c.Report("/type", "root_not_object", v, "object", true)
			r = base.NewNode() // it describes something that arguments never are
			c.Root, c.Defs = r, nil
		}
	}
	if !r.Has("properties") {
		c.AnyKey = !base.ClosedBeside(r)
		c.Report("/properties", "properties_missing", nil, base.NewNode(), false)
	}
	if r.String("type") != "object" || !r.Has("properties") {
		c.Root = base.NewNode("type", "object")
		for _, kw := range r.Keys() {
			if v, _ := r.Get(kw); kw != "type" {
				c.Root.Set(kw, v)
			}
		}
		if !c.Root.Has("properties") {
			c.Root.Set("properties", base.NewNode())
		}
		c.Origin[c.Root] = ""
	}
}

// keepRootTarget copies the root to $defs when references mean it, because the
// root is about to change its meaning.
func (c *Conversion) keepRootTarget() {
	var refs []*base.Node
	base.Walk(c.Root, func(n *base.Node) {
		if n.String("$ref") == "#" {
			refs = append(refs, n)
		}
	})
	if len(refs) == 0 {
		return
	}
	name := "root"
	for c.Defs.Has(name) {
		name += "_"
	}
	for _, n := range refs {
		n.Set("$ref", "#/$defs/"+name)
	}
	whole := c.Root.Shallow()
	whole.Delete("$schema", "$defs")
	c.Defs.Set(name, c.Clone(whole))
	c.Root.Set("$defs", c.Defs)
	c.Report("", "root_kept", nil, "#/$defs/"+name, false)
}

// reachable names the definitions that the root and the further ones lead to.
func (c *Conversion) reachable(further []string) map[string]bool {
	seen := map[*base.Node]bool{}
	var visit func(n *base.Node)
	visit = func(n *base.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if t := c.Target(n.String("$ref")); t != nil {
			visit(t)
		}
		base.Each(n, func(p base.Place, child any) any {
			if o, ok := child.(*base.Node); ok && p.Keyword != "$defs" {
				visit(o)
			}
			return child
		})
	}
	visit(c.Root)
	for _, name := range further {
		visit(c.Defs.Object(name))
	}
	out := map[string]bool{}
	if c.Defs != nil {
		for _, name := range c.Defs.Keys() {
			if seen[c.Defs.Object(name)] {
				out[name] = true
			}
		}
	}
	return out
}

// Prune removes the definitions among used that nothing needs any more. Those
// that nothing needed from the start are the server's business.
func (c *Conversion) Prune(used map[string]bool) {
	if c.Defs == nil {
		return
	}
	var unused []string
	for _, name := range c.Defs.Keys() {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	needed := c.reachable(unused)
	for _, name := range c.Defs.Keys() {
		if used[name] && !needed[name] {
			c.Defs.Delete(name)
		}
	}
	if c.Defs.Len() == 0 {
		c.Root.Delete("$defs")
	}
}
