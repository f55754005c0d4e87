package schema

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

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

// repairValues checks that every keyword has a value of its form.
func (c *conv) repairValues(n *object, ptr string) {
	for _, kw := range n.Keys() {
		v, _ := n.Get(kw)
		at := ptr + "/" + escape(kw)
		bad := func(code string) {
			n.Delete(kw)
			c.change(at, code, v, nil, true)
		}
		if f := keywords[kw]; (f == data || f == list || f == unknown) && deep(v, MaxDepth) {
			bad("depth_limit")
			continue
		}
		switch keywords[kw] {
		case typeName:
			c.repairType(n, v, at)
		case text:
			s, ok := v.(string)
			if !ok {
				bad("invalid_keyword")
			} else if clean := Visible(s); clean != s && (kw == "title" || kw == "description" || kw == "$comment") {
				n.Set(kw, clean)
				c.change(at, "hidden_characters", s, clean, false)
			}
		case number:
			if b := bound(v); b == nil || kw == "multipleOf" && b.Sign() <= 0 {
				bad("invalid_keyword")
			}
		case count:
			if b := bound(v); b == nil || !b.IsInt() || b.Sign() < 0 {
				bad("invalid_keyword")
			}
		case flag:
			if _, ok := v.(bool); !ok {
				bad("invalid_keyword")
			}
		case list:
			if l, ok := v.([]any); !ok {
				bad("invalid_keyword")
			} else if kw == "enum" {
				c.repairEnum(n, l, at)
			}
		case names:
			c.repairNames(n, kw, v, at)
		case namesMap:
			m, ok := v.(*object)
			if !ok {
				bad("invalid_keyword")
				continue
			}
			for _, k := range m.Keys() {
				w, _ := m.Get(k)
				c.repairNames(m, k, w, at+"/"+escape(k))
			}
		case schemaMap:
			if _, ok := v.(*object); ok {
				continue
			}
			if l, isList := v.([]any); kw == "properties" && (v == nil || isList && len(l) == 0) {
				n.Set(kw, newObject())
				c.change(at, "properties_empty", v, newObject(), false)
			} else {
				bad("invalid_keyword")
			}
		case schemaList:
			if l, ok := v.([]any); !ok || len(l) == 0 {
				bad("invalid_keyword")
			}
		}
	}
}

// deep reports whether v nests further than limit.
func deep(v any, limit int) bool {
	if limit < 0 {
		return true
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if deep(e, limit-1) {
				return true
			}
		}
	case *object:
		for _, k := range v.Keys() {
			if e, _ := v.Get(k); deep(e, limit-1) {
				return true
			}
		}
	}
	return false
}

func (c *conv) repairType(n *object, v any, at string) {
	var t types
	alias, known := false, true
	read := func(e any) {
		s, ok := e.(string)
		one, other := readType(s)
		known = known && ok && one != 0
		alias = alias || other
		t |= one
	}
	l, isList := v.([]any)
	if isList {
		for i, e := range l {
			before := t
			read(e)
			alias = alias || i > 0 && before == t // twice the same
		}
	} else {
		read(v)
	}
	switch {
	case !known || t == 0: // a name that nobody knows may mean anything
		n.Delete("type")
		c.change(at, "invalid_type", v, nil, true)
	case alias:
		n.Set("type", t.keyword())
		c.change(at, "type_alias", v, t.keyword(), false)
	}
}

// repairEnum takes out repeated values; an empty list would forbid everything
// and APIs refuse it.
func (c *conv) repairEnum(n *object, l []any, at string) {
	var out []any
	seen := make(map[string]bool, len(l))
	for _, v := range l {
		key := string(ordered.Append(nil, v))
		if !seen[key] {
			seen[key] = true
			out = append(out, v)
		}
	}
	switch {
	case len(out) == 0:
		n.Delete("enum")
		c.change(at, "enum_empty", l, nil, true)
	case len(out) < len(l):
		n.Set("enum", out)
		c.change(at, "enum_duplicates", l, out, false)
	}
}

