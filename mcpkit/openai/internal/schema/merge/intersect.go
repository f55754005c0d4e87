// Package merge makes one node of several: of an intersection, of the branches
// of a union, of a reference and what stands beside it.
//
//	c := &merge.Conversion{Tree: tree, Rules: r}
//	fits := c.Intersect(a, b, true) // a now demands what a and b demanded, or fits is false
//
// Where one node cannot say all that several said, it takes more, never less,
// and the tree's report and notes have the rest. When nodes are to be merged is
// the caller's affair.
package merge

import (
	"slices"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// Conversion is a tree that is being brought into the form of one API.
type Conversion struct {
	*base.Tree
	Rules *rules.Rules
}

// Intersect narrows a by what b says. Where a keyword cannot hold both it keeps
// a's and reports false; with exact nothing but a full success is of use, so it
// stops there.
func (c *Conversion) Intersect(a, b *base.Node, exact bool) bool {
	ok := true
	for _, kw := range b.Keys() {
		y, _ := b.Get(kw)
		x, has := a.Get(kw)
		if !has {
			if exact && (kw == "additionalProperties" && y != true && a.Has("properties") ||
				kw == "properties" && base.ClosedBeside(a) || kw == "unevaluatedProperties" || kw == "unevaluatedItems" ||
				kw == "items" && a.Has("prefixItems") || kw == "prefixItems" && a.Has("items") ||
				(kw == "then" || kw == "else" || kw == "if") && (a.Has("if") || a.Has("then") || a.Has("else"))) {
				return false
			}
			a.Set(kw, y)
			continue
		}
		if base.Annotations[kw] || jsonvalue.Equal(x, y) {
			continue
		}
		merged, fits := c.meet(kw, x, y)
		if exact && fits && kw == "properties" && (base.ClosedBeside(a) || base.ClosedBeside(b)) && !sameKeys(x, y) {
			return false
		}
		if !fits {
			ok = false
			if exact {
				return false
			}
			c.Report(c.Origin[b]+"/"+kw, "conflict_dropped", y, x, true)
			continue
		}
		a.Set(kw, merged)
	}
	return ok
}

func sameKeys(x, y any) bool {
	a, okA := x.(*base.Node)
	b, okB := y.(*base.Node)
	return okA && okB && a.Len() == b.Len() && !slices.ContainsFunc(a.Keys(), func(k string) bool { return !b.Has(k) })
}

// meet is the value of a keyword that demands what x and y demand.
func (c *Conversion) meet(kw string, x, y any) (any, bool) {
	switch kw {
	case "type":
		a, b := base.Declared(base.NewNode("type", x)), base.Declared(base.NewNode("type", y))
		t := a & b
		if a&base.Number != 0 && b&base.Integer != 0 || b&base.Number != 0 && a&base.Integer != 0 {
			t |= base.Integer
		}
		return t.Keyword(), t != 0
	case "properties", "patternProperties":
		a, b := x.(*base.Node), y.(*base.Node)
		out := a.Shallow()
		for _, k := range b.Keys() {
			v, _ := b.Get(k)
			if w, has := out.Get(k); has {
				out.Set(k, c.Both(w, v))
			} else {
				out.Set(k, v)
			}
		}
		return out, true
	case "required":
		out := slices.Clone(x.([]any))
		for _, v := range y.([]any) {
			if !base.HasName(out, v.(string)) {
				out = append(out, v)
			}
		}
		return out, true
	case "additionalProperties":
		if x == false || y == false {
			return false, true
		}
		return c.Both(x, y), true
	case "items", "propertyNames":
		return c.Both(x, y), true
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		if base.Bound(x).Cmp(base.Bound(y)) < 0 {
			return y, true
		}
		return x, true
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		if base.Bound(x).Cmp(base.Bound(y)) > 0 {
			return y, true
		}
		return x, true
	case "uniqueItems":
		return x == true || y == true, true
	case "enum":
		var out []any
		for _, v := range x.([]any) {
			if slices.ContainsFunc(y.([]any), func(w any) bool { return jsonvalue.Equal(v, w) }) {
				out = append(out, v)
			}
		}
		return out, len(out) > 0
	}
	return x, false
}

// Both is a schema for what fits x and y.
func (c *Conversion) Both(x, y any) any {
	a, okA := x.(*base.Node)
	b, okB := y.(*base.Node)
	switch {
	case x == true, okA && okB && base.Open(a) && a.Len() == 0:
		return y
	case y == true, okA && okB && base.Open(b):
		return x
	case !okA || !okB:
		return base.NewNode("not", base.NewNode()) // one is false
	case jsonvalue.Equal(a, b):
		return a
	}
	if m := a.Shallow(); c.Step() && c.Intersect(m, b, true) {
		c.Origin[m] = c.Origin[a]
		return m
	}
	if c.Rules.SingleType { // no intersections there: what cannot be held is dropped
		m := a.Shallow()
		c.Origin[m] = c.Origin[a]
		c.Intersect(m, b, false)
		return m
	}
	out := base.NewNode("allOf", []any{a, b})
	c.Origin[out] = c.Origin[a]
	return out
}
