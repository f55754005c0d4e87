package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// combinators are the keywords that no API takes at the root of parameters.
var combinators = []string{"$ref", "allOf", "anyOf", "oneOf", "not", "enum", "const"}

func combined(n *object) bool {
	return slices.ContainsFunc(combinators, n.Has)
}

// flattenRoot makes the root one object with type and properties. What the
// union said that one object cannot say goes into the tool's description.
func (c *conv) flattenRoot() {
	before := c.root
	used := c.reachable(nil)
	if combined(before) || before.String("type") != "object" {
		c.keepRootTarget()
	}
	if combined(before) {
		flat := c.flatten(before, nil, "root")
		for _, kw := range []string{"$schema", "$defs"} {
			if v, ok := before.Get(kw); ok {
				flat.Set(kw, v)
			}
		}
		c.origin[flat] = ""
		c.root = flat
		c.prune(used)
	}
	r := c.root
	if v, ok := r.Get("type"); v != "object" {
		if t := declared(r); !ok || t&tObject != 0 {
			c.change("/type", "root_type", v, "object", false)
		} else {
			c.change("/type", "root_type", v, "object", true)
			r = newObject() // it describes something that arguments never are
			c.root, c.defs = r, nil
		}
	}
	if !r.Has("properties") {
		c.bare = !closedBeside(r)
		c.change("/properties", "properties_missing", nil, newObject(), false)
	}
	if r.String("type") != "object" || !r.Has("properties") {
		c.root = newObject("type", "object")
		for _, kw := range r.Keys() {
			if v, _ := r.Get(kw); kw != "type" {
				c.root.Set(kw, v)
			}
		}
		if !c.root.Has("properties") {
			c.root.Set("properties", newObject())
		}
		c.origin[c.root] = ""
	}
}

// keepRootTarget copies the root to $defs when references mean it, because the
// root is about to change its meaning.
func (c *conv) keepRootTarget() {
	var refs []*object
	nodes(c.root, func(n *object) {
		if n.String("$ref") == "#" {
			refs = append(refs, n)
		}
	})
	if len(refs) == 0 {
		return
	}
	name := "root"
	for c.defs.Has(name) {
		name += "_"
	}
	for _, n := range refs {
		n.Set("$ref", "#/$defs/"+name)
	}
	whole := c.root.Shallow()
	whole.Delete("$schema", "$defs")
	c.defs.Set(name, c.clone(whole))
	c.root.Set("$defs", c.defs)
	c.change("", "root_kept", nil, "#/$defs/"+name, false)
}

// reachable names the definitions that the root and the further ones lead to.
func (c *conv) reachable(further []string) map[string]bool {
	seen := map[*object]bool{}
	var visit func(n *object)
	visit = func(n *object) {
		if seen[n] {
			return
		}
		seen[n] = true
		if t := c.target(n.String("$ref")); t != nil {
			visit(t)
		}
		each(n, func(p place, child any) any {
			if o, ok := child.(*object); ok && p.keyword != "$defs" {
				visit(o)
			}
			return child
		})
	}
	visit(c.root)
	for _, name := range further {
		visit(c.defs.Object(name))
	}
	out := map[string]bool{}
	if c.defs != nil {
		for _, name := range c.defs.Keys() {
			if seen[c.defs.Object(name)] {
				out[name] = true
			}
		}
	}
	return out
}

