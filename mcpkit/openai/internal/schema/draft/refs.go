package draft

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

const maxInPlace = 5_000 // checks that one value may cost

// hoist moves every target of a reference to $defs at the root and rewrites the
// references, so that no later pass can leave one dangling: afterwards each
// $ref is "#" or "#/$defs/NAME". What leads nowhere becomes an open schema.
// Nothing is fetched.
func (c *conversion) hoist() {
	h := &hoister{conversion: c, slots: map[*base.Node]slot{}, anchors: map[string]*base.Node{}, ids: map[string]*base.Node{},
		resources: map[*base.Node]*base.Node{}, stubs: map[*base.Node]*base.Node{}, uris: map[*base.Node]*url.URL{}, names: map[*base.Node]string{c.Root: ""}}
	h.walk(c.Root, c.Root, "", 0)
	h.moved = c.Root.Object("$defs")
	if h.moved == nil {
		h.moved = base.NewNode()
	}
	c.Defs = h.moved
	for _, name := range h.moved.Keys() {
		if o := h.moved.Object(name); o != nil {
			h.names[o] = name
		}
	}
	if h.old = c.Root.Object("definitions"); h.old != nil {
		for _, name := range h.old.Keys() {
			v, _ := h.old.Get(name)
			fresh := h.free(name)
			h.moved.Set(fresh, v)
			if o, ok := v.(*base.Node); ok {
				h.names[o] = fresh
			}
		}
		c.Report("/definitions", "definitions_renamed", "definitions", "$defs", false)
	}
	c.Root.Delete("definitions")
	for i := 0; i < len(h.refs) && c.Err == nil; i++ { // rewriting one may find more
		h.rewrite(h.refs[i])
	}
	for _, n := range h.order {
		if n != c.Root {
			n.Delete("$defs", "definitions", "$schema")
		}
		for _, kw := range []string{"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"} {
			if v, ok := n.Get(kw); ok && (kw != "id" || base.KindOf(v) == base.String) {
				n.Delete(kw)
			}
		}
	}
	if h.moved.Len() > 0 {
		c.Root.Set("$defs", h.moved)
	} else {
		c.Root.Delete("$defs")
	}
	c.breakLoops()
}

type slot struct {
	parent *base.Node
	place  base.Place
}

type hoister struct {
	*conversion
	order     []*base.Node
	refs      []*base.Node
	slots     map[*base.Node]slot
	resources map[*base.Node]*base.Node // the resource a node belongs to
	uris      map[*base.Node]*url.URL
	anchors   map[string]*base.Node
	ids       map[string]*base.Node
	names     map[*base.Node]string     // of targets that are in their final place; "" is the root
	moved     *base.Node                // $defs as it will be
	old       *base.Node                // "definitions" as it was
	stubs     map[*base.Node]*base.Node // what stands in a moved target's old place
}

