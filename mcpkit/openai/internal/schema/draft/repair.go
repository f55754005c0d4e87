package draft

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// repairValues checks that every keyword has a value of its form.
func (c *conversion) repairValues(n *base.Node, ptr string) {
	for _, kw := range n.Keys() {
		v, _ := n.Get(kw)
		at := ptr + "/" + base.Escape(kw)
		bad := func(code string) {
			n.Delete(kw)
			c.Report(at, code, v, nil, true)
		}
		if f := base.Keywords[kw]; (f == base.FormData || f == base.FormList || f == base.FormUnknown) && deep(v, base.MaxDepth) {
			bad("depth_limit")
			continue
		}
		switch base.Keywords[kw] {
		case base.FormType:
			c.repairType(n, v, at)
		case base.FormText:
			s, ok := v.(string)
			if !ok {
				bad("invalid_keyword")
			} else if clean := base.Visible(s); clean != s && (kw == "title" || kw == "description" || kw == "$comment") {
				n.Set(kw, clean)
				c.Report(at, "hidden_characters", s, clean, false)
			}
		case base.FormNumber:
			if b := base.Bound(v); b == nil || kw == "multipleOf" && b.Sign() <= 0 {
				bad("invalid_keyword")
			}
		case base.FormCount:
			if b := base.Bound(v); b == nil || !b.IsInt() || b.Sign() < 0 {
				bad("invalid_keyword")
			}
		case base.FormFlag:
			if _, ok := v.(bool); !ok {
				bad("invalid_keyword")
			}
		case base.FormList:
			if l, ok := v.([]any); !ok {
				bad("invalid_keyword")
			} else if kw == "enum" {
				c.repairEnum(n, l, at)
			}
		case base.FormNames:
			c.repairNames(n, kw, v, at)
		case base.FormNamesMap:
			m, ok := v.(*base.Node)
			if !ok {
				bad("invalid_keyword")
				continue
			}
			for _, k := range m.Keys() {
				w, _ := m.Get(k)
				c.repairNames(m, k, w, at+"/"+base.Escape(k))
			}
		case base.FormSchemaMap:
			if _, ok := v.(*base.Node); ok {
				continue
			}
			if l, isList := v.([]any); kw == "properties" && (v == nil || isList && len(l) == 0) {
				n.Set(kw, base.NewNode())
				c.Report(at, "properties_empty", v, base.NewNode(), false)
			} else {
				bad("invalid_keyword")
			}
		case base.FormSchemaList:
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
	case *base.Node:
		for _, k := range v.Keys() {
			if e, _ := v.Get(k); deep(e, limit-1) {
				return true
			}
		}
	}
	return false
}

func (c *conversion) repairType(n *base.Node, v any, at string) {
	var t base.Types
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
		c.Report(at, "invalid_type", v, nil, true)
	case alias:
		n.Set("type", t.Keyword())
		c.Report(at, "type_alias", v, t.Keyword(), false)
	}
}

// repairEnum takes out repeated values; an empty list would forbid everything
// and APIs refuse it.
func (c *conversion) repairEnum(n *base.Node, l []any, at string) {
	var out []any
	seen := make(map[string]bool, len(l))
	for _, v := range l {
		key := string(jsonvalue.Append(nil, v))
		if !seen[key] {
			seen[key] = true
			out = append(out, v)
		}
	}
	switch {
	case len(out) == 0:
		n.Delete("enum")
		c.Report(at, "enum_empty", l, nil, true)
	case len(out) < len(l):
		n.Set("enum", out)
		c.Report(at, "enum_duplicates", l, out, false)
	}
}

// repairNames mends a list of names. A boolean "required" (draft-03) was lifted
// by the parent already; what is left of it here is noise.
func (c *conversion) repairNames(n *base.Node, kw string, v any, at string) {
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
		c.Report(at, "required_invalid", v, nil, !isBool)
	case len(out) < len(l):
		if out == nil {
			out = []any{}
		}
		n.Set(kw, out)
		c.Report(at, "required_invalid", v, out, false)
	}
}

