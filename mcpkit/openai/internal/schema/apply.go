package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// apply makes the changes that the rules demand, and no others.
func (c *conv) apply() {
	r := c.rules
	if r.NoRef {
		c.inline()
	}
	c.settleNegatives()
	nodes(c.root, c.dropNever)
	if r.NoTuples {
		nodes(c.root, c.dropTuples)
	}
	if r.Strict != nil {
		c.strictly()
	}
	nodes(c.root, c.constraints)
	if r.NoBesides && !r.SingleType {
		c.rewriteAll(c.dropBesides)
	}
	if r.SingleType {
		c.rewriteAll(c.fold)
		nodes(c.root, c.singleNulls)
		c.rewriteAll(c.single)
		for _, kw := range c.root.Keys() {
			if !r.Keywords[kw] {
				c.forget(c.root, kw)
			}
		}
		c.requiredDeclared(c.root)
	} else if r.Typed {
		c.typeAll()
	}
	if r.Keys != nil {
		c.renameKeys()
	}
}

// rewriteAll replaces the nodes below the root from the leaves up; the root
// keeps its form.
func (c *conv) rewriteAll(f func(n *object) *object) {
	each(c.root, func(_ place, child any) any {
		if o, ok := child.(*object); ok {
			return rewrite(o, f)
		}
		return child
	})
}

// remove takes a constraint out of a node and says it in the description.
func (c *conv) remove(n *object, kw, code string) {
	v, ok := n.Get(kw)
	if !ok {
		return
	}
	n.Delete(kw)
	if s := sentence(kw, v); s != "" {
		note(n, s)
	}
	c.change(c.origin[n]+"/"+kw, code, v, nil, true)
}

// sentence says a constraint in words.
func sentence(kw string, v any) string {
	format, ok := map[string]string{
		"pattern": "Must match the pattern %s", "format": "Format: %s",
		"minLength": "At least %s characters", "maxLength": "At most %s characters",
		"minItems": "At least %s items", "maxItems": "At most %s items", "uniqueItems": "No item twice",
		"minimum": "Not less than %s", "maximum": "Not more than %s",
		"exclusiveMinimum": "More than %s", "exclusiveMaximum": "Less than %s", "multipleOf": "A multiple of %s",
		"minProperties": "At least %s keys", "maxProperties": "At most %s keys",
		"not": "Must not match %s", "const": "Always %s", "enum": "One of %s", "default": "Default: %s",
		"contains": "Holds an item that matches %s", "propertyNames": "Keys match %s",
		"patternProperties": "Keys and values by pattern: %s", "additionalProperties": "Further keys have values that match %s",
		"dependentRequired": "Keys that need other keys: %s", "dependentSchemas": "Rules that come with keys: %s",
		"if": "If it matches %s", "then": "then also %s", "else": "otherwise also %s",
		"prefixItems": "Items by position: %s", "allOf": "Must match all of %s", "oneOf": "Must match exactly one of %s",
		"anyOf": "Must match one of %s", "examples": "Examples: %s",
	}[kw]
	switch {
	case !ok || v == false:
		return ""
	case kw == "uniqueItems":
		return format + "."
	}
	if s, isText := v.(string); isText && (kw == "pattern" || kw == "format") {
		return fmt.Sprintf(format, s) + "."
	}
	return fmt.Sprintf(format, asText(v)) + "."
}

// constraints removes or rewrites what the API's validators cannot read.
func (c *conv) constraints(n *object) {
	r := c.rules
	at := c.origin[n]
	if p, ok := n.Get("pattern"); ok {
		switch fitted, good := r.Pattern.fit(p.(string)); {
		case !good:
			c.remove(n, "pattern", "pattern_removed")
		case fitted != p:
			n.Set("pattern", fitted)
			c.change(at+"/pattern", "pattern_rewritten", p, fitted, false)
		}
	}
	if m := n.Object("patternProperties"); m != nil {
		for _, k := range m.Keys() {
			v, _ := m.Get(k)
			fitted, good := r.Pattern.fit(k)
			switch {
			case !good || fitted != k && m.Has(fitted):
				m.Delete(k)
				n.Delete("additionalProperties", "unevaluatedProperties") // it would refuse what the pattern let in
				note(n, "Keys that match "+k+" have values that match "+asText(v)+".")
				c.change(at+"/patternProperties/"+escape(k), "pattern_removed", v, nil, true)
			case fitted != k:
				m.Rename(k, fitted)
				c.change(at+"/patternProperties/"+escape(k), "pattern_rewritten", k, fitted, false)
			}
		}
		if m.Len() == 0 {
			n.Delete("patternProperties")
		}
	}
	if f := n.String("format"); f != "" && (r.Formats != nil && !r.Formats[f] || r.NotFormats[f]) {
		c.remove(n, "format", "format_removed")
	}
	if r.MaxRepeat > 0 {
		limit := json.Number(strconv.Itoa(r.MaxRepeat))
		for _, kw := range repeated {
			if v, ok := n.Get(kw); ok && ordered.Compare(v.(json.Number), limit) > 0 {
				c.remove(n, kw, "bound_removed")
			}
		}
	}
	if r.WholeBounds && declared(n)&^tNull != tInteger {
		for _, kw := range bounds {
			c.remove(n, kw, "bound_removed")
		}
	}
	for _, kw := range n.Keys() {
		if r.Without[kw] {
			c.remove(n, kw, "keyword_removed")
		}
	}
	if o := n.Object("additionalProperties"); r.OpenMaps && o != nil && o.Len() == 0 {
		n.Set("additionalProperties", true)
		c.change(at+"/additionalProperties", "boolean_schema", o, true, false)
	}
}

