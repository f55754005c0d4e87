package schema

import (
	"encoding/json"
	"math/big"
	"math/bits"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// types is a set of JSON types.
type types uint8

const (
	tString types = 1 << iota
	tInteger
	tNumber // includes integers
	tBoolean
	tObject
	tArray
	tNull

	allTypes = tString | tInteger | tNumber | tBoolean | tObject | tArray | tNull
)

var typeNames = []string{"string", "integer", "number", "boolean", "object", "array", "null"}

func typeOf(name string) types {
	if i := slices.Index(typeNames, name); i >= 0 {
		return 1 << i
	}
	return 0
}

// names lists the set's types; integer is left out where number is in.
func (t types) names() []string {
	var out []string
	for i, name := range typeNames {
		if t&(1<<i) != 0 && !(name == "integer" && t&tNumber != 0) {
			out = append(out, name)
		}
	}
	return out
}

func (t types) single() bool { return bits.OnesCount8(uint8(t)) == 1 }

// keyword is t as the value of "type": a string, or a list.
func (t types) keyword() any {
	n := t.names()
	if len(n) == 1 {
		return n[0]
	}
	l := make([]any, len(n))
	for i, s := range n {
		l[i] = s
	}
	return l
}

// declared is the set that n's own "type" names, or 0 when it has none.
func declared(n *object) types {
	switch v, _ := n.Get("type"); v := v.(type) {
	case string:
		return typeOf(v)
	case []any:
		var t types
		for _, e := range v {
			s, _ := e.(string)
			t |= typeOf(s)
		}
		return t
	}
	return 0
}

// kindOf is the type of a value; a whole number is an integer.
func kindOf(v any) types {
	switch v := v.(type) {
	case nil:
		return tNull
	case bool:
		return tBoolean
	case string:
		return tString
	case json.Number:
		if r := ordered.Rat(v); r != nil && r.IsInt() {
			return tInteger
		}
		return tNumber
	case []any:
		return tArray
	}
	return tObject
}

// allows reports whether a value of type k is of one of the types t.
func (t types) allows(k types) bool { return t&k != 0 || k == tInteger && t&tNumber != 0 }

// aliases are names of types in the languages that servers are written in.
var aliases = map[string]string{
	"int": "integer", "int32": "integer", "int64": "integer", "uint": "integer", "long": "integer", "bigint": "integer",
	"float": "number", "float32": "number", "float64": "number", "double": "number", "decimal": "number",
	"str": "string", "text": "string", "char": "string",
	"bool": "boolean",
	"dict": "object", "map": "object", "struct": "object", "record": "object", "hash": "object",
	"list": "array", "tuple": "array", "set": "array", "slice": "array",
	"none": "null", "nil": "null", "undefined": "null", "nonetype": "null",
}

// readType makes a type name of JSON Schema of s; alias says that s was none.
func readType(s string) (t types, alias bool) {
	if t := typeOf(s); t != 0 {
		return t, false
	}
	low := strings.ToLower(strings.TrimSpace(s))
	if a, ok := aliases[low]; ok {
		low = a
	}
	return typeOf(low), true
}

// bound is a number as a fraction; nil for what is none.
func bound(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	return ordered.Rat(n)
}

// shifted is a whole number plus by, digit for digit.
func shifted(v any, by int64) json.Number {
	r := new(big.Int).Add(bound(v).Num(), big.NewInt(by))
	return json.Number(r.String())
}
