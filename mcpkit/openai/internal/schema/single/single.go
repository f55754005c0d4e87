// Package single gives every node one type, as the APIs demand whose schemas are
// those of OpenAPI 3.0: "type" is one name, null is "nullable", an enum has
// strings only, and a union stands alone in its node.
//
//	single.Apply(c) // c.Rules.SingleType is set
package single

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/merge"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

type conversion struct{ *merge.Conversion }

// Apply brings every node of c's tree to one type, or to a union that stands
// alone. References must be gone already.
func Apply(m *merge.Conversion) {
	c := conversion{m}
	c.RewriteBelow(c.fold)
	base.Walk(c.Root, c.singleNulls)
	c.RewriteBelow(c.single)
	for _, kw := range c.Root.Keys() {
		if !c.Rules.Keywords[kw] {
			c.forget(c.Root, kw)
		}
	}
	c.requiredDeclared(c.Root)
	if c.Rules.NoEmpty {
		base.Walk(c.Root, c.emptyObjects)
	}
}

// emptyObjects has objects of which no property is known sent as text: the API refuses
// them below the root.
func (c *conversion) emptyObjects(n *base.Node) {
	props := n.Object("properties")
	if n == c.Root || base.Declared(n) != base.Object || props != nil && props.Len() > 0 {
		return
	}
	before := n.Shallow()
	for kw := range perType[base.Object] {
		n.Delete(kw)
	}
	n.Set("type", "string")
	base.Note(n, "A JSON object, written as a string.")
	c.Hints[n] = &base.Hint{Text: true}
	c.Report(c.Origin[n]+"/type", "object_as_text", before, n.Shallow(), true)
}

// perType are the constraints that apply to values of one type.
var perType = map[base.Types]map[string]bool{
	base.String:  rules.Set("minLength", "maxLength", "pattern", "format"),
	base.Number:  rules.Set("minimum", "maximum", "format"),
	base.Integer: rules.Set("minimum", "maximum", "format"),
	base.Object:  rules.Set("properties", "required", "minProperties", "maxProperties"),
	base.Array:   rules.Set("items", "minItems", "maxItems"),
	base.Boolean: {},
}

// formats are those that the API takes for values of some types only.
var formats = map[string]base.Types{
	"enum": base.String, "date-time": base.String,
	"float": base.Number, "double": base.Number, "int32": base.Integer, "int64": base.Integer,
}

// ofSomeType are all keywords of perType.
var ofSomeType = func() map[string]bool {
	all := map[string]bool{}
	for _, kws := range perType {
		maps.Copy(all, kws)
	}
	return all
}()

// singleNulls turns the null branches of a union into a nullable node.
func (c *conversion) singleNulls(n *base.Node) {
	for _, kw := range []string{"anyOf", "oneOf"} {
		l := n.List(kw)
		kept := slices.DeleteFunc(slices.Clone(l), func(v any) bool { return base.Declared(v.(*base.Node)) == base.Null })
		if len(kept) == len(l) || len(kept) == 0 {
			continue
		}
		n.Set(kw, kept)
		n.Set("nullable", true)
		c.Report(c.Origin[n]+"/"+kw, "nullable", l, kept, false)
	}
}

// fold merges intersections, and unions beside properties, of a node whose
// children are done: the rest of the way then meets one union at most.
func (c *conversion) fold(n *base.Node) *base.Node {
	at := c.Origin[n]
	out := n.Shallow()
	c.Origin[out] = at
	if l := out.List("allOf"); l != nil {
		out.Delete("allOf")
		for _, v := range l {
			c.meetSingle(out, v.(*base.Node))
		}
		c.Report(at+"/allOf", "allof_merged", l, nil, false)
	}
	if l := out.List("oneOf"); l != nil {
		if out.Has("anyOf") {
			c.Remove(out, "oneOf", "keyword_removed")
		} else {
			out.Rename("oneOf", "anyOf")
			c.Report(at+"/oneOf", "oneof_to_anyof", l, l, true)
		}
	}
	if out.Has("anyOf") && (out.Has("properties") || base.Declared(out) == base.Object) {
		return c.Flatten(out, nil, "nested")
	}
	return out
}

