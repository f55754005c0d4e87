package schema

import "strings"

// repair brings every node to valid 2020-12: keywords of older drafts and of
// OpenAPI get their present form, slips are mended, what cannot be read is
// taken out.
func (c *conv) repair() {
	c.readDraft()
	c.repairNode(c.root, "")
}

func (c *conv) readDraft() {
	v, ok := c.root.Get("$schema")
	uri, _ := v.(string)
	for i, part := range []string{"draft-03", "draft-04", "draft-06", "draft-07", "2019-09"} {
		if strings.Contains(uri, part) {
			c.draft = []int{3, 4, 6, 7, 2019}[i]
		}
	}
	if ok && (c.draft != 2020 || !strings.Contains(uri, "2020-12") || c.rules.NoSchemaURI) {
		c.root.Delete("$schema")
		c.change("/$schema", "schema_uri_removed", v, nil, false)
	}
}

func (c *conv) repairNode(n *object, ptr string) {
	if at, ok := c.origin[n]; ok {
		ptr = at
	} else {
		c.origin[n] = ptr
	}
	if !c.step() {
		return
	}
	c.olderDrafts(n, ptr)
	c.repairValues(n, ptr)
	each(n, func(p place, child any) any {
		return c.repairChild(n, p, child, p.pointer(ptr))
	})
	c.repairUnions(n, ptr)
	c.repairArray(n, ptr)
}

// olderDrafts rewrites keywords that 2020-12 spells otherwise.
func (c *conv) olderDrafts(n *object, ptr string) {
	if c.draft <= 7 && n.Has("$ref") {
		// Up to draft-07 a $ref's neighbours count for nothing.
		for _, kw := range n.Keys() {
			if v, _ := n.Get(kw); kw != "$ref" && kw != "$defs" && !annotations[kw] && keywords[kw] != unknown && kw != "$schema" {
				n.Delete(kw)
				c.change(ptr+"/"+kw, "ref_sibling_ignored", v, nil, false)
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
		if on && has && bound(limit) != nil {
			n.Rename(side.inclusive, side.exclusive)
			c.change(ptr+"/"+side.exclusive, "draft04_exclusive", v, limit, false)
		} else {
			c.change(ptr+"/"+side.exclusive, "draft04_exclusive", v, nil, false)
		}
	}
	if l := n.List("items"); l != nil {
		n.Rename("items", "prefixItems")
		c.change(ptr+"/items", "tuple_items", l, l, false)
		if rest, ok := n.Get("additionalItems"); ok {
			n.Rename("additionalItems", "items")
			c.change(ptr+"/additionalItems", "tuple_items", rest, rest, false)
		}
		if len(l) == 0 {
			n.Delete("prefixItems")
		}
	} else if v, ok := n.Get("additionalItems"); ok {
		n.Delete("additionalItems") // means nothing without a tuple
		c.change(ptr+"/additionalItems", "meaningless_keyword", v, nil, false)
	}
	if d := n.Object("dependencies"); d != nil {
		req, sub := newObject(), newObject()
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
		c.change(ptr+"/dependencies", "dependencies_split", d, nil, false)
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
		c.change(ptr+"/nullable", "nullable", v, after, false)
	}
}

func (c *conv) draft03(n *object, ptr string) {
	if v, ok := n.Get("divisibleBy"); ok && !n.Has("multipleOf") {
		n.Rename("divisibleBy", "multipleOf")
		c.change(ptr+"/divisibleBy", "draft03_keyword", v, v, false)
	}
	if v, ok := n.Get("extends"); ok && !n.Has("allOf") {
		n.Rename("extends", "allOf")
		if _, isList := v.([]any); !isList {
			n.Set("allOf", []any{v})
		}
		c.change(ptr+"/extends", "draft03_keyword", v, v, false)
	}
	if v, ok := n.Get("disallow"); ok && !n.Has("not") {
		n.Rename("disallow", "not")
		n.Set("not", newObject("type", v))
		c.change(ptr+"/disallow", "draft03_keyword", v, v, false)
	}
}

// makeNullable lets n take null besides what it takes (OpenAPI 3.0).
func (c *conv) makeNullable(n *object) {
	if l := n.List("enum"); l != nil && !containsNull(l) {
		n.Set("enum", append(l[:len(l):len(l)], nil))
	}
	if v, ok := n.Get("const"); ok && v != nil {
		n.Delete("const")
		n.Set("enum", []any{v, nil})
	}
	if n.Has("$ref") || n.Has("allOf") || n.Has("oneOf") || n.Has("anyOf") {
		inner := n.Shallow()
		outer := newObject("anyOf", []any{inner, newObject("type", "null")})
		for _, kw := range inner.Keys() {
			if v, _ := inner.Get(kw); annotations[kw] || kw == "$defs" {
				inner.Delete(kw)
				outer.Set(kw, v)
			}
		}
		c.origin[inner] = c.origin[n]
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