// prune removes the definitions among used that nothing needs any more. Those
// that nothing needed from the start are the server's business.
func (c *conv) prune(used map[string]bool) {
	if c.defs == nil {
		return
	}
	var unused []string
	for _, name := range c.defs.Keys() {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	needed := c.reachable(unused)
	for _, name := range c.defs.Keys() {
		if used[name] && !needed[name] {
			c.defs.Delete(name)
		}
	}
	if c.defs.Len() == 0 {
		c.root.Delete("$defs")
	}
}

// flatten folds n's reference, allOf and unions into one object schema that
// takes every object that n takes. where ("root", or "nested") names the codes.
func (c *conv) flatten(n *object, path []string, where string) *object {
	out := newObject()
	if !c.step() {
		return out
	}
	at := c.origin[n]
	c.origin[out] = at
	for _, kw := range n.Keys() {
		if v, _ := n.Get(kw); !slices.Contains(combinators, kw) && kw != "$defs" && kw != "$schema" {
			out.Set(kw, v)
		}
	}
	if t := declared(out); t&tObject != 0 {
		out.Set("type", "object")
	}
	if ref := n.String("$ref"); ref != "" {
		if t := c.target(ref); t != nil && !slices.Contains(path, ref) {
			if c.rules.Strict == nil || where == "root" {
				c.change(at+"/$ref", where+"_ref", ref, nil, false)
			}
			c.intersect(out, c.flatten(c.clone(t), append(path, ref), where), false)
		}
	}
	if l := n.List("allOf"); l != nil {
		c.change(at+"/allOf", where+"_allof", l, nil, false)
		for _, v := range l {
			if o, ok := v.(*object); ok {
				c.intersect(out, c.flatten(o, path, where), false)
			}
		}
	}
	for _, kw := range []string{"anyOf", "oneOf"} {
		l := n.List(kw)
		if l == nil {
			continue
		}
		var alts []*object
		for _, v := range l {
			if o, ok := v.(*object); ok && c.takesObjects(o) {
				alts = append(alts, c.flatten(o, path, where))
			}
		}
		c.change(at+"/"+kw, where+"_union", l, nil, len(alts) > 1)
		if len(alts) == 0 {
			continue
		}
		if s := sayAlternatives(alts, kw, where); s != "" {
			c.sayNote(out, where, s)
		}
		c.intersect(out, c.union(alts, out.Object("properties")), false)
	}
	for _, kw := range []string{"not", "enum", "const"} {
		if v, ok := n.Get(kw); ok {
			c.change(at+"/"+kw, where+"_"+kw, v, nil, true)
			c.sayNote(out, where, map[string]string{"not": "The arguments must not match ", "enum": "The arguments must be one of ",
				"const": "The arguments must be "}[kw]+asText(v)+".")
		}
	}
	return out
}

func (c *conv) sayNote(n *object, where, sentence string) {
	if where == "root" {
		c.notes = append(c.notes, sentence)
		return
	}
	note(n, sentence)
}

// takesObjects reports whether an object could fit n, as far as n itself says.
func (c *conv) takesObjects(n *object) bool {
	if t := declared(n); t != 0 && t&tObject == 0 {
		return false
	}
	if v, ok := n.Get("const"); ok && kindOf(v) != tObject {
		return false
	}
	if t := c.target(n.String("$ref")); t != nil {
		if d := declared(t); d != 0 && d&tObject == 0 {
			return false
		}
	}
	l := n.List("enum")
	return l == nil || slices.ContainsFunc(l, func(v any) bool { return kindOf(v) == tObject })
}

// sayAlternatives puts what a flattened union said into a sentence.
func sayAlternatives(alts []*object, kw, where string) string {
	const most = 12
	var parts []string
	said := false
	for _, a := range alts {
		var names []string
		props := a.Object("properties")
		if props == nil {
			props = newObject()
		}
		for _, k := range props.Keys() {
			p := props.Object(k)
			switch v, fixed := p.Get("const"); {
			case never(p):
			case fixed:
				names = append(names, k+": "+asText(v))
			case len(p.List("enum")) == 1:
				names = append(names, k+": "+asText(p.List("enum")[0]))
			case containsName(a.List("required"), k):
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
func (c *conv) union(alts []*object, beside *object) *object {
	out := newObject("type", "object")
	byName, count := map[string][]*object{}, map[string]int{}
	var order []string
	closed, typed := true, true
	required := alts[0].List("required")
	for _, a := range alts {
		if props := a.Object("properties"); props != nil {
			for _, k := range props.Keys() {
				o := props.Object(k)
				if o == nil || never(o) {
					continue // it says what this alternative is without
				}
				if count[k]++; byName[k] == nil {
					order = append(order, k)
				}
				if !slices.ContainsFunc(byName[k], func(x *object) bool { return ordered.Equal(x, o) }) {
					byName[k] = append(byName[k], o)
				}
			}
		}
		ap, has := a.Get("additionalProperties")
		closed = closed && has && ap == false && !a.Has("patternProperties")
		typed = typed && declared(a) == tObject
		var kept []any
		for _, v := range required {
			if containsName(a.List("required"), v.(string)) {
				kept = append(kept, v)
			}
		}
		required = kept
	}
	if !typed {
		out.Delete("type")
	}
	if len(order) > 0 {
		props := newObject()
		for _, k := range order {
			if count[k] == len(alts) || !beside.Has(k) {
				props.Set(k, anyOfThem(byName[k]))
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

// anyOfThem is a schema for what fits any of the given ones.
func anyOfThem(l []*object) *object {
	if len(l) == 1 {
		return l[0]
	}
	// Discriminators: constants become one list.
	merged, values := newObject(), []any{}
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
			case kw == "type" && (!merged.Has(kw) || ordered.Equal(v, merged.String("type"))):
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
		if !slices.ContainsFunc(distinct, func(w any) bool { return ordered.Equal(v, w) }) {
			distinct = append(distinct, v)
		}
	}
	merged.Set("enum", distinct)
	return merged
}

func anyOfList(l []*object) *object {
	out := make([]any, 0, len(l))
	for _, o := range l {
		if open(o) {
			return o // takes everything already
		}
		out = append(out, o)
	}
	return newObject("anyOf", out)
}

// repairRequired declares what is required and not declared, and forgets what a
// closed object could never hold.
func (c *conv) repairRequired() {
	nodes(c.root, func(n *object) {
		l, props := n.List("required"), n.Object("properties")
		if len(l) == 0 || props == nil || props.Len() == 0 && n != c.root || n.Has("patternProperties") {
			return
		}
		for _, v := range l {
			name := v.(string)
			if props.Has(name) {
				continue
			}
			at := c.origin[n] + "/required"
			switch ap, _ := n.Get("additionalProperties"); ap := ap.(type) {
			case bool:
				if !ap {
					removeRequired(n, name)
					c.change(at, "required_unknown", name, nil, true)
					continue
				}
				props.Set(name, newObject())
			case *object:
				props.Set(name, c.clone(ap))
			default:
				props.Set(name, newObject())
			}
			c.change(at, "required_undeclared", name, newObject(), false)
		}
	})
}
