// Package shape brings a schema in 2020-12 into the form that an API's rules
// demand, and changes nothing that they do not demand.
//
//	err := shape.Apply(tree, &rules.Rules{NoRef: true, Typed: true})
//
// What no form of the API can say becomes a sentence in a description; each
// change is in the tree's report. Whether the outcome keeps to the rules is
// checked elsewhere.
package shape

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/merge"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/single"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/strict"
)

// conversion is a tree on its way into an API's form.
type conversion struct {
	*merge.Conversion
	cut bool // inlining ended early somewhere
}

// Apply makes the changes that the rules demand of a tree in 2020-12, and no
// others. The error is the tree's.
func Apply(tree *base.Tree, r *rules.Rules) error {
	c := &conversion{Conversion: &merge.Conversion{Tree: tree, Rules: r}}
	c.FlattenRoot()
	if c.Err == nil {
		c.repairRequired()
		c.apply()
	}
	return c.Err
}

func (c *conversion) apply() {
	r := c.Rules
	if r.NoRef {
		c.inline()
	}
	c.settleNegatives()
	base.Walk(c.Root, c.dropNever)
	if r.NoTuples {
		base.Walk(c.Root, c.dropTuples)
	}
	if r.Strict != nil {
		strict.Apply(c.Conversion)
	}
	base.Walk(c.Root, c.constraints)
	if r.NoBesides && !r.SingleType {
		c.RewriteBelow(c.dropBesides)
	}
	if r.SingleType {
		single.Apply(c.Conversion)
	} else if r.Typed {
		c.typeAll()
	}
	if r.PlainEnums {
		base.Walk(c.Root, c.plainEnum)
	}
	if r.TypeInUnion {
		base.Walk(c.Root, c.typesInUnions)
	}
	if r.DefNames != nil {
		c.renameDefs()
	}
	if r.Keys != nil {
		c.renameKeys()
	}
}

// constraints removes or rewrites what the API's validators cannot read.
func (c *conversion) constraints(n *base.Node) {
	r := c.Rules
	at := c.Origin[n]
	if p, ok := n.Get("pattern"); ok {
		switch fitted, good := r.Pattern.Fit(p.(string)); {
		case !good:
			c.Remove(n, "pattern", "pattern_removed")
		case fitted != p:
			n.Set("pattern", fitted)
			c.Report(at+"/pattern", "pattern_rewritten", p, fitted, false)
		}
	}
	if m := n.Object("patternProperties"); m != nil {
		for _, k := range m.Keys() {
			v, _ := m.Get(k)
			fitted, good := r.Pattern.Fit(k)
			switch {
			case !good || fitted != k && m.Has(fitted):
				m.Delete(k)
				n.Delete("additionalProperties", "unevaluatedProperties") // it would refuse what the pattern let in
				base.Note(n, "Keys that match "+k+" have values that match "+base.Quote(v)+".")
				c.Report(at+"/patternProperties/"+base.Escape(k), "pattern_removed", v, nil, true)
			case fitted != k:
				m.Rename(k, fitted)
				c.Report(at+"/patternProperties/"+base.Escape(k), "pattern_rewritten", k, fitted, false)
			}
		}
		if m.Len() == 0 {
			n.Delete("patternProperties")
		}
	}
	if f := n.String("format"); f != "" && (r.Formats != nil && !r.Formats[f] || r.NotFormats[f]) {
		c.Remove(n, "format", "format_removed")
	}
	if r.MaxRepeat > 0 {
		limit := json.Number(strconv.Itoa(r.MaxRepeat))
		for _, kw := range repeated {
			if v, ok := n.Get(kw); ok && jsonvalue.CompareNumbers(v.(json.Number), limit) > 0 {
				c.Remove(n, kw, "bound_removed")
			}
		}
	}
	if r.WholeBounds && base.Declared(n)&^base.Null != base.Integer {
		for _, kw := range bounds {
			c.Remove(n, kw, "bound_removed")
		}
	}
	for _, kw := range n.Keys() {
		if r.Without[kw] {
			c.Remove(n, kw, "keyword_removed")
		}
	}
	if o := n.Object("additionalProperties"); r.OpenMaps && o != nil && o.Len() == 0 {
		n.Set("additionalProperties", true)
		c.Report(at+"/additionalProperties", "boolean_schema", o, true, false)
	}
}

// dropTuples lets items take what any position of the tuple takes.
func (c *conversion) dropTuples(n *base.Node) {
	l := n.List("prefixItems")
	if l == nil {
		return
	}
	at := c.Origin[n]
	var alts []*base.Node
	for _, v := range l {
		alts = append(alts, v.(*base.Node))
	}
	limit, bounded := n.Get("maxItems")
	if !bounded || jsonvalue.CompareNumbers(limit.(json.Number), json.Number(strconv.Itoa(len(l)))) > 0 {
		if rest := n.Object("items"); rest != nil {
			alts = append(alts, rest)
		}
	}
	var distinct []*base.Node
	for _, a := range alts {
		if !containsEqual(distinct, a) {
			distinct = append(distinct, a)
		}
	}
	items := merge.AnyOf(distinct)
	n.Delete("prefixItems", "unevaluatedItems")
	n.Set("items", items)
	if len(distinct) > 1 {
		base.Note(n, base.Sentence("prefixItems", l))
	}
	c.Report(at+"/prefixItems", "tuple_removed", l, items, len(distinct) > 1)
}