// dropTuples lets items take what any position of the tuple takes.
func (c *conv) dropTuples(n *object) {
	l := n.List("prefixItems")
	if l == nil {
		return
	}
	at := c.origin[n]
	var alts []*object
	for _, v := range l {
		alts = append(alts, v.(*object))
	}
	limit, bounded := n.Get("maxItems")
	if !bounded || ordered.Compare(limit.(json.Number), json.Number(strconv.Itoa(len(l)))) > 0 {
		if rest := n.Object("items"); rest != nil {
			alts = append(alts, rest)
		}
	}
	var distinct []*object
	for _, a := range alts {
		if !containsEqual(distinct, a) {
			distinct = append(distinct, a)
		}
	}
	items := anyOfThem(distinct)
	n.Delete("prefixItems", "unevaluatedItems")
	n.Set("items", items)
	if len(distinct) > 1 {
		note(n, sentence("prefixItems", l))
	}
	c.change(at+"/prefixItems", "tuple_removed", l, items, len(distinct) > 1)
}

func containsEqual(l []*object, o *object) bool {
	for _, x := range l {
		if ordered.Equal(x, o) {
			return true
		}
	}
	return false
}

// settleNegatives removes "not" and "if", and makes anyOf of oneOf, where what
// they hold is about to lose a constraint: inside them, less said means more
// refused.
func (c *conv) settleNegatives() {
	loses := map[*object]bool{}
	var wide func(n *object) bool
	wide = func(n *object) bool {
		if l, known := loses[n]; known {
			return l
		}
		loses[n] = false // while it is on the path
		l := c.loses(n)
		if t := c.target(n.String("$ref")); t != nil && !l {
			l = wide(t)
		}
		each(n, func(p place, child any) any {
			if o, ok := child.(*object); ok && !l && p.keyword != "$defs" {
				l = wide(o)
			}
			return child
		})
		loses[n] = l
		return l
	}
	nodes(c.root, func(n *object) {
		if o := n.Object("not"); o != nil && wide(o) {
			c.remove(n, "not", "keyword_removed")
		}
		if o := n.Object("if"); o != nil && wide(o) {
			for _, kw := range []string{"if", "then", "else"} {
				c.remove(n, kw, "keyword_removed")
			}
		}
		l := n.List("oneOf")
		if !slices.ContainsFunc(l, func(v any) bool { return wide(v.(*object)) }) {
			return
		}
		if n.Has("anyOf") {
			c.remove(n, "oneOf", "keyword_removed")
			return
		}
		n.Rename("oneOf", "anyOf")
		c.change(c.origin[n]+"/oneOf", "oneof_to_anyof", l, l, true)
	})
}

// dropNever takes away the properties that no value fits: there is nothing for a
// model to send.
func (c *conv) dropNever(n *object) {
	props := n.Object("properties")
	if props == nil {
		return
	}
	for _, k := range props.Keys() {
		if o := props.Object(k); never(o) {
			props.Delete(k)
			removeRequired(n, k)
			c.change(c.origin[n]+"/properties/"+escape(k), "false_schema", o, nil, true)
		}
	}
}

// loses reports whether the rules take a constraint away from n itself.
func (c *conv) loses(n *object) bool {
	r := c.rules
	if p, ok := n.Get("pattern"); ok {
		if _, good := r.Pattern.fit(p.(string)); !good {
			return true
		}
	}
	if m := n.Object("patternProperties"); m != nil {
		for _, k := range m.Keys() {
			if _, good := r.Pattern.fit(k); !good {
				return true
			}
		}
	}
	if r.MaxRepeat > 0 {
		for _, kw := range repeated {
			if v, ok := n.Get(kw); ok && ordered.Compare(v.(json.Number), json.Number(strconv.Itoa(r.MaxRepeat))) > 0 {
				return true
			}
		}
	}
	if r.WholeBounds && declared(n)&^tNull != tInteger && slices.ContainsFunc(bounds, n.Has) {
		return true
	}
	if props := n.Object("properties"); props != nil && slices.ContainsFunc(props.Keys(), func(k string) bool { return never(props.Object(k)) }) {
		return true
	}
	return c.cut || r.NoTuples && n.Has("prefixItems") || r.NoBesides && n.Has("properties") && (n.Has("anyOf") || n.Has("oneOf")) ||
		slices.ContainsFunc(n.Keys(), func(kw string) bool { return r.Without[kw] })
}

var (
	repeated = []string{"minLength", "maxLength", "minItems", "maxItems"}
	bounds   = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)
