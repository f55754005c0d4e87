package schema

import (
	"fmt"
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// check holds the outcome against what all APIs and the rules demand. It
// trusts no pass: a defect of one must cost a tool its detail, not every tool
// its place.
func (c *conv) check() error {
	if c.err != nil {
		return c.err
	}
	if c.root.String("type") != "object" || c.root.Object("properties") == nil || combined(c.root) {
		return wrong("", "the root is no plain object schema")
	}
	k := checker{conv: c}
	k.node(c.root, "", 0)
	if k.err == nil && c.rules.Strict != nil {
		k.err = c.checkLimits()
	}
	return k.err
}

func wrong(at, format string, args ...any) error {
	return &failure{"self_check", fmt.Sprintf("%s: %s", at, fmt.Sprintf(format, args...))}
}

type checker struct {
	*conv
	err error
}

func (k *checker) fail(at, format string, args ...any) {
	if k.err == nil {
		k.err = wrong(at, format, args...)
	}
}

func (k *checker) node(n *object, at string, depth int) {
	if k.err != nil {
		return
	}
	if depth > 3*MaxDepth {
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
	each(n, func(p place, child any) any {
		switch v := child.(type) {
		case *object:
			k.node(v, p.pointer(at), depth+1)
		case bool:
			if keywords[p.keyword] != schemaOrFlag {
				k.fail(p.pointer(at), "a boolean is no schema here")
			}
		default:
			k.fail(p.pointer(at), "no schema")
		}
		return child
	})
}

func (k *checker) refs(n *object, at string) {
	v, has := n.Get("$ref")
	if !has {
		return
	}
	ref, _ := v.(string)
	switch {
	case k.rules.NoRef:
		k.fail(at, "a reference is not allowed")
	case k.target(ref) == nil:
		k.fail(at, "%q leads nowhere", ref)
	case k.rules.Strict != nil && n.Len() > 1:
		k.fail(at, "a reference has siblings")
	}
}

func (k *checker) types(n *object, at string) {
	r := k.rules
	t := declared(n)
	union := n.Has("$ref") || n.Has("anyOf") || n.Has("oneOf") || n.Has("allOf")
	_, isList := n.List("type"), n.List("type") != nil
	switch {
	case t == 0 && !union && (r.Typed || r.SingleType || r.Strict != nil):
		k.fail(at, "no type")
	case r.SingleType && isList:
		k.fail(at, "a list of types")
	case r.SingleType && n.Has("anyOf") && n.Len() > 1:
		k.fail(at, "anyOf is not alone")
	case t&tArray != 0 && n.Object("items") == nil && !(r.NoRef && r.Typed):
		k.fail(at, "an array without items")
	}
	if r.SingleType {
		if l := n.List("enum"); l != nil && (t != tString || slices.ContainsFunc(l, func(v any) bool { return kindOf(v) != tString })) {
			k.fail(at, "an enum of other things than strings")
		}
		if t != tObject && (n.Has("properties") || n.Has("required")) {
			k.fail(at, "properties of no object")
		}
		for _, v := range n.List("required") {
			if !n.Object("properties").Has(v.(string)) {
				k.fail(at, "%q is required and not declared", v)
			}
		}
	}
	if r.Strict != nil && t&tObject != 0 {
		props := n.Object("properties")
		if ap, _ := n.Get("additionalProperties"); ap != false || props == nil {
			k.fail(at, "an open object")
		} else if len(n.List("required")) != props.Len() {
			k.fail(at, "a property that is not required")
		}
	}
	if r.NoBesides && n.Has("properties") && (n.Has("anyOf") || n.Has("oneOf")) {
		k.fail(at, "properties beside a union")
	}
}

func (k *checker) constraints(n *object, at string) {
	r := k.rules
	if p, ok := n.Get("pattern"); ok {
		if s, good := r.Pattern.fit(p.(string)); !good || s != p {
			k.fail(at, "the pattern %q", p)
		}
	}
	if f := n.String("format"); f != "" && (r.Formats != nil && !r.Formats[f] || r.NotFormats[f]) {
		k.fail(at, "the format %q", f)
	}
	if m := n.Object("patternProperties"); m != nil {
		for _, p := range m.Keys() {
			if s, good := r.Pattern.fit(p); !good || s != p {
				k.fail(at, "the pattern %q", p)
			}
		}
	}
	if props := n.Object("properties"); props != nil && r.Keys != nil {
		for _, key := range props.Keys() {
			if !r.Keys.MatchString(key) {
				k.fail(at, "the key %q", key)
			}
		}
	}
}

// wellFormed reports whether the meta-schema of 2020-12 lets kw have the value v;
// schemas themselves are looked at by the walk.
func wellFormed(kw string, v any) bool {
	switch keywords[kw] {
	case text:
		return kindOf(v) == tString
	case number:
		b := bound(v)
		return b != nil && (kw != "multipleOf" || b.Sign() > 0)
	case count:
		b := bound(v)
		return b != nil && b.IsInt() && b.Sign() >= 0
	case flag:
		return kindOf(v) == tBoolean
	case list:
		return kindOf(v) == tArray
	case names:
		return distinctNames(v)
	case namesMap:
		m, ok := v.(*object)
		return ok && !slices.ContainsFunc(m.Keys(), func(k string) bool { e, _ := m.Get(k); return !distinctNames(e) })
	case schemaMap:
		return kindOf(v) == tObject
	case schemaList:
		l, ok := v.([]any)
		return ok && len(l) > 0
	case typeName:
		if s, ok := v.(string); ok {
			return typeOf(s) != 0
		}
		l, ok := v.([]any)
		return ok && len(l) > 0 && distinctNames(v) && !slices.ContainsFunc(l, func(e any) bool { return typeOf(e.(string)) == 0 })
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
func (c *conv) checkLimits() error {
	l := c.rules.Strict
	var properties, values, chars, longest int
	nodes(c.root, func(n *object) {
		for _, m := range []*object{n.Object("properties"), n.Object("$defs")} {
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
					size += len(ordered.Append(nil, v))
				}
			}
			chars += size
			if len(e) > 250 {
				longest = max(longest, size)
			}
		}
	})
	depth := c.depth(c.root, map[*object]int{})
	for _, x := range []struct {
		what      string
		got, most int
	}{{"levels", depth, l.Depth}, {"properties", properties, l.Properties}, {"enum values", values, l.EnumValues},
		{"characters of names", chars, l.NameChars}, {"characters in one long enum", longest, l.LongEnum}} {
		if x.got > x.most {
			return &failure{"strict_limit", fmt.Sprintf("%d %s; strict mode allows %d", x.got, x.what, x.most)}
		}
	}
	return nil
}

// depth counts the levels of objects below and including n; recursion counts
// once. known holds what was counted already: a schema of definitions that each
// use the next one twice has more paths than nodes.
func (c *conv) depth(n *object, known map[*object]int) int {
	if d, ok := known[n]; ok {
		return d
	}
	known[n] = 0 // while it is on the path
	deepest := 0
	if t := c.target(n.String("$ref")); t != nil {
		deepest = c.depth(t, known)
	}
	each(n, func(p place, child any) any {
		if o, ok := child.(*object); ok && p.keyword != "$defs" {
			deepest = max(deepest, c.depth(o, known))
		}
		return child
	})
	if declared(n)&tObject != 0 {
		deepest++
	}
	known[n] = deepest
	return deepest
}
