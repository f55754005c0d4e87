package schema

import (
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// intersect narrows a by what b says. Where a keyword cannot hold both it keeps
// a's and reports false; with exact nothing but a full success is of use, so it
// stops there.
func (c *conv) intersect(a, b *object, exact bool) bool {
	ok := true
	for _, kw := range b.Keys() {
		y, _ := b.Get(kw)
		x, has := a.Get(kw)
		if !has {
			if exact && (kw == "additionalProperties" && y != true && a.Has("properties") ||
				kw == "properties" && closedBeside(a) || kw == "unevaluatedProperties" || kw == "unevaluatedItems" ||
				kw == "items" && a.Has("prefixItems") || kw == "prefixItems" && a.Has("items") ||
				(kw == "then" || kw == "else" || kw == "if") && (a.Has("if") || a.Has("then") || a.Has("else"))) {
				return false
			}
			a.Set(kw, y)
			continue
		}
		if annotations[kw] || ordered.Equal(x, y) {
			continue
		}
		merged, fits := c.meet(kw, x, y)
		if exact && fits && kw == "properties" && (closedBeside(a) || closedBeside(b)) && !sameKeys(x, y) {
			return false
		}
		if !fits {
			ok = false
			if exact {
				return false
			}
			c.change(c.origin[b]+"/"+kw, "conflict_dropped", y, x, true)
			continue
		}
		a.Set(kw, merged)
	}
	return ok
}

// closedBeside reports whether n limits the keys that its properties do not name.
func closedBeside(n *object) bool {
	v, ok := n.Get("additionalProperties")
	return ok && v != true
}

func sameKeys(x, y any) bool {
	a, okA := x.(*object)
	b, okB := y.(*object)
	return okA && okB && a.Len() == b.Len() && !slices.ContainsFunc(a.Keys(), func(k string) bool { return !b.Has(k) })
}

// meet is the value of a keyword that demands what x and y demand.
func (c *conv) meet(kw string, x, y any) (any, bool) {
	switch kw {
	case "type":
		a, b := declared(newObject("type", x)), declared(newObject("type", y))
		t := a & b
		if a&tNumber != 0 && b&tInteger != 0 || b&tNumber != 0 && a&tInteger != 0 {
			t |= tInteger
		}
		return t.keyword(), t != 0
	case "properties", "patternProperties":
		a, b := x.(*object), y.(*object)
		out := a.Shallow()
		for _, k := range b.Keys() {
			v, _ := b.Get(k)
			if w, has := out.Get(k); has {
				out.Set(k, c.both(w, v))
			} else {
				out.Set(k, v)
			}
		}
		return out, true
	case "required":
		out := slices.Clone(x.([]any))
		for _, v := range y.([]any) {
			if !containsName(out, v.(string)) {
				out = append(out, v)
			}
		}
		return out, true
	case "additionalProperties":
		if x == false || y == false {
			return false, true
		}
		return c.both(x, y), true
	case "items", "propertyNames":
		return c.both(x, y), true
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		if bound(x).Cmp(bound(y)) < 0 {
			return y, true
		}
		return x, true
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		if bound(x).Cmp(bound(y)) > 0 {
			return y, true
		}
		return x, true
	case "uniqueItems":
		return x == true || y == true, true
	case "enum":
		var out []any
		for _, v := range x.([]any) {
			if slices.ContainsFunc(y.([]any), func(w any) bool { return ordered.Equal(v, w) }) {
				out = append(out, v)
			}
		}
		return out, len(out) > 0
	}
	return x, false
}

// both is a schema for what fits x and y.
func (c *conv) both(x, y any) any {
	a, okA := x.(*object)
	b, okB := y.(*object)
	switch {
	case x == true, okA && okB && open(a) && a.Len() == 0:
		return y
	case y == true, okA && okB && open(b):
		return x
	case !okA || !okB:
		return newObject("not", newObject()) // one is false
	case ordered.Equal(a, b):
		return a
	}
	if m := a.Shallow(); c.step() && c.intersect(m, b, true) {
		c.origin[m] = c.origin[a]
		return m
	}
	if c.rules.SingleType { // no intersections there: what cannot be held is dropped
		m := a.Shallow()
		c.origin[m] = c.origin[a]
		c.intersect(m, b, false)
		return m
	}
	out := newObject("allOf", []any{a, b})
	c.origin[out] = c.origin[a]
	return out
}
