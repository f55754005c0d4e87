// Package jsonvalue makes Go values of JSON text, and text of values that programs
// have changed. Objects can keep the order of their keys, and numbers keep their
// digits:
//
//	v, err := jsonvalue.Parse([]byte(`{"b":9007199254740993,"a":[]}`), jsonvalue.Limits{})
//	jsonvalue.Append(nil, v) // {"b":9007199254740993,"a":[]}
//
// Who only needs a part of a text takes it with package jsontext, which makes no
// values.
package jsonvalue

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/internal/jsontext/internal/scan"
)

// Limits bound what [Parse] takes; zero means the default.
type Limits struct {
	Depth int // of nesting; default [jsontext.MaxDepth]
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
	p := parser{Scanner: scan.Scanner{Text: raw}, maps: true, limits: Limits{Depth: jsontext.MaxDepth}}
	return p.whole()
}

// Parse reads one JSON value with its objects in the order of their keys: nil, bool,
// string, json.Number, []any or *[Object].
func Parse(raw []byte, l Limits) (any, error) {
	if l.Depth == 0 {
		l.Depth = jsontext.MaxDepth
	}
	if l.Strict {
		switch err := jsontext.Check(raw); {
		case err != nil:
			return nil, err
		case !utf8.Valid(raw):
			return nil, errText
		case jsontext.LoneSurrogate(raw):
			return nil, errHalf
		}
	}
	p := parser{Scanner: scan.Scanner{Text: raw}, limits: l}
	return p.whole()
}

// parser makes values of a text.
type parser struct {
	scan.Scanner
	maps   bool // objects become maps
	limits Limits
}

// whole is the one value of the text.
func (p *parser) whole() (any, error) {
	v, err := p.parse(0)
	switch {
	case err != nil:
		return nil, err
	case !p.End():
		return nil, p.Fault()
	}
	return v, nil
}

// parse is the value that comes next, inside depth others.
func (p *parser) parse(depth int) (any, error) {
	c := p.Peek()
	if depth == p.limits.Depth && (c == '{' || c == '[') {
		p.TooDeep = true
		return nil, p.Fault()
	}
	from := p.At
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
	case !p.Scalar():
		return nil, p.Fault()
	case c == '"':
		return jsontext.String(p.Text[from:p.At]), nil
	case c == 't':
		return true, nil
	case c == 'f':
		return false, nil
	case c == 'n':
		return nil, nil
	}
	return json.Number(p.Text[from:p.At]), nil
}

// members gives the members of the object that comes next to f.
func (p *parser) members(depth int, f func(name string, value any) error) error {
	p.At++
	if p.Take('}') {
		return nil
	}
	for {
		literal, ok := p.Name()
		if !ok {
			return p.Fault()
		}
		value, err := p.parse(depth + 1)
		if err == nil {
			err = f(jsontext.String(literal), value)
		}
		switch {
		case err != nil:
			return err
		case p.Take('}'):
			return nil
		case !p.Take(','):
			return p.Fault()
		}
	}
}

// list is the array that comes next.
func (p *parser) list(depth int) (any, error) {
	p.At++
	list := []any{}
	if p.Take(']') {
		return list, nil
	}
	for {
		value, err := p.parse(depth + 1)
		if err != nil {
			return nil, err
		}
		switch list = append(list, value); {
		case p.Take(']'):
			return list, nil
		case !p.Take(','):
			return nil, p.Fault()
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
		return jsontext.AppendQuote(b, v)
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
			b = append(jsontext.AppendQuote(b, k), ':')
			b = Append(b, v.vals[k])
		}
		return append(b, '}')
	case json.RawMessage:
		return append(b, v...)
	}
	panic(fmt.Sprintf("jsonvalue: no JSON value: %T", v))
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