// single brings a node, whose children are done, to one type, or to a union
// that stands alone.
func (c *conversion) single(n *base.Node) *base.Node {
	at := c.Origin[n]
	out := n.Shallow()
	c.Origin[out] = at
	nullable := out.Has("nullable")
	c.singleValues(out, &nullable)
	c.wholeBounds(out)
	for _, kw := range out.Keys() {
		if !c.Rules.Keywords[kw] {
			c.forget(out, kw)
		}
	}
	if l := out.List("anyOf"); l != nil {
		return c.singleUnion(out, l, nullable)
	}
	t := base.Declared(out)
	if t == 0 {
		t = c.inferred(out)
	}
	if t&base.Null != 0 {
		nullable = true
		t &^= base.Null
	}
	if t == 0 { // null alone
		t = base.String
		base.Note(out, "Always null.")
	}
	if t&base.Number != 0 {
		t &^= base.Integer
	}
	if t.Single() {
		c.ofType(out, t, nullable)
		return out
	}
	var alts []any
	for _, name := range t.Names() {
		branch := out.Shallow()
		c.Origin[branch] = at
		c.ofType(branch, base.TypeNamed(name), nullable)
		branch.Delete("description", "title")
		alts = append(alts, branch)
	}
	c.Report(at+"/type", "types_split", nil, base.NewNode("anyOf", alts), false)
	return c.alone(out, alts)
}

// meetSingle narrows out by an already converted part of an intersection.
func (c *conversion) meetSingle(out, part *base.Node) {
	if part.Has("anyOf") && out.Has("anyOf") {
		base.Note(out, base.Sentence("anyOf", part.List("anyOf")))
		c.Report(c.Origin[part], "conflict_dropped", part, nil, true)
		return
	}
	c.Intersect(out, part, false)
}

// singleValues turns const into enum and drops enums of other things than
// strings, which then stand in the description.
func (c *conversion) singleValues(n *base.Node, nullable *bool) {
	at := c.Origin[n]
	if v, ok := n.Get("const"); ok {
		n.Delete("const")
		n.Set("enum", []any{v})
		c.Report(at+"/const", "const_to_enum", v, []any{v}, false)
	}
	l := n.List("enum")
	if l == nil {
		return
	}
	var values []any
	var t base.Types
	for _, v := range l {
		if v == nil {
			*nullable = true
			continue
		}
		t |= base.KindOf(v)
		values = append(values, v)
	}
	if base.Declared(n) == 0 {
		if t == 0 {
			t = base.Null
		}
		n.Set("type", t.Keyword())
	}
	if t == base.String && base.Declared(n)&^base.Null == base.String {
		if c.Rules.NoEmptyEnum && slices.Contains(values, any("")) {
			values = slices.DeleteFunc(values, func(v any) bool { return v == "" })
			base.Note(n, "An empty string is allowed, too.")
			c.Report(at+"/enum", "enum_narrowed", l, values, true)
		}
		if n.Set("enum", values); len(values) == 0 {
			n.Delete("enum")
		}
		return
	}
	if n.String("type") == "string" && t&base.String != 0 { // the rest could never be sent
		kept := slices.DeleteFunc(slices.Clone(values), func(v any) bool { return base.KindOf(v) != base.String })
		n.Set("enum", kept)
		c.Report(at+"/enum", "enum_narrowed", l, kept, false)
		return
	}
	n.Delete("enum")
	if len(values) > 0 {
		base.Note(n, base.Sentence("enum", values))
	}
	c.Report(at+"/enum", "enum_removed", l, nil, true)
}

// wholeBounds turns exclusive bounds into inclusive ones; for integers exactly.
func (c *conversion) wholeBounds(n *base.Node) {
	for _, x := range []struct {
		exclusive, inclusive string
		by                   int64
	}{{"exclusiveMinimum", "minimum", 1}, {"exclusiveMaximum", "maximum", -1}} {
		v, ok := n.Get(x.exclusive)
		if !ok || c.Rules.Keywords[x.exclusive] {
			continue
		}
		if base.Declared(n)&^base.Null == base.Integer && base.Bound(v).IsInt() && !n.Has(x.inclusive) {
			n.Rename(x.exclusive, x.inclusive)
			n.Set(x.inclusive, shifted(v, x.by))
			after, _ := n.Get(x.inclusive)
			c.Report(c.Origin[n]+"/"+x.exclusive, "exclusive_to_inclusive", v, after, false)
			continue
		}
		c.Remove(n, x.exclusive, "keyword_removed")
		if !n.Has(x.inclusive) {
			n.Set(x.inclusive, v)
		}
	}
}

// forget removes a keyword that the API does not know; a constraint becomes a
// note.
func (c *conversion) forget(n *base.Node, kw string) {
	switch kw {
	case "nullable", "anyOf":
		return
	case "additionalProperties":
		if o := n.Object(kw); o == nil || base.Open(o) {
			v, _ := n.Get(kw)
			n.Delete(kw)
			c.Report(c.Origin[n]+"/"+kw, "keyword_removed", v, nil, v == false)
			return
		}
	}
	c.Remove(n, kw, "keyword_removed")
}

