package schema

import (
	"encoding/json"
	"strconv"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

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
		return v
	case bool:
		if keywords[p.keyword] == schemaOrFlag {
			return v
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