// walk records every node below n, cuts what is too deep, and finds identifiers
// and references.
func (h *hoister) walk(n, resource *base.Node, ptr string, depth int) {
	if !h.Step() {
		return
	}
	h.Origin[n] = ptr
	h.order = append(h.order, n)
	for _, kw := range []string{"$id", "id"} {
		if id := n.String(kw); id != "" && !strings.HasPrefix(id, "#") {
			if u, err := url.Parse(id); err == nil {
				if up := h.uris[resource]; up != nil {
					u = up.ResolveReference(u)
				}
				resource = n
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
			h.Report(ptr+"/"+kw, "dynamic_ref", ref, ref, false)
		} else {
			n.Delete(kw)
		}
	}
	h.resources[n] = resource
	if n.Has("$ref") {
		h.refs = append(h.refs, n)
	}
	base.Each(n, func(p base.Place, child any) any {
		o, ok := child.(*base.Node)
		if !ok {
			return child
		}
		at := p.Pointer(ptr)
		if depth >= base.MaxDepth {
			h.Report(at, "depth_limit", nil, base.NewNode(), true)
			return base.NewNode()
		}
		h.slots[o] = slot{n, p}
		h.walk(o, resource, at, depth+1)
		return o
	})
}

func (h *hoister) rewrite(n *base.Node) {
	ptr := h.Origin[n] + "/$ref"
	ref, isText := n.Get("$ref")
	text, _ := ref.(string)
	var target any
	found := false
	if isText && text != "" || ref == "" {
		target, found = h.resolve(text, h.resources[n])
	}
	switch t := target.(type) {
	case *base.Node:
		name, known := h.names[t]
		if !known {
			name = h.adopt(t, text)
		}
		to := "#"
		if name != "" {
			to = "#/$defs/" + url.PathEscape(base.Escape(name))
			if h.Target(text) == t {
				to = text // it says so already
			}
		}
		if to != text {
			h.Report(ptr, "ref_moved", text, to, false)
			n.Set("$ref", to)
		}
	case bool:
		n.Delete("$ref")
		h.Report(ptr, "ref_to_boolean", text, t, false)
		if !t {
			n.Set("not", base.NewNode())
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
		h.Report(ptr, code, ref, nil, true)
	}
}

// adopt gives a target its place in $defs and leaves a reference where it was.
// A target that is no schema position (some hide theirs under keywords of their
// own) is copied and becomes one.
func (h *hoister) adopt(t *base.Node, ref string) string {
	last := ref[strings.LastIndexAny(ref, "/#")+1:]
	if s, err := url.PathUnescape(last); err == nil {
		last = s
	}
	last = base.Unescape(last)
	if _, err := strconv.Atoi(last); err == nil || last == "" || base.Keywords[last] != base.FormUnknown {
		last = "def"
	}
	name := h.free(last)
	h.names[t] = name
	s, isNode := h.slots[t]
	if !isNode {
		copied := h.Clone(t)
		h.moved.Set(name, copied)
		h.names[copied] = name
		h.walk(copied, h.Root, strings.TrimPrefix(ref, "#"), 1)
		return name
	}
	h.moved.Set(name, t)
	stub := base.NewNode("$ref", "#/$defs/"+url.PathEscape(base.Escape(name)))
	h.Origin[stub] = h.Origin[t]
	h.resources[stub] = h.Root
	h.slots[stub] = s
	h.stubs[stub] = t
	switch s.place.Form {
	case base.FormSchemaMap:
		s.parent.Object(s.place.Keyword).Set(s.place.Name, stub)
	case base.FormSchemaList:
		s.parent.List(s.place.Keyword)[s.place.Index] = stub
	default:
		s.parent.Set(s.place.Keyword, stub)
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
func (h *hoister) resolve(ref string, resource *base.Node) (any, bool) {
	doc, fragment, _ := strings.Cut(ref, "#")
	if doc != "" {
		u, err := url.Parse(doc)
		if err != nil {
			return nil, false
		}
		if up := h.uris[resource]; up != nil {
			u = up.ResolveReference(u)
		}
		n := h.ids[u.String()]
		if n == nil {
			return nil, false
		}
		resource = n
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, false
	}
	switch {
	case fragment == "":
		return resource, true
	case fragment[0] != '/':
		if n := h.anchors[fragment]; n != nil {
			return n, true
		}
		return nil, false
	}
	if v, ok := h.pointer(resource, fragment); ok {
		return v, true
	}
	return h.pointer(h.Root, fragment)
}

// pointer follows a JSON Pointer (RFC 6901).
func (h *hoister) pointer(from *base.Node, ptr string) (any, bool) {
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
		seg = base.Unescape(seg)
		switch w := v.(type) {
		case *base.Node:
			next, ok := w.Get(seg)
			if w == h.Root && seg == "definitions" && h.old != nil {
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
		if o, ok := v.(*base.Node); ok && h.stubs[o] != nil {
			v = h.stubs[o]
		}
	}
	return v, true
}

// breakLoops opens every reference that leads back to itself without reaching
// a new part of the value (2020-12 core section 9.4.1), and refuses a schema
// in which one value would have to be checked an absurd number of times.
func (c *conversion) breakLoops() {
	const open = -1
	cost := map[*base.Node]int{} // open while a node is on the path
	var visit func(n *base.Node) int
	visit = func(n *base.Node) int {
		if v, seen := cost[n]; seen {
			return v
		}
		cost[n] = open
		sum := 1
		if ref := n.String("$ref"); ref != "" {
			if t := c.Target(ref); t != nil {
				if v := visit(t); v == open {
					c.Report(c.Origin[n]+"/$ref", "ref_loop", ref, nil, true)
					n.Delete("$ref")
				} else {
					sum += v
				}
			}
		}
		base.Each(n, func(p base.Place, child any) any {
			if o, ok := child.(*base.Node); ok && inPlace[p.Keyword] {
				sum += max(visit(o), 0)
			}
			return child
		})
		cost[n] = min(sum, maxInPlace+1)
		return cost[n]
	}
	base.Walk(c.Root, func(n *base.Node) {
		if visit(n) > maxInPlace {
			c.Fail("too_complex", "one value would be checked more than %d times", maxInPlace)
		}
	})
}

// inPlace are the keywords whose schemas apply to the same value as their node.
var inPlace = map[string]bool{"allOf": true, "anyOf": true, "oneOf": true, "not": true, "if": true, "then": true,
	"else": true, "dependentSchemas": true, "dependencies": true, "extends": true}
