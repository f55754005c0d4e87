package base

import (
	"encoding/json"
	"math/big"
	"math/bits"
	"slices"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

// Takes is the set of types that a node lets through.
func (tree *Tree) Takes(n *Node, depth int) Types {
	t := AllTypes
	if depth > 32 {
		return t
	}
	if dt := Declared(n); dt != 0 {
		t = dt
		if n.Has("nullable") {
			t |= Null
		}
	}
	narrow := func(l []any) {
		var some Types
		for _, v := range l {
			some |= KindOf(v)
		}
		t &= some
	}
	if l := n.List("enum"); l != nil {
		narrow(l)
	}
	if v, ok := n.Get("const"); ok {
		narrow([]any{v})
	}
	if o := tree.Target(n.String("$ref")); o != nil {
		t &= tree.Takes(o, depth+1)
	}
	for _, e := range n.List("allOf") {
		t &= tree.Takes(e.(*Node), depth+1)
	}
	for _, kw := range []string{"anyOf", "oneOf"} {
		if l := n.List(kw); l != nil {
			var some Types
			for _, e := range l {
				some |= tree.Takes(e.(*Node), depth+1)
			}
			t &= some
		}
	}
	return t
}

// Types is a set of JSON types.
type Types uint8

const (
	String Types = 1 << iota
	Integer
	Number // includes integers
	Boolean
	Object
	Array
	Null

	AllTypes = String | Integer | Number | Boolean | Object | Array | Null
)

var typeNames = []string{"string", "integer", "number", "boolean", "object", "array", "null"}

func TypeNamed(name string) Types {
	if i := slices.Index(typeNames, name); i >= 0 {
		return 1 << i
	}
	return 0
}

// Names lists the set's types; integer is left out where number is in.
func (t Types) Names() []string {
	var out []string
	for i, name := range typeNames {
		if t&(1<<i) != 0 && !(name == "integer" && t&Number != 0) {
			out = append(out, name)
		}
	}
	return out
}

func (t Types) Single() bool { return bits.OnesCount8(uint8(t)) == 1 }

// Keyword is t as the value of "type": a string, or a list.
func (t Types) Keyword() any {
	n := t.Names()
	if len(n) == 1 {
		return n[0]
	}
	l := make([]any, len(n))
	for i, s := range n {
		l[i] = s
	}
	return l
}

// Declared is the set that n's own "type" names, or 0 when it has none.
func Declared(n *Node) Types {
	switch v, _ := n.Get("type"); v := v.(type) {
	case string:
		return TypeNamed(v)
	case []any:
		var t Types
		for _, e := range v {
			s, _ := e.(string)
			t |= TypeNamed(s)
		}
		return t
	}
	return 0
}

// KindOf is the type of a value; a whole number is an integer.
func KindOf(v any) Types {
	switch v := v.(type) {
	case nil:
		return Null
	case bool:
		return Boolean
	case string:
		return String
	case json.Number:
		if r := jsonvalue.Rat(v); r != nil && r.IsInt() {
			return Integer
		}
		return Number
	case []any:
		return Array
	}
	return Object
}

// Allows reports whether a value of type k is of one of the types t.
func (t Types) Allows(k Types) bool { return t&k != 0 || k == Integer && t&Number != 0 }

// Bound is a number as a fraction; nil for what is none.
func Bound(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	return jsonvalue.Rat(n)
}
