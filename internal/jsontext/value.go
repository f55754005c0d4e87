package jsontext

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits bound what [Parse] takes; zero means the default.
type Limits struct {
	Depth int // of nesting; default MaxDepth
	// Strict refuses what two readers may take for two things: an object that has a
	// key twice, of which the last value counts otherwise, and text that is no text.
	Strict bool
}

// ErrDuplicate is the error of an object that has a key twice.
var ErrDuplicate = errors.New("key appears twice")

var (
	errHalf = errors.New("a string holds half a character, a surrogate escape without its other half")
	errText = errors.New("not valid UTF-8")
)

// Decode reads one JSON value as encoding/json reads it into an any, but with numbers
// as json.Number: nil, bool, string, json.Number, []any or map[string]any.
func Decode(raw []byte) (any, error) {
	p := parser{scanner: scanner{b: raw}, maps: true, limits: Limits{Depth: MaxDepth}}
	return p.whole()
}

// Parse reads one JSON value with its objects in the order of their keys: nil, bool,
// string, json.Number, []any or *[Object].
func Parse(raw []byte, l Limits) (any, error) {
	if l.Depth == 0 {
		l.Depth = MaxDepth
	}
	if l.Strict {
		switch err := Check(raw); {
		case err != nil:
			return nil, err
		case !utf8.Valid(raw):
			return nil, errText
		case LoneSurrogate(raw):
			return nil, errHalf
		}
	}
	p := parser{scanner: scanner{b: raw}, limits: l}
	return p.whole()
}

// parser makes values of a text.
type parser struct {
	scanner
	maps   bool // objects become maps
	limits Limits
}

// whole is the one value of the text.
func (p *parser) whole() (any, error) {
	v, err := p.parse(0)
	switch {
	case err != nil:
		return nil, err
	case !p.end():
		return nil, p.fault()
	}
	return v, nil
}

// parse is the value that comes next, inside depth others.
func (p *parser) parse(depth int) (any, error) {
	c := p.peek()
	if depth == p.limits.Depth && (c == '{' || c == '[') {
		p.tooDeep = true
		return nil, p.fault()
	}
	from := p.i
	switch {
	case c == '{' && p.maps:
		members := map[string]any{}
		return members, p.members(depth, func(name string, value any) error {
			members[name] = value
			return nil
		})
	case c == '{':
		o := NewObject()
		return o, p.members(depth, func(name string, value any) error {
			if p.limits.Strict && o.Has(name) {
				return fmt.Errorf("%w: %q", ErrDuplicate, name)
			}
			o.Set(name, value)
			return nil
		})
	case c == '[':
		return p.list(depth)
	case !p.scalar():
		return nil, p.fault()
	case c == '"':
		return String(p.b[from:p.i]), nil
	case c == 't':
		return true, nil
	case c == 'f':
		return false, nil
	case c == 'n':
		return nil, nil
	}
	return json.Number(p.b[from:p.i]), nil
}

// members gives the members of the object that comes next to f.
func (p *parser) members(depth int, f func(name string, value any) error) error {
	p.i++
	if p.take('}') {
		return nil
	}
	for {
		literal, ok := p.name()
		if !ok {
			return p.fault()
		}
		value, err := p.parse(depth + 1)
		if err == nil {
			err = f(String(literal), value)
		}
		switch {
		case err != nil:
			return err
		case p.take('}'):
			return nil
		case !p.take(','):
			return p.fault()
		}
	}
}

// list is the array that comes next.
func (p *parser) list(depth int) (any, error) {
	p.i++
	list := []any{}
	if p.take(']') {
		return list, nil
	}
	for {
		value, err := p.parse(depth + 1)
		if err != nil {
			return nil, err
		}
		switch list = append(list, value); {
		case p.take(']'):
			return list, nil
		case !p.take(','):
			return nil, p.fault()
		}
	}
}

// Append appends v, of what [Parse] makes or a json.RawMessage, as compact JSON.
func Append(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		if v {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	case json.Number:
		return append(b, v...)
	case string:
		return AppendQuote(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = Append(b, e)
		}
		return append(b, ']')
	case *Object:
		b = append(b, '{')
		for i, k := range v.keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(AppendQuote(b, k), ':')
			b = Append(b, v.vals[k])
		}
		return append(b, '}')
	case json.RawMessage:
		return append(b, v...)
	}
	panic(fmt.Sprintf("jsontext: no JSON value: %T", v))
}

// Plain turns v, of what [Parse] makes, into what [Decode] makes.
func Plain(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Plain(e)
		}
		return out
	case *Object:
		out := make(map[string]any, len(v.keys))
		for k, e := range v.vals {
			out[k] = Plain(e)
		}
		return out
	}
	return v
}

// Equal reports whether a and b, of what [Parse] makes, are the same JSON value: keys
// in any order, numbers by value.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case *Object:
		b, ok := b.(*Object)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for k, v := range a.vals {
			if w, ok := b.vals[k]; !ok || !Equal(v, w) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && CompareNumbers(a, b) == 0
	}
	return a == b
}

// maxExponentDigits keeps 1e999999999 from becoming a gigabyte of digits.
const maxExponentDigits = 3

// Rat is n as an exact fraction, or nil when its exponent is absurd.
func Rat(n json.Number) *big.Rat {
	if i := strings.IndexAny(string(n), "eE"); i >= 0 && len(strings.TrimLeft(string(n[i+1:]), "+-0")) > maxExponentDigits {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return nil
	}
	return r
}

// CompareNumbers orders two numbers by value; numbers too large to compute are
// ordered as text.
func CompareNumbers(a, b json.Number) int {
	if a == b {
		return 0
	}
	x, y := Rat(a), Rat(b)
	if x == nil || y == nil {
		return strings.Compare(string(a), string(b))
	}
	return x.Cmp(y)
}
