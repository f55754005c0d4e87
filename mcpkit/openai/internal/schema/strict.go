package schema

import "fmt"

// strictUnsupported are the keywords that strict mode does not take and whose
// loss a note makes up for.
var strictUnsupported = []string{"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "propertyNames",
	"unevaluatedItems", "unevaluatedProperties", "contains", "minContains", "maxContains", "uniqueItems",
	"minProperties", "maxProperties", "minLength", "maxLength", "default", "contentSchema", "contentMediaType",
	"contentEncoding", "examples", "readOnly", "writeOnly", "deprecated", "$comment", "nullable"}

// strictly brings the schema into strict mode, where every object is closed and
// every property required. What that would mangle fails, and the tool is
// offered without strict mode.
func (c *conv) strictly() {
	if c.bare {
		c.notStrict("/properties", "an object that takes any key")
	}
	c.rewriteAll(c.mergeExact)
	if c.defs != nil {
		c.prune(set(c.defs.Keys()...))
	}
	nodes(c.root, c.strictNode)
	if c.err == nil {
		nodes(c.root, c.close)
	}
}

func (c *conv) notStrict(at, format string, args ...any) {
	c.fail("strict", "%s: %s", at, fmt.Sprintf(format, args...))
}

// mergeExact makes one node of an intersection, and of a reference with
// neighbours, or fails.
func (c *conv) mergeExact(n *object) *object {
	at := c.origin[n]
	if l := n.List("allOf"); l != nil {
		out := n.Shallow()
		out.Delete("allOf")
		c.origin[out] = at
		for _, v := range l {
			part := v.(*object)
			for seen := 0; part.Len() == 1 && part.Has("$ref") && len(l)+out.Len() > 1; seen++ {
				t := c.target(part.String("$ref"))
				if t == nil || t.Has("allOf") || seen > MaxDepth {
					c.notStrict(at, "an intersection of references")
					return n
				}
				part = c.clone(t)
			}
			if !c.intersect(out, part, true) {
				c.notStrict(at, "an intersection that is not one object")
				return n
			}
		}
		c.change(at+"/allOf", "allof_merged", l, nil, false)
		n = out
	}
	for seen := 0; n.Has("$ref") && n.Len() > 1; seen++ {
		t := c.target(n.String("$ref"))
		if t == nil || t == c.root || seen > MaxDepth {
			c.notStrict(at, "a reference with neighbours")
			return n
		}
		out := c.clone(t)
		rest := n.Shallow()
		rest.Delete("$ref")
		for _, kw := range rest.Keys() {
			if v, _ := rest.Get(kw); annotations[kw] {
				out.Set(kw, v)
				rest.Delete(kw)
			}
		}
		if !c.intersect(out, rest, true) {
			c.notStrict(at, "a reference with neighbours")
			return n
		}
		c.change(at+"/$ref", "ref_inlined", n.String("$ref"), nil, false)
		c.origin[out] = at
		n = out
	}
	if (n.Has("anyOf") || n.Has("oneOf")) && (n.Has("properties") || declared(n) == tObject) {
		return c.flatten(n, nil, "nested")
	}
	return n
}

// strictNode removes what strict mode does not know.
func (c *conv) strictNode(n *object) {
	if c.err != nil {
		return
	}
	at := c.origin[n]
	for _, kw := range strictUnsupported {
		c.remove(n, kw, "keyword_removed")
	}
	if l := n.List("oneOf"); l != nil {
		if n.Has("anyOf") {
			c.notStrict(at, "two unions at once")
			return
		}
		n.Rename("oneOf", "anyOf")
		c.change(at+"/oneOf", "oneof_to_anyof", l, l, true)
	}
	if v, ok := n.Get("const"); ok {
		n.Delete("const")
		n.Set("enum", []any{v})
		c.change(at+"/const", "const_to_enum", v, []any{v}, false)
	}
	if l := n.List("enum"); l != nil && declared(n) == 0 {
		c.typeByValues(n, l)
	}
	switch {
	case n.Has("prefixItems"):
		c.notStrict(at, "a tuple")
	case n.Has("patternProperties"):
		c.notStrict(at, "a map")
	case closedBeside(n) && n.Object("additionalProperties") != nil, openExplicitly(n):
		c.notStrict(at, "a map")
	case declared(n) == 0 && !n.Has("$ref") && !n.Has("anyOf"):
		c.notStrict(at, "no type")
	case declared(n)&tObject != 0 && !n.Has("properties") && !closedBeside(n):
		c.notStrict(at, "an object that takes any key")
	}
}

func openExplicitly(n *object) bool {
	v, ok := n.Get("additionalProperties")
	return ok && v == true
}

// typeByValues gives a node the types that its values have.
func (c *conv) typeByValues(n *object, l []any) {
	var t types
	for _, v := range l {
		t |= kindOf(v)
	}
	n.Set("type", t.keyword())
	c.change(c.origin[n]+"/type", "type_inferred", nil, t.keyword(), false)
}

// close requires every property; what may be left out may be null instead.
func (c *conv) close(n *object) {
	if declared(n)&tObject == 0 {
		return
	}
	at := c.origin[n]
	props := n.Object("properties")
	if props == nil {
		props = newObject()
		n.Set("properties", props)
	}
	if v, ok := n.Get("additionalProperties"); !ok || v != false {
		n.Set("additionalProperties", false)
		c.change(at+"/additionalProperties", "strict_closed", v, false, true)
	}
	l := n.List("required")
	all := make([]any, 0, props.Len())
	nulls, maybe := map[string]bool{}, map[string]bool{}
	for _, k := range props.Keys() {
		all = append(all, k)
		if containsName(l, k) {
			continue
		}
		p := props.Object(k)
		if c.takes(p, 0)&tNull == 0 {
			nulls[k] = true
			props.Set(k, c.orNull(p))
		} else {
			maybe[k] = true
		}
		c.change(at+"/properties/"+escape(k), "strict_required", nil, nil, false)
	}
	n.Set("required", all)
	if len(nulls)+len(maybe) > 0 {
		c.hints[n] = &hint{nulls: nulls, maybe: maybe}
	}
}

// orNull is p with null.
func (c *conv) orNull(p *object) *object {
	null := newObject("type", "null")
	if p.Has("$ref") {
		out := newObject("anyOf", []any{p, null})
		c.origin[out] = c.origin[p]
		return out
	}
	if l := p.List("anyOf"); l != nil && !p.Has("type") {
		p.Set("anyOf", append(l[:len(l):len(l)], null))
		return p
	}
	if l := p.List("enum"); l != nil {
		p.Set("enum", append(l[:len(l):len(l)], nil))
	}
	p.Set("type", (declared(p) | tNull).keyword())
	return p
}
