package rules

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// Check holds a converted schema against what all APIs and the rules demand. It
// trusts no pass: a defect of one must cost a tool its detail, not every tool
// its place.
func Check(tree *base.Tree, r *Rules) error {
	if tree.Err != nil {
		return tree.Err
	}
	if tree.Root.String("type") != "object" || tree.Root.Object("properties") == nil || base.Combined(tree.Root) {
		return wrong("", "the root is no plain object schema")
	}
	k := checker{Tree: tree, rules: r}
	k.node(tree.Root, "", 0)
	if k.err == nil && r.Strict != nil {
		k.err = checkLimits(tree, r.Strict)
	}
	return k.err
}

func wrong(at, format string, args ...any) error {
	return &base.Failure{Code: "self_check", Message: fmt.Sprintf("%s: %s", at, fmt.Sprintf(format, args...))}
}

type checker struct {
	*base.Tree
	rules *Rules
	err   error
}

func (k *checker) fail(at, format string, args ...any) {
	if k.err == nil {
		k.err = wrong(at, format, args...)
	}
}

func (k *checker) node(n *base.Node, at string, depth int) {
	if k.err != nil {
		return
	}
	if depth > 3*base.MaxDepth {
		k.fail(at, "too deep")
		return
	}
	for _, kw := range n.Keys() {
		v, _ := n.Get(kw)
		if !wellFormed(kw, v) {
			k.fail(at, "%s is not what 2020-12 says", kw)
		}
		if k.rules.Without[kw] || k.rules.Keywords != nil && !k.rules.Keywords[kw] {
			k.fail(at, "%s is not allowed", kw)
		}
	}
	k.refs(n, at)
	k.types(n, at)
	k.constraints(n, at)
	base.Each(n, func(p base.Place, child any) any {
		switch v := child.(type) {
		case *base.Node:
			k.node(v, p.Pointer(at), depth+1)
		case bool:
			if base.Keywords[p.Keyword] != base.FormSchemaOrFlag {
				k.fail(p.Pointer(at), "a boolean is no schema here")
			}
		default:
			k.fail(p.Pointer(at), "no schema")
		}
		return child
	})
}

func (k *checker) refs(n *base.Node, at string) {
	v, has := n.Get("$ref")
	if !has {
		return
	}
	ref, _ := v.(string)
	switch {
	case k.rules.NoRef:
		k.fail(at, "a reference is not allowed")
	case k.Target(ref) == nil:
		k.fail(at, "%q leads nowhere", ref)
	case k.rules.Strict != nil && n.Len() > 1:
		k.fail(at, "a reference has siblings")
	}
}

func (k *checker) types(n *base.Node, at string) {
	r := k.rules
	t := base.Declared(n)
	union := n.Has("$ref") || n.Has("anyOf") || n.Has("oneOf") || n.Has("allOf")
	_, isList := n.List("type"), n.List("type") != nil
	switch {
	case t == 0 && !union && (r.Typed || r.SingleType || r.Strict != nil):
		k.fail(at, "no type")
	case r.SingleType && isList:
		k.fail(at, "a list of types")
	case r.SingleType && n.Has("anyOf") && n.Len() > 1:
		k.fail(at, "anyOf is not alone")
	case t&base.Array != 0 && n.Object("items") == nil && !(r.NoRef && r.Typed):
		k.fail(at, "an array without items")
	}
	if r.SingleType {
		if l := n.List("enum"); l != nil && (t != base.String || slices.ContainsFunc(l, func(v any) bool { return base.KindOf(v) != base.String })) {
			k.fail(at, "an enum of other things than strings")
		}
		if t != base.Object && (n.Has("properties") || n.Has("required")) {
			k.fail(at, "properties of no object")
		}
		for _, v := range n.List("required") {
			if !n.Object("properties").Has(v.(string)) {
				k.fail(at, "%q is required and not declared", v)
			}
		}
	}
	if r.Strict != nil && t&base.Object != 0 {
		props := n.Object("properties")
		if ap, _ := n.Get("additionalProperties"); ap != false || props == nil {
			k.fail(at, "an open object")
		} else if len(n.List("required")) != props.Len() {
			k.fail(at, "a property that is not required")
		}
	}
	if r.NoEmptyEnum && slices.Contains(n.List("enum"), any("")) {
		k.fail(at, "an enum with the empty string")
	}
	if props := n.Object("properties"); r.NoEmpty && at != "" && t == base.Object && (props == nil || props.Len() == 0) {
		k.fail(at, "an object without properties")
	}
	if r.TypeInUnion && at != "" && t != 0 && (n.Has("anyOf") || n.Has("oneOf")) {
		k.fail(at, "a type beside a union")
	}
	if r.NoBesides && n.Has("properties") && (n.Has("anyOf") || n.Has("oneOf")) {
		k.fail(at, "properties beside a union")
	}
}

