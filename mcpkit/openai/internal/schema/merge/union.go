package merge

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// Flatten folds n's reference, allOf and unions into one object schema that
// takes every object that n takes. where ("root", or "nested") names the codes.
func (c *Conversion) Flatten(n *base.Node, path []string, where string) *base.Node {
	out := base.NewNode()
	if !c.Step() {
		return out
	}
	at := c.Origin[n]
	c.Origin[out] = at
	for _, kw := range n.Keys() {
		if v, _ := n.Get(kw); !slices.Contains(base.Combinators, kw) && kw != "$defs" && kw != "$schema" {
			out.Set(kw, v)
		}
	}
	if t := base.Declared(out); t&base.Object != 0 {
		out.Set("type", "object")
	}
	if ref := n.String("$ref"); ref != "" {
		if t := c.Target(ref); t != nil && !slices.Contains(path, ref) {
			if c.Rules.Strict == nil || where == "root" {
				c.Report(at+"/$ref", where+"_ref", ref, nil, false)
			}
			c.Intersect(out, c.Flatten(c.Clone(t), append(path, ref), where), false)
		}
	}
	if l := n.List("allOf"); l != nil {
		c.Report(at+"/allOf", where+"_allof", l, nil, false)
		for _, v := range l {
			if o, ok := v.(*base.Node); ok {
				c.Intersect(out, c.Flatten(o, path, where), false)
			}
		}
	}
	for _, kw := range []string{"anyOf", "oneOf"} {
		l := n.List(kw)
		if l == nil {
			continue
		}
		var alts []*base.Node
		for _, v := range l {
			if o, ok := v.(*base.Node); ok && c.takesObjects(o) {
				alts = append(alts, c.Flatten(o, path, where))
			}
		}
		c.Report(at+"/"+kw, where+"_union", l, nil, len(alts) > 1)
		if len(alts) == 0 {
			continue
		}
		if s := sayAlternatives(alts, kw, where); s != "" {
			c.sayNote(out, where, s)
		}
		c.Intersect(out, c.union(alts, out.Object("properties")), false)
	}
	for _, kw := range []string{"not", "enum", "const"} {
		if v, ok := n.Get(kw); ok {
			c.Report(at+"/"+kw, where+"_"+kw, v, nil, true)
			c.sayNote(out, where, map[string]string{"not": "The arguments must not match ", "enum": "The arguments must be one of ",
				"const": "The arguments must be "}[kw]+base.Quote(v)+".")
		}
	}
	return out
}

func (c *Conversion) sayNote(n *base.Node, where, sentence string) {
	if where == "root" {
		c.Notes = append(c.Notes, sentence)
		return
	}
	base.Note(n, sentence)
}

// takesObjects reports whether an object could fit n, as far as n itself says.
func (c *Conversion) takesObjects(n *base.Node) bool {
	if t := base.Declared(n); t != 0 && t&base.Object == 0 {
		return false
	}
	if v, ok := n.Get("const"); ok && base.KindOf(v) != base.Object {
		return false
	}
	if t := c.Target(n.String("$ref")); t != nil {
		if d := base.Declared(t); d != 0 && d&base.Object == 0 {
			return false
		}
	}
	l := n.List("enum")
	return l == nil || slices.ContainsFunc(l, func(v any) bool { return base.KindOf(v) == base.Object })
}

