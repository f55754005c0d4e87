// Package strict brings a schema into strict mode, where every object is closed
// and every property required: what may be left out may be null instead, and the
// tree's hints say which nulls mean that.
//
//	strict.Apply(c)
//	if c.Err != nil { … } // the schema cannot be strict; offer the tool without
package strict

import (
	"fmt"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/merge"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// strictUnsupported are the keywords that strict mode does not take and whose
// loss a note makes up for.
var strictUnsupported = []string{"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "propertyNames",
	"unevaluatedItems", "unevaluatedProperties", "contains", "minContains", "maxContains", "uniqueItems",
	"minProperties", "maxProperties", "minLength", "maxLength", "default", "contentSchema", "contentMediaType",
	"contentEncoding", "examples", "readOnly", "writeOnly", "deprecated", "$comment", "nullable"}

type conversion struct{ *merge.Conversion }

// Apply brings c's tree into strict mode. What that would mangle is a failure of
// the tree.
func Apply(m *merge.Conversion) {
	c := conversion{m}
	if c.AnyKey {
		c.notStrict("/properties", "an object that takes any key")
	}
	c.RewriteBelow(c.mergeExact)
	if c.Defs != nil {
		c.Prune(rules.Set(c.Defs.Keys()...))
	}
	base.Walk(c.Root, c.strictNode)
	if c.Err == nil {
		base.Walk(c.Root, c.close)
	}
}

func (c *conversion) notStrict(at, format string, args ...any) {
	c.Fail("strict", "%s: %s", at, fmt.Sprintf(format, args...))
}

// mergeExact makes one node of an intersection, and of a reference with
// neighbours, or fails.
func (c *conversion) mergeExact(n *base.Node) *base.Node {
	at := c.Origin[n]
	if l := n.List("allOf"); l != nil {
		out := n.Shallow()
		out.Delete("allOf")
		c.Origin[out] = at
		for _, v := range l {
			part := v.(*base.Node)
			for seen := 0; part.Len() == 1 && part.Has("$ref") && len(l)+out.Len() > 1; seen++ {
				t := c.Target(part.String("$ref"))
				if t == nil || t.Has("allOf") || seen > base.MaxDepth {
					c.notStrict(at, "an intersection of references")
					return n
				}
				part = c.Clone(t)
			}
			if !c.Intersect(out, part, true) {
				c.notStrict(at, "an intersection that is not one object")
				return n
			}
		}
		c.Report(at+"/allOf", "allof_merged", l, nil, false)
		n = out
	}
	for seen := 0; n.Has("$ref") && n.Len() > 1; seen++ {
		t := c.Target(n.String("$ref"))
		if t == nil || t == c.Root || seen > base.MaxDepth {
			c.notStrict(at, "a reference with neighbours")
			return n
		}
		out := c.Clone(t)
		rest := n.Shallow()
		rest.Delete("$ref")
		for _, kw := range rest.Keys() {
			if v, _ := rest.Get(kw); base.Annotations[kw] {
				out.Set(kw, v)
				rest.Delete(kw)
			}
		}
		if !c.Intersect(out, rest, true) {
			c.notStrict(at, "a reference with neighbours")
			return n
		}
		c.Report(at+"/$ref", "ref_inlined", n.String("$ref"), nil, false)
		c.Origin[out] = at
		n = out
	}
	if (n.Has("anyOf") || n.Has("oneOf")) && (n.Has("properties") || base.Declared(n) == base.Object) {
		return c.Flatten(n, nil, "nested")
	}
	return n
}

// strictNode removes what strict mode does not know.
func (c *conversion) strictNode(n *base.Node) {
	if c.Err != nil {
		return
	}
	at := c.Origin[n]
	for _, kw := range strictUnsupported {
		c.Remove(n, kw, "keyword_removed")
	}
	if l := n.List("oneOf"); l != nil {
		if n.Has("anyOf") {
			c.notStrict(at, "two unions at once")
			return
		}
		n.Rename("oneOf", "anyOf")
		c.Report(at+"/oneOf", "oneof_to_anyof", l, l, true)
	}
	if v, ok := n.Get("const"); ok {
		n.Delete("const")
		n.Set("enum", []any{v})
		c.Report(at+"/const", "const_to_enum", v, []any{v}, false)
	}
	if l := n.List("enum"); l != nil && base.Declared(n) == 0 {
		c.TypeByValues(n, l)
	}
	switch {
	case n.Has("prefixItems"):
		c.notStrict(at, "a tuple")
	case n.Has("patternProperties"):
		c.notStrict(at, "a map")
	case base.ClosedBeside(n) && n.Object("additionalProperties") != nil, openExplicitly(n):
		c.notStrict(at, "a map")
	case base.Declared(n) == 0 && !n.Has("$ref") && !n.Has("anyOf"):
		c.notStrict(at, "no type")
	case base.Declared(n)&base.Object != 0 && !n.Has("properties") && !base.ClosedBeside(n):
		c.notStrict(at, "an object that takes any key")
	}
}

func openExplicitly(n *base.Node) bool {
	v, ok := n.Get("additionalProperties")
	return ok && v == true
}

// close requires every property; what may be left out may be null instead.
func (c *conversion) close(n *base.Node) {
	if base.Declared(n)&base.Object == 0 {
		return
	}
	at := c.Origin[n]
	props := n.Object("properties")
	if props == nil {
		props = base.NewNode()
		n.Set("properties", props)
	}
	if v, ok := n.Get("additionalProperties"); !ok || v != false {
		n.Set("additionalProperties", false)
		c.Report(at+"/additionalProperties", "strict_closed", v, false, true)
	}
	l := n.List("required")
	all := make([]any, 0, props.Len())
	nulls, maybe := map[string]bool{}, map[string]bool{}
	for _, k := range props.Keys() {
		all = append(all, k)
		if base.HasName(l, k) {
			continue
		}
		p := props.Object(k)
		if c.Takes(p, 0)&base.Null == 0 {
			nulls[k] = true
			props.Set(k, c.orNull(p))
		} else {
			maybe[k] = true
		}
		c.Report(at+"/properties/"+base.Escape(k), "strict_required", nil, nil, false)
	}
	n.Set("required", all)
	if len(nulls)+len(maybe) > 0 {
		c.Hints[n] = &base.Hint{Nulls: nulls, Maybe: maybe}
	}
}

// orNull is p with null.
func (c *conversion) orNull(p *base.Node) *base.Node {
	null := base.NewNode("type", "null")
	if p.Has("$ref") {
		out := base.NewNode("anyOf", []any{p, null})
		c.Origin[out] = c.Origin[p]
		return out
	}
	if l := p.List("anyOf"); l != nil && !p.Has("type") {
		p.Set("anyOf", append(l[:len(l):len(l)], null))
		return p
	}
	if l := p.List("enum"); l != nil {
		p.Set("enum", append(l[:len(l):len(l)], nil))
	}
	p.Set("type", (base.Declared(p) | base.Null).Keyword())
	return p
}