// repairNames mends a list of names. A boolean "required" (draft-03) was lifted
// by the parent already; what is left of it here is noise.
func (c *conv) repairNames(n *object, kw string, v any, at string) {
	l, ok := v.([]any)
	var out []any
	seen := map[string]bool{}
	for _, e := range l {
		if s, isText := e.(string); isText && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	switch {
	case !ok:
		n.Delete(kw)
		_, isBool := v.(bool)
		c.change(at, "required_invalid", v, nil, !isBool)
	case len(out) < len(l):
		if out == nil {
			out = []any{}
		}
		n.Set(kw, out)
		c.change(at, "required_invalid", v, out, false)
	}
}

// repairChild makes a schema of what stands in a schema position.
func (c *conv) repairChild(n *object, p place, child any, at string) any {
	switch v := child.(type) {
	case *object:
		if p.keyword == "properties" {
			c.liftRequired(n, p.name, v, at)
		}
		c.repairNode(v, at)
		if p.keyword == "properties" && never(v) {
			return c.dropProperty(n, p.name, v, at)
		}
		return v
	case bool:
		switch {
		case keywords[p.keyword] == schemaOrFlag:
			return v
		case p.keyword == "properties" && !v:
			return c.dropProperty(n, p.name, v, at)
		}
		out := newObject()
		if !v {
			out.Set("not", newObject())
		}
		c.change(at, "boolean_schema", v, out, false)
		c.origin[out] = at
		return out
	}
	out := newObject()
	c.origin[out] = at
	c.change(at, "invalid_schema", child, out, true)
	return out
}

// liftRequired turns a property's own "required": true (draft-03) into an entry
// of its object's list.
func (c *conv) liftRequired(n *object, name string, child *object, at string) {
	v, _ := child.Get("required")
	on, isBool := v.(bool)
	if !isBool {
		return
	}
	child.Delete("required")
	if on {
		l := n.List("required")
		if !containsName(l, name) {
			n.Set("required", append(l[:len(l):len(l)], name))
		}
	}
	c.change(at+"/required", "required_lifted", v, nil, false)
}

func containsName(l []any, name string) bool {
	for _, v := range l {
		if v == name {
			return true
		}
	}
	return false
}

// dropProperty removes a property that no value fits.
func (c *conv) dropProperty(n *object, name string, v any, at string) any {
	removeRequired(n, name)
	c.change(at, "false_schema", v, nil, true)
	return drop{}
}

func removeRequired(n *object, name string) {
	l := n.List("required")
	if !containsName(l, name) {
		return
	}
	out := []any{}
	for _, v := range l {
		if v != name {
			out = append(out, v)
		}
	}
	n.Set("required", out)
}

// never reports whether a node can fit no value: {"not":{}}.
func never(n *object) bool {
	v, ok := n.Get("not")
	if !ok {
		return false
	}
	if v == true {
		return true
	}
	o, isObject := v.(*object)
	return isObject && open(o)
}

// open reports whether a node constrains nothing.
func open(n *object) bool {
	for _, kw := range n.Keys() {
		if !annotations[kw] {
			return false
		}
	}
	return true
}

// repairUnions takes branches that no value fits out of unions: what the
// "optional" of some schema generators leaves behind.
func (c *conv) repairUnions(n *object, ptr string) {
	for _, kw := range []string{"anyOf", "oneOf"} {
		l := n.List(kw)
		var kept []any
		for _, v := range l {
			if o, ok := v.(*object); ok && !never(o) {
				kept = append(kept, o)
			}
		}
		if len(kept) == len(l) || len(kept) == 0 {
			continue
		}
		n.Set(kw, kept)
		if o := kept[0].(*object); len(kept) == 1 && disjoint(n, o, kw) {
			n.Delete(kw)
			for _, k := range o.Keys() {
				if v, _ := o.Get(k); !n.Has(k) {
					n.Set(k, v)
				}
			}
		}
		c.change(ptr+"/"+kw, "never_branch", l, kept, false)
	}
}

// disjoint reports whether n, without kw, and o can be one node: they share
// annotations at most, and no keyword of one counts on the other's absence.
func disjoint(n, o *object, kw string) bool {
	for _, k := range n.Keys() {
		if k != kw && !annotations[k] && k != "$schema" && k != "$defs" {
			return false
		}
	}
	return o.Object("$defs") == nil
}

// repairArray gives an array its "items" schema, which the APIs insist on.
func (c *conv) repairArray(n *object, ptr string) {
	if o, ok := n.Get("items"); ok {
		if s, isObject := o.(*object); isObject && never(s) && !n.Has("unevaluatedItems") {
			limit := json.Number(strconv.Itoa(len(n.List("prefixItems"))))
			if v, _ := n.Get("maxItems"); v == nil || ordered.Compare(v.(json.Number), limit) > 0 {
				n.Set("maxItems", limit)
			}
			n.Set("items", newObject())
			c.change(ptr+"/items", "closed_tuple", false, limit, false)
		}
		return
	}
	if declared(n)&tArray != 0 {
		n.Set("items", newObject())
		c.change(ptr+"/items", "items_missing", nil, newObject(), false)
	}
}
