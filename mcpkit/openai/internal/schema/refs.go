package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// hoist moves every target of a reference to $defs at the root and rewrites the
// references, so that no later pass can leave one dangling: afterwards each
// $ref is "#" or "#/$defs/NAME". What leads nowhere becomes an open schema.
// Nothing is fetched.
func (c *conv) hoist() {
	h := &hoister{conv: c, slots: map[*object]slot{}, anchors: map[string]*object{}, ids: map[string]*object{},
		base: map[*object]*object{}, stubs: map[*object]*object{}, uris: map[*object]*url.URL{}, names: map[*object]string{c.root: ""}}
	h.walk(c.root, c.root, "", 0)
	h.moved = c.root.Object("$defs")
	if h.moved == nil {
		h.moved = newObject()
	}
	c.defs = h.moved
	for _, name := range h.moved.Keys() {
		if o := h.moved.Object(name); o != nil {
			h.names[o] = name
		}
	}
	if h.old = c.root.Object("definitions"); h.old != nil {
		for _, name := range h.old.Keys() {
			v, _ := h.old.Get(name)
			fresh := h.free(name)
			h.moved.Set(fresh, v)
			if o, ok := v.(*object); ok {
				h.names[o] = fresh
			}
		}
		c.change("/definitions", "definitions_renamed", "definitions", "$defs", false)
	}
	c.root.Delete("definitions")
	for i := 0; i < len(h.refs) && c.err == nil; i++ { // rewriting one may find more
		h.rewrite(h.refs[i])
	}
	for _, n := range h.order {
		if n != c.root {
			n.Delete("$defs", "definitions", "$schema")
		}
		for _, kw := range []string{"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"} {
			if v, ok := n.Get(kw); ok && (kw != "id" || kindOf(v) == tString) {
				n.Delete(kw)
			}
		}
	}
	if h.moved.Len() > 0 {
		c.root.Set("$defs", h.moved)
	} else {
		c.root.Delete("$defs")
	}
	c.breakLoops()
}

type slot struct {
	parent *object
	place  place
}

type hoister struct {
	*conv
	order   []*object
	refs    []*object
	slots   map[*object]slot
	base    map[*object]*object // the resource a node belongs to
	uris    map[*object]*url.URL
	anchors map[string]*object
	ids     map[string]*object
	names   map[*object]string  // of targets that are in their final place; "" is the root
	moved   *object             // $defs as it will be
	old     *object             // "definitions" as it was
	stubs   map[*object]*object // what stands in a moved target's old place
}

// walk records every node below n, cuts what is too deep, and finds identifiers
// and references.
func (h *hoister) walk(n, base *object, ptr string, depth int) {
	if !h.step() {
		return
	}
	h.origin[n] = ptr
	h.order = append(h.order, n)
	for _, kw := range []string{"$id", "id"} {
		if id := n.String(kw); id != "" && !strings.HasPrefix(id, "#") {
			if u, err := url.Parse(id); err == nil {
				if up := h.uris[base]; up != nil {
					u = up.ResolveReference(u)
				}
				base = n
				h.uris[n] = u
				h.ids[strings.TrimSuffix(u.String(), "#")] = n
			}
		} else if id != "" {
			h.anchors[id[1:]] = n
		}
	}
	for _, kw := range []string{"$anchor", "$dynamicAnchor"} {
		if a := n.String(kw); a != "" && h.anchors[a] == nil {
			h.anchors[a] = n
		}
	}
	for _, kw := range []string{"$dynamicRef", "$recursiveRef"} {
		if ref := n.String(kw); ref != "" && !n.Has("$ref") {
			n.Rename(kw, "$ref")
			h.change(ptr+"/"+kw, "dynamic_ref", ref, ref, false)
		} else {
			n.Delete(kw)
		}
	}
	h.base[n] = base
	if n.Has("$ref") {
		h.refs = append(h.refs, n)
	}
	each(n, func(p place, child any) any {
		o, ok := child.(*object)
		if !ok {
			return child
		}
		at := p.pointer(ptr)
		if depth >= MaxDepth {
			h.change(at, "depth_limit", nil, newObject(), true)
			return newObject()
		}
		h.slots[o] = slot{n, p}
		h.walk(o, base, at, depth+1)
		return o
	})
}

func (h *hoister) rewrite(n *object) {
	ptr := h.origin[n] + "/$ref"
	ref, isText := n.Get("$ref")
	text, _ := ref.(string)
	var target any
	found := false
	if isText && text != "" || ref == "" {
		target, found = h.resolve(text, h.base[n])
	}
	switch t := target.(type) {
	case *object:
		name, known := h.names[t]
		if !known {
			name = h.adopt(t, text)
		}
		to := "#"
		if name != "" {
			to = "#/$defs/" + url.PathEscape(escape(name))
			if h.target(text) == t {
				to = text // it says so already
			}
		}
		if to != text {
			h.change(ptr, "ref_moved", text, to, false)
			n.Set("$ref", to)
		}
	case bool:
		n.Delete("$ref")
		h.change(ptr, "ref_to_boolean", text, t, false)
		if !t {
			n.Set("not", newObject())
		}
	default:
		code := "ref_invalid"
		switch {
		case isText && !found && strings.Contains(text, "://"):
			code = "ref_external"
		case !found:
			code = "ref_unresolved"
		}
		n.Delete("$ref")
		h.change(ptr, code, ref, nil, true)
	}
}

