package shape

import (
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// anyName is the definition that stands for any value where nodes must have a
// type.
const anyName = "any_value"

// typeAll gives a type to every node that has none. A node that takes anything
// says so by listing all types, so nothing is guessed.
func (c *conversion) typeAll() {
	needsAny := false
	base.Walk(c.Root, func(n *base.Node) {
		if n == c.Root {
			return
		}
		if !n.Has("type") && !n.Has("$ref") && !n.Has("anyOf") && !n.Has("oneOf") && !n.Has("allOf") {
			switch v, fixed := n.Get("const"); {
			case fixed:
				c.TypeByValues(n, []any{v})
			case n.List("enum") != nil:
				c.TypeByValues(n, n.List("enum"))
			default:
				n.Set("type", base.AllTypes.Keyword())
				c.Report(c.Origin[n]+"/type", "type_all", nil, base.AllTypes.Keyword(), false)
			}
		}
		if base.Declared(n)&base.Array == 0 || c.Rules.NoRef {
			return
		}
		if items := n.Object("items"); items == nil || base.Open(items) && items.Len() == 0 {
			n.Set("items", base.NewNode("$ref", "#/$defs/"+anyName))
			needsAny = true
		}
	})
	if !needsAny {
		return
	}
	if c.Defs == nil {
		c.Defs = base.NewNode()
	}
	c.Root.Set("$defs", c.Defs)
	c.Defs.Set(anyName, base.NewNode("type", base.AllTypes.Keyword(), "items", base.NewNode("$ref", "#/$defs/"+anyName)))
}

// typesInUnions moves the type of a node that is a union into those of its branches
// that have none.
func (c *conversion) typesInUnions(n *base.Node) {
	t, has := n.Get("type")
	if !has || n == c.Root || !n.Has("anyOf") && !n.Has("oneOf") {
		return
	}
	n.Delete("type")
	for _, kw := range []string{"anyOf", "oneOf"} {
		for _, v := range n.List(kw) {
			if b := v.(*base.Node); !b.Has("type") && !b.Has("$ref") && !base.Combined(b) {
				b.Set("type", t)
			}
		}
	}
	c.Report(c.Origin[n]+"/type", "type_in_branches", t, nil, false)
}

// plainEnum drops the values of an enum that the node's type forbids anyway.
func (c *conversion) plainEnum(n *base.Node) {
	l, t := n.List("enum"), base.Declared(n)
	if l == nil || t == 0 {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(l), func(v any) bool { return !t.Allows(base.KindOf(v)) })
	if len(kept) == len(l) || len(kept) == 0 {
		return
	}
	n.Set("enum", kept)
	c.Report(c.Origin[n]+"/enum", "enum_narrowed", l, kept, false)
}

// renameDefs gives definitions names that the API takes.
func (c *conversion) renameDefs() {
	if c.Defs == nil {
		return
	}
	renamed := map[string]string{} // references
	for _, name := range slices.Clone(c.Defs.Keys()) {
		if c.Rules.DefNames.MatchString(name) {
			continue
		}
		to := freeKey(name, c.Defs.Has)
		c.Defs.Rename(name, to)
		renamed["#/$defs/"+base.Escape(name)] = "#/$defs/" + to
		c.Report("/$defs/"+base.Escape(name), "key_renamed", name, to, false)
	}
	base.Walk(c.Root, func(n *base.Node) {
		if to, ok := renamed[n.String("$ref")]; ok {
			n.Set("$ref", to)
		}
	})
}

// dropBesides makes one object of an object's properties and a union beside
// them. Where the node takes other things than objects too, the union becomes a
// note.
func (c *conversion) dropBesides(n *base.Node) *base.Node {
	if !n.Has("properties") || !n.Has("anyOf") && !n.Has("oneOf") {
		return n
	}
	if base.Declared(n) == base.Object {
		return c.Flatten(n, nil, "nested")
	}
	c.Remove(n, "anyOf", "keyword_removed")
	c.Remove(n, "oneOf", "keyword_removed")
	return n
}