// sayAlternatives puts what a flattened union said into a sentence.
func sayAlternatives(alts []*base.Node, kw, where string) string {
	const most = 12
	var parts []string
	said := false
	for _, a := range alts {
		var names []string
		props := a.Object("properties")
		if props == nil {
			props = base.NewNode()
		}
		for _, k := range props.Keys() {
			p := props.Object(k)
			switch v, fixed := p.Get("const"); {
			case base.Never(p):
			case fixed:
				names = append(names, k+": "+base.Quote(v))
			case len(p.List("enum")) == 1:
				names = append(names, k+": "+base.Quote(p.List("enum")[0]))
			case base.HasName(a.List("required"), k):
				names = append(names, k)
			default:
				names = append(names, k+"?")
			}
		}
		for _, v := range a.List("required") {
			if s := v.(string); !props.Has(s) {
				names = append(names, s)
			}
		}
		said = said || len(names) > 0
		parts = append(parts, "("+strings.Join(names, ", ")+")")
	}
	if !said || len(parts) < 2 {
		return ""
	}
	more := ""
	if len(parts) > most {
		more = " or " + strconv.Itoa(len(parts)-most) + " more"
		parts = parts[:most]
	}
	lead := "Arguments come in "
	if where != "root" {
		lead = "Its keys come in "
	}
	if kw == "oneOf" {
		lead += "exactly "
	}
	lead += "one of these combinations: "
	return lead + strings.Join(parts, " or ") + more + "."
}

// union is one object schema that takes what any of the alternatives takes,
// beside properties that hold for all of them. A property that only some of
// the alternatives name, and nothing beside them, has its meaning from those.
func (c *Conversion) union(alts []*base.Node, beside *base.Node) *base.Node {
	out := base.NewNode("type", "object")
	byName, count := map[string][]*base.Node{}, map[string]int{}
	var order []string
	closed, typed := true, true
	required := alts[0].List("required")
	for _, a := range alts {
		if props := a.Object("properties"); props != nil {
			for _, k := range props.Keys() {
				o := props.Object(k)
				if o == nil || base.Never(o) {
					continue // it says what this alternative is without
				}
				if count[k]++; byName[k] == nil {
					order = append(order, k)
				}
				if !slices.ContainsFunc(byName[k], func(x *base.Node) bool { return jsonvalue.Equal(x, o) }) {
					byName[k] = append(byName[k], o)
				}
			}
		}
		ap, has := a.Get("additionalProperties")
		closed = closed && has && ap == false && !a.Has("patternProperties")
		typed = typed && base.Declared(a) == base.Object
		var kept []any
		for _, v := range required {
			if base.HasName(a.List("required"), v.(string)) {
				kept = append(kept, v)
			}
		}
		required = kept
	}
	if !typed {
		out.Delete("type")
	}
	if len(order) > 0 {
		props := base.NewNode()
		for _, k := range order {
			if count[k] == len(alts) || !beside.Has(k) {
				props.Set(k, AnyOf(byName[k]))
			}
		}
		out.Set("properties", props)
	}
	if len(required) > 0 {
		out.Set("required", required)
	}
	if closed {
		out.Set("additionalProperties", false)
	}
	return out
}

// AnyOf is a schema for what fits any of the given ones.
func AnyOf(l []*base.Node) *base.Node {
	if len(l) == 1 {
		return l[0]
	}
	// Discriminators: constants become one list.
	merged, values := base.NewNode(), []any{}
	for _, o := range l {
		for _, kw := range o.Keys() {
			v, _ := o.Get(kw)
			switch {
			case kw == "const":
				values = append(values, v)
			case kw == "enum":
				values = append(values, o.List("enum")...)
			case kw == "description" || kw == "title":
				if !merged.Has(kw) {
					merged.Set(kw, v)
				}
			case kw == "type" && (!merged.Has(kw) || jsonvalue.Equal(v, merged.String("type"))):
				merged.Set(kw, v)
			default:
				return anyOfList(l)
			}
		}
		if !o.Has("const") && !o.Has("enum") || o.Has("type") != merged.Has("type") {
			return anyOfList(l)
		}
	}
	var distinct []any
	for _, v := range values {
		if !slices.ContainsFunc(distinct, func(w any) bool { return jsonvalue.Equal(v, w) }) {
			distinct = append(distinct, v)
		}
	}
	merged.Set("enum", distinct)
	return merged
}

func anyOfList(l []*base.Node) *base.Node {
	out := make([]any, 0, len(l))
	for _, o := range l {
		if base.Open(o) {
			return o // takes everything already
		}
		out = append(out, o)
	}
	return base.NewNode("anyOf", out)
}