// singleUnion makes a union stand alone: what stood beside it goes into its
// branches, null becomes nullable.
func (c *conversion) singleUnion(n *base.Node, l []any, nullable bool) *base.Node {
	beside := n.Shallow()
	beside.Delete("anyOf", "description", "title", "nullable")
	var alts []any
	for _, v := range l {
		b := v.(*base.Node)
		inner := b.List("anyOf")
		if inner == nil {
			inner = []any{b}
		} else if d := b.String("description"); d != "" {
			inner[0] = c.described(inner[0].(*base.Node), d)
		}
		for _, w := range inner {
			o := w.(*base.Node)
			m := o
			if beside.Len() > 0 {
				m = o.Shallow()
				c.Origin[m] = c.Origin[o]
				c.Intersect(m, beside, false)
				c.ofType(m, base.Declared(m), m.Has("nullable"))
			}
			if !slices.ContainsFunc(alts, func(x any) bool { return jsonvalue.Equal(x, m) }) {
				alts = append(alts, m)
			}
		}
	}
	if nullable {
		for _, a := range alts {
			a.(*base.Node).Set("nullable", true)
		}
	}
	return c.alone(n, alts)
}

// alone is a union of alts with nothing beside it: the words of n go to its
// first branch.
func (c *conversion) alone(n *base.Node, alts []any) *base.Node {
	first := alts[0].(*base.Node)
	if d := n.String("description"); d != "" {
		first = c.described(first, d)
		alts[0] = first
	}
	if len(alts) == 1 {
		return first
	}
	out := base.NewNode("anyOf", alts)
	c.Origin[out] = c.Origin[n]
	return out
}

func (c *conversion) described(n *base.Node, d string) *base.Node {
	out := n.Shallow()
	c.Origin[out] = c.Origin[n]
	if own := n.String("description"); own != "" && own != d {
		d = base.Joined(d, own)
	}
	out.Set("description", d)
	return out
}

// inferred is the type of a node that has none, from its keywords; all types
// when they say nothing.
func (c *conversion) inferred(n *base.Node) base.Types {
	t := base.AllTypes &^ base.Integer
	for _, guess := range []base.Types{base.Object, base.Array, base.String, base.Number} {
		if slices.ContainsFunc(n.Keys(), func(kw string) bool { return perType[guess][kw] }) {
			c.Report(c.Origin[n]+"/type", "type_inferred", nil, guess.Keyword(), true)
			return guess
		}
	}
	c.Report(c.Origin[n]+"/type", "type_all", nil, t.Keyword(), true)
	return t
}

// ofType makes n a node of the one type t and takes away what is about others.
func (c *conversion) ofType(n *base.Node, t base.Types, nullable bool) {
	if v := t.Keyword(); n.String("type") != v {
		n.Set("type", v)
	}
	for _, kw := range n.Keys() {
		if v, _ := n.Get(kw); ofSomeType[kw] && !perType[t][kw] {
			n.Delete(kw)
			c.Report(c.Origin[n]+"/"+kw, "meaningless_keyword", v, nil, false)
		}
	}
	if t != base.String {
		n.Delete("enum")
	}
	if f := n.String("format"); f != "" && formats[f] != 0 && formats[f]&t == 0 {
		c.Remove(n, "format", "format_removed")
	}
	if t == base.Array && n.Object("items") == nil {
		// Deeper arrays cannot be said without an end.
		var alts []any
		for _, name := range []string{"string", "number", "boolean", "object"} {
			alts = append(alts, base.NewNode("type", name))
		}
		n.Set("items", base.NewNode("anyOf", alts))
	}
	c.requiredDeclared(n)
	n.Delete("nullable")
	if nullable {
		n.Set("nullable", true)
	}
}

// requiredDeclared forgets required keys that have no property.
func (c *conversion) requiredDeclared(n *base.Node) {
	props := n.Object("properties")
	for _, v := range n.List("required") {
		if name := v.(string); !props.Has(name) {
			base.RemoveRequired(n, name)
			base.Note(n, "Needs the key "+base.Quote(name)+".")
			c.Report(c.Origin[n]+"/required", "required_unknown", name, nil, true)
		}
	}
}

// shifted is a whole number plus by, digit for digit.
func shifted(v any, by int64) json.Number {
	r := new(big.Int).Add(base.Bound(v).Num(), big.NewInt(by))
	return json.Number(r.String())
}
