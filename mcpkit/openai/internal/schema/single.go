package schema

import (
	"maps"
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// anyName is the definition that stands for any value where nodes must have a
// type.
const anyName = "any_value"

// typeAll gives a type to every node that has none. A node that takes anything
// says so by listing all types, so nothing is guessed.
func (c *conv) typeAll() {
	needsAny := false
	nodes(c.root, func(n *object) {
		if n == c.root {
			return
		}
		if !n.Has("type") && !n.Has("$ref") && !n.Has("anyOf") && !n.Has("oneOf") && !n.Has("allOf") {
			switch v, fixed := n.Get("const"); {
			case fixed:
				c.typeByValues(n, []any{v})
			case n.List("enum") != nil:
				c.typeByValues(n, n.List("enum"))
			default:
				n.Set("type", allTypes.keyword())
				c.change(c.origin[n]+"/type", "type_all", nil, allTypes.keyword(), false)
			}
		}
		if declared(n)&tArray == 0 || c.rules.NoRef {
			return
		}
		if items := n.Object("items"); items == nil || open(items) && items.Len() == 0 {
			n.Set("items", newObject("$ref", "#/$defs/"+anyName))
			needsAny = true
		}
	})
	if !needsAny {
		return
	}
	if c.defs == nil {
		c.defs = newObject()
	}
	c.root.Set("$defs", c.defs)
	c.defs.Set(anyName, newObject("type", allTypes.keyword(), "items", newObject("$ref", "#/$defs/"+anyName)))
}

// dropBesides makes one object of an object's properties and a union beside
// them. Where the node takes other things than objects too, the union becomes a
// note.
func (c *conv) dropBesides(n *object) *object {
	if !n.Has("properties") || !n.Has("anyOf") && !n.Has("oneOf") {
		return n
	}
	if declared(n) == tObject {
		return c.flatten(n, nil, "nested")
	}
	c.remove(n, "anyOf", "keyword_removed")
	c.remove(n, "oneOf", "keyword_removed")
	return n
}

// perType are the constraints that apply to values of one type.
var perType = map[types]map[string]bool{
	tString:  set("minLength", "maxLength", "pattern", "format"),
	tNumber:  set("minimum", "maximum", "format"),
	tInteger: set("minimum", "maximum", "format"),
	tObject:  set("properties", "required", "minProperties", "maxProperties"),
	tArray:   set("items", "minItems", "maxItems"),
	tBoolean: {},
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
func (c *conv) singleNulls(n *object) {
	for _, kw := range []string{"anyOf", "oneOf"} {
		l := n.List(kw)
		kept := slices.DeleteFunc(slices.Clone(l), func(v any) bool { return declared(v.(*object)) == tNull })
		if len(kept) == len(l) || len(kept) == 0 {
			continue
		}
		n.Set(kw, kept)
		n.Set("nullable", true)
		c.change(c.origin[n]+"/"+kw, "nullable", l, kept, false)
	}
}

// fold merges intersections, and unions beside properties, of a node whose
// children are done: the rest of the way then meets one union at most.
func (c *conv) fold(n *object) *object {
	at := c.origin[n]
	out := n.Shallow()
	c.origin[out] = at
	if l := out.List("allOf"); l != nil {
		out.Delete("allOf")
		for _, v := range l {
			c.meetSingle(out, v.(*object))
		}
		c.change(at+"/allOf", "allof_merged", l, nil, false)
	}
	if l := out.List("oneOf"); l != nil {
		if out.Has("anyOf") {
			c.remove(out, "oneOf", "keyword_removed")
		} else {
			out.Rename("oneOf", "anyOf")
			c.change(at+"/oneOf", "oneof_to_anyof", l, l, true)
		}
	}
	if out.Has("anyOf") && (out.Has("properties") || declared(out) == tObject) {
		return c.flatten(out, nil, "nested")
	}
	return out
}

// single brings a node, whose children are done, to one type, or to a union
// that stands alone.
func (c *conv) single(n *object) *object {
	at := c.origin[n]
	out := n.Shallow()
	c.origin[out] = at
	nullable := out.Has("nullable")
	c.singleValues(out, &nullable)
	c.wholeBounds(out)
	for _, kw := range out.Keys() {
		if !c.rules.Keywords[kw] {
			c.forget(out, kw)
		}
	}
	if l := out.List("anyOf"); l != nil {
		return c.singleUnion(out, l, nullable)
	}
	t := declared(out)
	if t == 0 {
		t = c.inferred(out)
	}
	if t&tNull != 0 {
		nullable = true
		t &^= tNull
	}
	if t == 0 { // null alone
		t = tString
		note(out, "Always null.")
	}
	if t&tNumber != 0 {
		t &^= tInteger
	}
	if t.single() {
		c.ofType(out, t, nullable)
		return out
	}
	var alts []any
	for _, name := range t.names() {
		branch := out.Shallow()
		c.origin[branch] = at
		c.ofType(branch, typeOf(name), nullable)
		branch.Delete("description", "title")
		alts = append(alts, branch)
	}
	c.change(at+"/type", "types_split", nil, newObject("anyOf", alts), false)
	return c.alone(out, alts)
}

// meetSingle narrows out by an already converted part of an intersection.
func (c *conv) meetSingle(out, part *object) {
	if part.Has("anyOf") && out.Has("anyOf") {
		note(out, sentence("anyOf", part.List("anyOf")))
		c.change(c.origin[part], "conflict_dropped", part, nil, true)
		return
	}
	c.intersect(out, part, false)
}

// singleValues turns const into enum and drops enums of other things than
// strings, which then stand in the description.
func (c *conv) singleValues(n *object, nullable *bool) {
	at := c.origin[n]
	if v, ok := n.Get("const"); ok {
		n.Delete("const")
		n.Set("enum", []any{v})
		c.change(at+"/const", "const_to_enum", v, []any{v}, false)
	}
	l := n.List("enum")
	if l == nil {
		return
	}
	var values []any
	var t types
	for _, v := range l {
		if v == nil {
			*nullable = true
			continue
		}
		t |= kindOf(v)
		values = append(values, v)
	}
	if declared(n) == 0 {
		if t == 0 {
			t = tNull
		}
		n.Set("type", t.keyword())
	}
	if t == tString && declared(n)&^tNull == tString {
		if len(values) < len(l) {
			n.Set("enum", values)
		}
		return
	}
	if n.String("type") == "string" && t&tString != 0 { // the rest could never be sent
		kept := slices.DeleteFunc(slices.Clone(values), func(v any) bool { return kindOf(v) != tString })
		n.Set("enum", kept)
		c.change(at+"/enum", "enum_narrowed", l, kept, false)
		return
	}
	n.Delete("enum")
	if len(values) > 0 {
		note(n, sentence("enum", values))
	}
	c.change(at+"/enum", "enum_removed", l, nil, true)
}

// wholeBounds turns exclusive bounds into inclusive ones; for integers exactly.
func (c *conv) wholeBounds(n *object) {
	for _, x := range []struct {
		exclusive, inclusive string
		by                   int64
	}{{"exclusiveMinimum", "minimum", 1}, {"exclusiveMaximum", "maximum", -1}} {
		v, ok := n.Get(x.exclusive)
		if !ok || c.rules.Keywords[x.exclusive] {
			continue
		}
		if declared(n)&^tNull == tInteger && bound(v).IsInt() && !n.Has(x.inclusive) {
			n.Rename(x.exclusive, x.inclusive)
			n.Set(x.inclusive, shifted(v, x.by))
			after, _ := n.Get(x.inclusive)
			c.change(c.origin[n]+"/"+x.exclusive, "exclusive_to_inclusive", v, after, false)
			continue
		}
		c.remove(n, x.exclusive, "keyword_removed")
		if !n.Has(x.inclusive) {
			n.Set(x.inclusive, v)
		}
	}
}

// forget removes a keyword that the API does not know; a constraint becomes a
// note.
func (c *conv) forget(n *object, kw string) {
	switch kw {
	case "nullable", "anyOf":
		return
	case "additionalProperties":
		if o := n.Object(kw); o == nil || open(o) {
			v, _ := n.Get(kw)
			n.Delete(kw)
			c.change(c.origin[n]+"/"+kw, "keyword_removed", v, nil, v == false)
			return
		}
	}
	c.remove(n, kw, "keyword_removed")
}

// singleUnion makes a union stand alone: what stood beside it goes into its
// branches, null becomes nullable.
func (c *conv) singleUnion(n *object, l []any, nullable bool) *object {
	beside := n.Shallow()
	beside.Delete("anyOf", "description", "title", "nullable")
	var alts []any
	for _, v := range l {
		b := v.(*object)
		inner := b.List("anyOf")
		if inner == nil {
			inner = []any{b}
		} else if d := b.String("description"); d != "" {
			inner[0] = c.described(inner[0].(*object), d)
		}
		for _, w := range inner {
			o := w.(*object)
			m := o
			if beside.Len() > 0 {
				m = o.Shallow()
				c.origin[m] = c.origin[o]
				c.intersect(m, beside, false)
				c.ofType(m, declared(m), m.Has("nullable"))
			}
			if !slices.ContainsFunc(alts, func(x any) bool { return ordered.Equal(x, m) }) {
				alts = append(alts, m)
			}
		}
	}
	if nullable {
		for _, a := range alts {
			a.(*object).Set("nullable", true)
		}
	}
	return c.alone(n, alts)
}

// alone is a union of alts with nothing beside it: the words of n go to its
// first branch.
func (c *conv) alone(n *object, alts []any) *object {
	first := alts[0].(*object)
	if d := n.String("description"); d != "" {
		first = c.described(first, d)
		alts[0] = first
	}
	if len(alts) == 1 {
		return first
	}
	out := newObject("anyOf", alts)
	c.origin[out] = c.origin[n]
	return out
}

func (c *conv) described(n *object, d string) *object {
	out := n.Shallow()
	c.origin[out] = c.origin[n]
	if own := n.String("description"); own != "" && own != d {
		d = joined(d, own)
	}
	out.Set("description", d)
	return out
}

// inferred is the type of a node that has none, from its keywords; all types
// when they say nothing.
func (c *conv) inferred(n *object) types {
	t := allTypes &^ tInteger
	for _, guess := range []types{tObject, tArray, tString, tNumber} {
		if slices.ContainsFunc(n.Keys(), func(kw string) bool { return perType[guess][kw] }) {
			c.change(c.origin[n]+"/type", "type_inferred", nil, guess.keyword(), true)
			return guess
		}
	}
	c.change(c.origin[n]+"/type", "type_all", nil, t.keyword(), true)
	return t
}

// ofType makes n a node of the one type t and takes away what is about others.
func (c *conv) ofType(n *object, t types, nullable bool) {
	if v := t.keyword(); n.String("type") != v {
		n.Set("type", v)
	}
	for _, kw := range n.Keys() {
		if v, _ := n.Get(kw); ofSomeType[kw] && !perType[t][kw] {
			n.Delete(kw)
			c.change(c.origin[n]+"/"+kw, "meaningless_keyword", v, nil, false)
		}
	}
	if t != tString {
		n.Delete("enum")
	}
	if t == tArray && n.Object("items") == nil {
		// Deeper arrays cannot be said without an end.
		var alts []any
		for _, name := range []string{"string", "number", "boolean", "object"} {
			alts = append(alts, newObject("type", name))
		}
		n.Set("items", newObject("anyOf", alts))
	}
	c.requiredDeclared(n)
	n.Delete("nullable")
	if nullable {
		n.Set("nullable", true)
	}
}

// requiredDeclared forgets required keys that have no property.
func (c *conv) requiredDeclared(n *object) {
	props := n.Object("properties")
	for _, v := range n.List("required") {
		if name := v.(string); !props.Has(name) {
			removeRequired(n, name)
			note(n, "Needs the key "+asText(name)+".")
			c.change(c.origin[n]+"/required", "required_unknown", name, nil, true)
		}
	}
}