// adopt gives a target its place in $defs and leaves a reference where it was.
// A target that is no schema position (some hide theirs under keywords of their
// own) is copied and becomes one.
func (h *hoister) adopt(t *object, ref string) string {
	last := ref[strings.LastIndexAny(ref, "/#")+1:]
	if s, err := url.PathUnescape(last); err == nil {
		last = s
	}
	last = unescape(last)
	if _, err := strconv.Atoi(last); err == nil || last == "" || keywords[last] != unknown {
		last = "def"
	}
	name := h.free(last)
	h.names[t] = name
	s, isNode := h.slots[t]
	if !isNode {
		copied := h.clone(t)
		h.moved.Set(name, copied)
		h.names[copied] = name
		h.walk(copied, h.root, strings.TrimPrefix(ref, "#"), 1)
		return name
	}
	h.moved.Set(name, t)
	stub := newObject("$ref", "#/$defs/"+url.PathEscape(escape(name)))
	h.origin[stub] = h.origin[t]
	h.base[stub] = h.root
	h.slots[stub] = s
	h.stubs[stub] = t
	switch s.place.form {
	case schemaMap:
		s.parent.Object(s.place.keyword).Set(s.place.name, stub)
	case schemaList:
		s.parent.List(s.place.keyword)[s.place.index] = stub
	default:
		s.parent.Set(s.place.keyword, stub)
	}
	return name
}

// free is name, or name with a number, as a key that $defs does not have.
func (h *hoister) free(name string) string {
	fresh := name
	for i := 2; h.moved.Has(fresh); i++ {
		fresh = name + "_" + strconv.Itoa(i)
	}
	return fresh
}

// resolve finds what ref means inside the document (2020-12 core section 8.2).
func (h *hoister) resolve(ref string, base *object) (any, bool) {
	doc, fragment, _ := strings.Cut(ref, "#")
	if doc != "" {
		u, err := url.Parse(doc)
		if err != nil {
			return nil, false
		}
		if up := h.uris[base]; up != nil {
			u = up.ResolveReference(u)
		}
		n := h.ids[u.String()]
		if n == nil {
			return nil, false
		}
		base = n
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, false
	}
	switch {
	case fragment == "":
		return base, true
	case fragment[0] != '/':
		if n := h.anchors[fragment]; n != nil {
			return n, true
		}
		return nil, false
	}
	if v, ok := h.pointer(base, fragment); ok {
		return v, true
	}
	return h.pointer(h.root, fragment)
}

// pointer follows a JSON Pointer (RFC 6901).
func (h *hoister) pointer(from *object, ptr string) (any, bool) {
	var v any = from
	for ptr != "" {
		if ptr[0] != '/' {
			return nil, false
		}
		var seg string
		seg, ptr, _ = strings.Cut(ptr[1:], "/")
		if ptr != "" {
			ptr = "/" + ptr
		}
		seg = unescape(seg)
		switch w := v.(type) {
		case *object:
			next, ok := w.Get(seg)
			if w == h.root && seg == "definitions" && h.old != nil {
				next, ok = h.old, true
			}
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(seg)
			if err != nil || i < 0 || i >= len(w) {
				return nil, false
			}
			v = w[i]
		default:
			return nil, false
		}
		if o, ok := v.(*object); ok && h.stubs[o] != nil {
			v = h.stubs[o]
		}
	}
	return v, true
}

func unescape(segment string) string {
	return strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
}

// target is the node that a reference means after hoist, or nil.
func (c *conv) target(ref string) *object {
	if ref == "#" {
		return c.root
	}
	name, ok := strings.CutPrefix(ref, "#/$defs/")
	if !ok || c.defs == nil {
		return nil
	}
	name, err := url.PathUnescape(name)
	if err != nil {
		return nil
	}
	return c.defs.Object(unescape(name))
}

// breakLoops opens every reference that leads back to itself without reaching
// a new part of the value (2020-12 core section 9.4.1), and refuses a schema
// in which one value would have to be checked an absurd number of times.
func (c *conv) breakLoops() {
	const open = -1
	cost := map[*object]int{} // open while a node is on the path
	var visit func(n *object) int
	visit = func(n *object) int {
		if v, seen := cost[n]; seen {
			return v
		}
		cost[n] = open
		sum := 1
		if ref := n.String("$ref"); ref != "" {
			if t := c.target(ref); t != nil {
				if v := visit(t); v == open {
					c.change(c.origin[n]+"/$ref", "ref_loop", ref, nil, true)
					n.Delete("$ref")
				} else {
					sum += v
				}
			}
		}
		each(n, func(p place, child any) any {
			if o, ok := child.(*object); ok && inPlace[p.keyword] {
				sum += max(visit(o), 0)
			}
			return child
		})
		cost[n] = min(sum, maxInPlace+1)
		return cost[n]
	}
	nodes(c.root, func(n *object) {
		if visit(n) > maxInPlace {
			c.fail("too_complex", "one value would be checked more than %d times", maxInPlace)
		}
	})
}

// inPlace are the keywords whose schemas apply to the same value as their node.
var inPlace = map[string]bool{"allOf": true, "anyOf": true, "oneOf": true, "not": true, "if": true, "then": true,
	"else": true, "dependentSchemas": true, "dependencies": true, "extends": true}