func (k *checker) constraints(n *base.Node, at string) {
	r := k.rules
	if p, ok := n.Get("pattern"); ok {
		if s, good := r.Pattern.Fit(p.(string)); !good || s != p {
			k.fail(at, "the pattern %q", p)
		}
	}
	if f := n.String("format"); f != "" && (r.Formats != nil && !r.Formats[f] || r.NotFormats[f]) {
		k.fail(at, "the format %q", f)
	}
	if m := n.Object("patternProperties"); m != nil {
		for _, p := range m.Keys() {
			if s, good := r.Pattern.Fit(p); !good || s != p {
				k.fail(at, "the pattern %q", p)
			}
		}
	}
	k.names(n.Object("properties"), r.Keys, at, "key")
	k.names(n.Object("$defs"), r.DefNames, at, "definition")
}

// names holds the keys of m to what they may be.
func (k *checker) names(m *base.Node, allowed *regexp.Regexp, at, what string) {
	if m == nil || allowed == nil {
		return
	}
	for _, name := range m.Keys() {
		if !allowed.MatchString(name) {
			k.fail(at, "the %s %q", what, name)
		}
	}
}

// wellFormed reports whether the meta-schema of 2020-12 lets kw have the value v;
// schemas themselves are looked at by the walk.
func wellFormed(kw string, v any) bool {
	switch base.Keywords[kw] {
	case base.FormText:
		return base.KindOf(v) == base.String
	case base.FormNumber:
		b := base.Bound(v)
		return b != nil && (kw != "multipleOf" || b.Sign() > 0)
	case base.FormCount:
		b := base.Bound(v)
		return b != nil && b.IsInt() && b.Sign() >= 0
	case base.FormFlag:
		return base.KindOf(v) == base.Boolean
	case base.FormList:
		return base.KindOf(v) == base.Array
	case base.FormNames:
		return distinctNames(v)
	case base.FormNamesMap:
		m, ok := v.(*base.Node)
		return ok && !slices.ContainsFunc(m.Keys(), func(k string) bool { e, _ := m.Get(k); return !distinctNames(e) })
	case base.FormSchemaMap:
		return base.KindOf(v) == base.Object
	case base.FormSchemaList:
		l, ok := v.([]any)
		return ok && len(l) > 0
	case base.FormType:
		if s, ok := v.(string); ok {
			return base.TypeNamed(s) != 0
		}
		l, ok := v.([]any)
		return ok && len(l) > 0 && distinctNames(v) && !slices.ContainsFunc(l, func(e any) bool { return base.TypeNamed(e.(string)) == 0 })
	}
	return true
}

func distinctNames(v any) bool {
	l, ok := v.([]any)
	seen := map[string]bool{}
	for _, e := range l {
		s, isText := e.(string)
		if !isText || seen[s] {
			return false
		}
		seen[s] = true
	}
	return ok
}

// checkLimits holds a strict schema against the limits of strict mode.
func checkLimits(tree *base.Tree, l *Limits) error {
	var properties, values, chars, longest int
	base.Walk(tree.Root, func(n *base.Node) {
		for _, m := range []*base.Node{n.Object("properties"), n.Object("$defs")} {
			if m == nil {
				continue
			}
			for _, k := range m.Keys() {
				chars += len([]rune(k))
			}
		}
		if p := n.Object("properties"); p != nil {
			properties += p.Len()
		}
		if e := n.List("enum"); e != nil {
			values += len(e)
			size := 0
			for _, v := range e {
				if s, ok := v.(string); ok {
					size += len([]rune(s))
				} else {
					size += len(jsonvalue.Append(nil, v))
				}
			}
			chars += size
			if len(e) > 250 {
				longest = max(longest, size)
			}
		}
	})
	depth := depth(tree, tree.Root, map[*base.Node]int{})
	for _, x := range []struct {
		what      string
		got, most int
	}{{"levels", depth, l.Depth}, {"properties", properties, l.Properties}, {"enum values", values, l.EnumValues},
		{"characters of names", chars, l.NameChars}, {"characters in one long enum", longest, l.LongEnum}} {
		if x.got > x.most {
			return &base.Failure{Code: "strict_limit", Message: fmt.Sprintf("%d %s; strict mode allows %d", x.got, x.what, x.most)}
		}
	}
	return nil
}

// depth counts the levels of objects below and including n; recursion counts
// once. known holds what was counted already: a schema of definitions that each
// use the next one twice has more paths than nodes.
func depth(tree *base.Tree, n *base.Node, known map[*base.Node]int) int {
	if d, ok := known[n]; ok {
		return d
	}
	known[n] = 0 // while it is on the path
	deepest := 0
	if t := tree.Target(n.String("$ref")); t != nil {
		deepest = depth(tree, t, known)
	}
	base.Each(n, func(p base.Place, child any) any {
		if o, ok := child.(*base.Node); ok && p.Keyword != "$defs" {
			deepest = max(deepest, depth(tree, o, known))
		}
		return child
	})
	if base.Declared(n)&base.Object != 0 {
		deepest++
	}
	known[n] = deepest
	return deepest
}
