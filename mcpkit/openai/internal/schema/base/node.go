package base

import "slices"

// ClosedBeside reports whether n limits the keys that its properties do not name.
func ClosedBeside(n *Node) bool {
	v, ok := n.Get("additionalProperties")
	return ok && v != true
}

// HasName reports whether a list of names, such as the value of "required",
// holds name.
func HasName(l []any, name string) bool {
	for _, v := range l {
		if v == name {
			return true
		}
	}
	return false
}

// RemoveRequired takes name out of n's "required".
func RemoveRequired(n *Node, name string) {
	l := n.List("required")
	if !HasName(l, name) {
		return
	}
	out := []any{}
	for _, v := range l {
		if v != name {
			out = append(out, v)
		}
	}
	n.Set("required", out)
}

// Never reports whether a node can fit no value: {"not":{}}.
func Never(n *Node) bool {
	v, ok := n.Get("not")
	if !ok {
		return false
	}
	if v == true {
		return true
	}
	o, isObject := v.(*Node)
	return isObject && Open(o)
}

// Open reports whether a node constrains nothing.
func Open(n *Node) bool {
	for _, kw := range n.Keys() {
		if !Annotations[kw] {
			return false
		}
	}
	return true
}

// TypeByValues gives a node the types that its values have.
func (tree *Tree) TypeByValues(n *Node, l []any) {
	var t Types
	for _, v := range l {
		t |= KindOf(v)
	}
	n.Set("type", t.Keyword())
	tree.Report(tree.Origin[n]+"/type", "type_inferred", nil, t.Keyword(), false)
}

// Combinators are the keywords that no API takes at the root of parameters.
var Combinators = []string{"$ref", "allOf", "anyOf", "oneOf", "not", "enum", "const"}

// Combined reports whether n has any of [Combinators].
func Combined(n *Node) bool {
	return slices.ContainsFunc(Combinators, n.Has)
}