func containsEqual(l []*base.Node, o *base.Node) bool {
	for _, x := range l {
		if jsonvalue.Equal(x, o) {
			return true
		}
	}
	return false
}

// settleNegatives removes "not" and "if", and makes anyOf of oneOf, where what
// they hold is about to lose a constraint: inside them, less said means more
// refused.
func (c *conversion) settleNegatives() {
	loses := map[*base.Node]bool{}
	var wide func(n *base.Node) bool
	wide = func(n *base.Node) bool {
		if l, known := loses[n]; known {
			return l
		}
		loses[n] = false // while it is on the path
		l := c.loses(n)
		if t := c.Target(n.String("$ref")); t != nil && !l {
			l = wide(t)
		}
		base.Each(n, func(p base.Place, child any) any {
			if o, ok := child.(*base.Node); ok && !l && p.Keyword != "$defs" {
				l = wide(o)
			}
			return child
		})
		loses[n] = l
		return l
	}
	base.Walk(c.Root, func(n *base.Node) {
		if o := n.Object("not"); o != nil && wide(o) {
			c.Remove(n, "not", "keyword_removed")
		}
		if o := n.Object("if"); o != nil && wide(o) {
			for _, kw := range []string{"if", "then", "else"} {
				c.Remove(n, kw, "keyword_removed")
			}
		}
		l := n.List("oneOf")
		if !slices.ContainsFunc(l, func(v any) bool { return wide(v.(*base.Node)) }) {
			return
		}
		if n.Has("anyOf") {
			c.Remove(n, "oneOf", "keyword_removed")
			return
		}
		n.Rename("oneOf", "anyOf")
		c.Report(c.Origin[n]+"/oneOf", "oneof_to_anyof", l, l, true)
	})
}

// dropNever takes away the properties that no value fits: there is nothing for a
// model to send.
func (c *conversion) dropNever(n *base.Node) {
	props := n.Object("properties")
	if props == nil {
		return
	}
	for _, k := range props.Keys() {
		if o := props.Object(k); base.Never(o) {
			props.Delete(k)
			base.RemoveRequired(n, k)
			c.Report(c.Origin[n]+"/properties/"+base.Escape(k), "false_schema", o, nil, true)
		}
	}
}

// loses reports whether the rules take a constraint away from n itself.
func (c *conversion) loses(n *base.Node) bool {
	r := c.Rules
	if p, ok := n.Get("pattern"); ok {
		if _, good := r.Pattern.Fit(p.(string)); !good {
			return true
		}
	}
	if m := n.Object("patternProperties"); m != nil {
		for _, k := range m.Keys() {
			if _, good := r.Pattern.Fit(k); !good {
				return true
			}
		}
	}
	if r.MaxRepeat > 0 {
		for _, kw := range repeated {
			if v, ok := n.Get(kw); ok && jsonvalue.CompareNumbers(v.(json.Number), json.Number(strconv.Itoa(r.MaxRepeat))) > 0 {
				return true
			}
		}
	}
	if r.WholeBounds && base.Declared(n)&^base.Null != base.Integer && slices.ContainsFunc(bounds, n.Has) {
		return true
	}
	if props := n.Object("properties"); props != nil && slices.ContainsFunc(props.Keys(), func(k string) bool { return base.Never(props.Object(k)) }) {
		return true
	}
	return c.cut || r.NoTuples && n.Has("prefixItems") || r.NoBesides && n.Has("properties") && (n.Has("anyOf") || n.Has("oneOf")) ||
		slices.ContainsFunc(n.Keys(), func(kw string) bool { return r.Without[kw] })
}

var (
	repeated = []string{"minLength", "maxLength", "minItems", "maxItems"}
	bounds   = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)

// repairRequired declares what is required and not declared, and forgets what a
// closed object could never hold.
func (c *conversion) repairRequired() {
	base.Walk(c.Root, func(n *base.Node) {
		l, props := n.List("required"), n.Object("properties")
		if len(l) == 0 || props == nil || props.Len() == 0 && n != c.Root || n.Has("patternProperties") {
			return
		}
		for _, v := range l {
			name := v.(string)
			if props.Has(name) {
				continue
			}
			at := c.Origin[n] + "/required"
			switch ap, _ := n.Get("additionalProperties"); ap := ap.(type) {
			case bool:
				if !ap {
					base.RemoveRequired(n, name)
					c.Report(at, "required_unknown", name, nil, true)
					continue
				}
				props.Set(name, base.NewNode())
			case *base.Node:
				props.Set(name, c.Clone(ap))
			default:
				props.Set(name, base.NewNode())
			}
			c.Report(at, "required_undeclared", name, base.NewNode(), false)
		}
	})
}