// repairChild makes a schema of what stands in a schema position.
func (c *conversion) repairChild(n *base.Node, p base.Place, child any, at string) any {
	switch v := child.(type) {
	case *base.Node:
		if p.Keyword == "properties" {
			c.liftRequired(n, p.Name, v, at)
		}
		c.repairNode(v, at)
		return v
	case bool:
		if base.Keywords[p.Keyword] == base.FormSchemaOrFlag {
			return v
		}
		out := base.NewNode()
		if !v {
			out.Set("not", base.NewNode())
		}
		c.Report(at, "boolean_schema", v, out, false)
		c.Origin[out] = at
		return out
	}
	out := base.NewNode()
	c.Origin[out] = at
	c.Report(at, "invalid_schema", child, out, true)
	return out
}

// liftRequired turns a property's own "required": true (draft-03) into an entry
// of its object's list.
func (c *conversion) liftRequired(n *base.Node, name string, child *base.Node, at string) {
	v, _ := child.Get("required")
	on, isBool := v.(bool)
	if !isBool {
		return
	}
	child.Delete("required")
	if on {
		l := n.List("required")
		if !base.HasName(l, name) {
			n.Set("required", append(l[:len(l):len(l)], name))
		}
	}
	c.Report(at+"/required", "required_lifted", v, nil, false)
}

// repairUnions takes branches that no value fits out of unions: what the
// "optional" of some schema generators leaves behind.
func (c *conversion) repairUnions(n *base.Node, ptr string) {
	for _, kw := range []string{"anyOf", "oneOf"} {
		l := n.List(kw)
		var kept []any
		for _, v := range l {
			if o, ok := v.(*base.Node); ok && !base.Never(o) {
				kept = append(kept, o)
			}
		}
		if len(kept) == len(l) || len(kept) == 0 {
			continue
		}
		n.Set(kw, kept)
		if o := kept[0].(*base.Node); len(kept) == 1 && disjoint(n, o, kw) {
			n.Delete(kw)
			for _, k := range o.Keys() {
				if v, _ := o.Get(k); !n.Has(k) {
					n.Set(k, v)
				}
			}
		}
		c.Report(ptr+"/"+kw, "never_branch", l, kept, false)
	}
}

// disjoint reports whether n, without kw, and o can be one node: they share
// annotations at most, and no keyword of one counts on the other's absence.
func disjoint(n, o *base.Node, kw string) bool {
	for _, k := range n.Keys() {
		if k != kw && !base.Annotations[k] && k != "$schema" && k != "$defs" {
			return false
		}
	}
	return o.Object("$defs") == nil
}

// repairArray gives an array its "items" schema, which the APIs insist on.
func (c *conversion) repairArray(n *base.Node, ptr string) {
	if o, ok := n.Get("items"); ok {
		if s, isObject := o.(*base.Node); isObject && base.Never(s) && !n.Has("unevaluatedItems") {
			limit := json.Number(strconv.Itoa(len(n.List("prefixItems"))))
			if v, _ := n.Get("maxItems"); v == nil || jsonvalue.CompareNumbers(v.(json.Number), limit) > 0 {
				n.Set("maxItems", limit)
			}
			n.Set("items", base.NewNode())
			c.Report(ptr+"/items", "closed_tuple", false, limit, false)
		}
		return
	}
	if base.Declared(n)&base.Array != 0 {
		n.Set("items", base.NewNode())
		c.Report(ptr+"/items", "items_missing", nil, base.NewNode(), false)
	}
}

// aliases are names of types in the languages that servers are written in.
var aliases = map[string]string{
	"int": "integer", "int32": "integer", "int64": "integer", "uint": "integer", "long": "integer", "bigint": "integer",
	"float": "number", "float32": "number", "float64": "number", "double": "number", "decimal": "number",
	"str": "string", "text": "string", "char": "string",
	"bool": "boolean",
	"dict": "object", "map": "object", "struct": "object", "record": "object", "hash": "object",
	"list": "array", "tuple": "array", "set": "array", "slice": "array",
	"none": "null", "nil": "null", "undefined": "null", "nonetype": "null",
}

// readType makes a type name of JSON Schema of s; alias says that s was none.
func readType(s string) (t base.Types, alias bool) {
	if t := base.TypeNamed(s); t != 0 {
		return t, false
	}
	low := strings.ToLower(strings.TrimSpace(s))
	if a, ok := aliases[low]; ok {
		low = a
	}
	return base.TypeNamed(low), true
}
