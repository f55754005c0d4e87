// Package draft turns a schema of any draft of JSON Schema, or of OpenAPI, into
// valid 2020-12, mending what servers get wrong.
//
//	tree := base.New()
//	err := tree.Load(input)
//	err = draft.Modernize(tree, false)
//
// What it gives is what every API's form starts from and what arguments are
// checked against. It knows no API's rules, and fetches nothing: a reference
// that leads outside becomes an open schema.
package draft

import (
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// Modernize brings every node of a loaded tree to valid 2020-12: references lead
// to "#" or "#/$defs/NAME", keywords of older drafts and of OpenAPI get their
// present form, slips are mended, and what cannot be read is taken out. dropURI
// takes "$schema" away even where it names 2020-12. The error is the tree's.
func Modernize(tree *base.Tree, dropURI bool) error {
	c := conversion{tree, 2020}
	c.hoist()
	if c.Err == nil {
		c.Steps = 0
		c.readDraft(dropURI)
		c.repairNode(c.Root, "")
	}
	return c.Err
}

// conversion is the tree and what is known about its draft.
type conversion struct {
	*base.Tree
	draft int // 3, 4, 6, 7, 2019, 2020: what $schema says, else 2020
}

func (c *conversion) readDraft(dropURI bool) {
	v, ok := c.Root.Get("$schema")
	uri, _ := v.(string)
	for i, part := range []string{"draft-03", "draft-04", "draft-06", "draft-07", "2019-09"} {
		if strings.Contains(uri, part) {
			c.draft = []int{3, 4, 6, 7, 2019}[i]
		}
	}
	if ok && (c.draft != 2020 || !strings.Contains(uri, "2020-12") || dropURI) {
		c.Root.Delete("$schema")
		c.Report("/$schema", "schema_uri_removed", v, nil, false)
	}
}

func (c *conversion) repairNode(n *base.Node, ptr string) {
	if at, ok := c.Origin[n]; ok {
		ptr = at
	} else {
		c.Origin[n] = ptr
	}
	if !c.Step() {
		return
	}
	c.olderDrafts(n, ptr)
	c.repairValues(n, ptr)
	base.Each(n, func(p base.Place, child any) any {
		return c.repairChild(n, p, child, p.Pointer(ptr))
	})
	c.repairUnions(n, ptr)
	c.repairArray(n, ptr)
}

// olderDrafts rewrites keywords that 2020-12 spells otherwise.
func (c *conversion) olderDrafts(n *base.Node, ptr string) {
	if c.draft <= 7 && n.Has("$ref") {
		// Up to draft-07 a $ref's neighbours count for nothing.
		for _, kw := range n.Keys() {
			if v, _ := n.Get(kw); kw != "$ref" && kw != "$defs" && !base.Annotations[kw] && base.Keywords[kw] != base.FormUnknown && kw != "$schema" {
				n.Delete(kw)
				c.Report(ptr+"/"+kw, "ref_sibling_ignored", v, nil, false)
			}
		}
	}
	for _, side := range []struct{ exclusive, inclusive string }{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		v, _ := n.Get(side.exclusive)
		on, isBool := v.(bool)
		if !isBool {
			continue
		}
		limit, has := n.Get(side.inclusive)
		n.Delete(side.exclusive)
		if on && has && base.Bound(limit) != nil {
			n.Rename(side.inclusive, side.exclusive)
			c.Report(ptr+"/"+side.exclusive, "draft04_exclusive", v, limit, false)
		} else {
			c.Report(ptr+"/"+side.exclusive, "draft04_exclusive", v, nil, false)
		}
	}
	if l := n.List("items"); l != nil {
		n.Rename("items", "prefixItems")
		c.Report(ptr+"/items", "tuple_items", l, l, false)
		if rest, ok := n.Get("additionalItems"); ok {
			n.Rename("additionalItems", "items")
			c.Report(ptr+"/additionalItems", "tuple_items", rest, rest, false)
		}
		if len(l) == 0 {
			n.Delete("prefixItems")
		}
	} else if v, ok := n.Get("additionalItems"); ok {
		n.Delete("additionalItems") // means nothing without a tuple
		c.Report(ptr+"/additionalItems", "meaningless_keyword", v, nil, false)
	}
	if d := n.Object("dependencies"); d != nil {
		req, sub := base.NewNode(), base.NewNode()
		for _, k := range d.Keys() {
			switch v, _ := d.Get(k); v := v.(type) {
			case []any:
				req.Set(k, v)
			case string: // draft-03
				req.Set(k, []any{v})
			default:
				sub.Set(k, v)
			}
		}
		n.Delete("dependencies")
		if req.Len() > 0 && !n.Has("dependentRequired") {
			n.Set("dependentRequired", req)
		}
		if sub.Len() > 0 && !n.Has("dependentSchemas") {
			n.Set("dependentSchemas", sub)
		}
		c.Report(ptr+"/dependencies", "dependencies_split", d, nil, false)
	}
	if c.draft == 3 {
		c.draft03(n, ptr)
	}
	if v, ok := n.Get("nullable"); ok {
		n.Delete("nullable")
		after := any(nil)
		if v == true {
			c.makeNullable(n)
			after, _ = n.Get("type")
		}
		c.Report(ptr+"/nullable", "nullable", v, after, false)
	}
}

func (c *conversion) draft03(n *base.Node, ptr string) {
	if v, ok := n.Get("divisibleBy"); ok && !n.Has("multipleOf") {
		n.Rename("divisibleBy", "multipleOf")
		c.Report(ptr+"/divisibleBy", "draft03_keyword", v, v, false)
	}
	if v, ok := n.Get("extends"); ok && !n.Has("allOf") {
		n.Rename("extends", "allOf")
		if _, isList := v.([]any); !isList {
			n.Set("allOf", []any{v})
		}
		c.Report(ptr+"/extends", "draft03_keyword", v, v, false)
	}
	if v, ok := n.Get("disallow"); ok && !n.Has("not") {
		n.Rename("disallow", "not")
		n.Set("not", base.NewNode("type", v))
		c.Report(ptr+"/disallow", "draft03_keyword", v, v, false)
	}
}

// makeNullable lets n take null besides what it takes (OpenAPI 3.0).
func (c *conversion) makeNullable(n *base.Node) {
	if l := n.List("enum"); l != nil && !containsNull(l) {
		n.Set("enum", append(l[:len(l):len(l)], nil))
	}
	if v, ok := n.Get("const"); ok && v != nil {
		n.Delete("const")
		n.Set("enum", []any{v, nil})
	}
	if n.Has("$ref") || n.Has("allOf") || n.Has("oneOf") || n.Has("anyOf") {
		inner := n.Shallow()
		outer := base.NewNode("anyOf", []any{inner, base.NewNode("type", "null")})
		for _, kw := range inner.Keys() {
			if v, _ := inner.Get(kw); base.Annotations[kw] || kw == "$defs" {
				inner.Delete(kw)
				outer.Set(kw, v)
			}
		}
		c.Origin[inner] = c.Origin[n]
		n.Delete(n.Shallow().Keys()...)
		for _, kw := range outer.Keys() {
			v, _ := outer.Get(kw)
			n.Set(kw, v)
		}
		return
	}
	switch v, _ := n.Get("type"); v := v.(type) {
	case string:
		n.Set("type", []any{v, "null"})
	case []any:
		n.Set("type", append(v[:len(v):len(v)], "null"))
	}
}

func containsNull(l []any) bool {
	for _, v := range l {
		if v == nil {
			return true
		}
	}
	return false
}
