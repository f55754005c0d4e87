// Package ordered holds JSON values that keep the order of their keys and the
// digits of their numbers.
//
// A value is nil, bool, string, json.Number, []any or *[Object]:
//
//	v, err := ordered.Parse([]byte(`{"b":9007199254740993,"a":[]}`), ordered.Limits{})
//	ordered.Append(nil, v) // {"b":9007199254740993,"a":[]}
//
// It knows nothing of schemas.
package ordered

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// Object is a JSON object in the order of its keys.
type Object struct {
	keys []string
	vals map[string]any
}

// NewObject makes an object of pairs: key, value, key, value.
func NewObject(pairs ...any) *Object {
	o := &Object{vals: make(map[string]any, len(pairs)/2)}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.Set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// Keys are the keys in order. The slice is shared until the next change.
func (o *Object) Keys() []string { return o.keys }

// Len is the number of keys.
func (o *Object) Len() int { return len(o.keys) }

// Get returns the value of key and whether there is one.
func (o *Object) Get(key string) (any, bool) { v, ok := o.vals[key]; return v, ok }

// Has reports whether key is there; a nil o has no keys.
func (o *Object) Has(key string) bool {
	if o == nil {
		return false
	}
	_, ok := o.vals[key]
	return ok
}

// Object returns the value of key when it is an object, else nil. A nil o has
// no keys.
func (o *Object) Object(key string) *Object {
	if o == nil {
		return nil
	}
	v, _ := o.vals[key].(*Object)
	return v
}

// List returns the value of key when it is an array, else nil.
func (o *Object) List(key string) []any { v, _ := o.vals[key].([]any); return v }

// String returns the value of key when it is a string, else "".
func (o *Object) String(key string) string { v, _ := o.vals[key].(string); return v }

// Set puts a value under key, in its old place or at the end.
func (o *Object) Set(key string, value any) {
	if _, ok := o.vals[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.vals[key] = value
}

// Delete removes keys that are there.
func (o *Object) Delete(keys ...string) {
	for _, key := range keys {
		if _, ok := o.vals[key]; ok {
			delete(o.vals, key)
			o.keys = slices.DeleteFunc(slices.Clone(o.keys), func(k string) bool { return k == key })
		}
	}
}

// Rename gives the value of key another key in the same place. The new key must
// be free.
func (o *Object) Rename(key, to string) {
	i := slices.Index(o.keys, key)
	o.keys = slices.Clone(o.keys)
	o.keys[i] = to
	o.vals[to] = o.vals[key]
	delete(o.vals, key)
}

// Shallow copies the object, not its values.
func (o *Object) Shallow() *Object {
	c := &Object{keys: slices.Clone(o.keys), vals: make(map[string]any, len(o.keys))}
	for k, v := range o.vals {
		c.vals[k] = v
	}
	return c
}

// Limits bound what Parse takes; zero means the default.
type Limits struct {
	Depth int // of nesting; default 5000
	// Strict refuses what two readers may take for two things: an object that has a
	// key twice, of which the last value counts otherwise, and text that is no text.
	Strict bool
}

// Errors of Parse that callers tell apart.
var (
	ErrDepth     = errors.New("nested too deep")
	ErrDuplicate = errors.New("key appears twice")
	errHalf      = errors.New("a string holds half a character, a surrogate escape without its other half")
	errText      = errors.New("not valid UTF-8")
)

// Parse reads one JSON value and nothing after it.
func Parse(b []byte, l Limits) (any, error) {
	if l.Depth == 0 {
		l.Depth = 5000
	}
	// The standard library says what is JSON; the parser below only has to
	// find its way in text that is known to be right.
	if !json.Valid(b) {
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			return nil, err
		}
	}
	switch {
	case l.Strict && !utf8.Valid(b):
		return nil, errText
	case l.Strict && jsontext.LoneSurrogate(b):
		return nil, errHalf
	}
	p := parser{b: b, limits: l}
	return p.value(0)
}

type parser struct {
	b      []byte
	i      int
	limits Limits
}

func (p *parser) space() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\n' || p.b[p.i] == '\t' || p.b[p.i] == '\r') {
		p.i++
	}
}

func (p *parser) value(depth int) (any, error) {
	if depth > p.limits.Depth {
		return nil, ErrDepth
	}
	p.space()
	switch p.b[p.i] {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		return p.str(), nil
	case 't':
		p.i += len("true")
		return true, nil
	case 'f':
		p.i += len("false")
		return false, nil
	case 'n':
		p.i += len("null")
		return nil, nil
	}
	start := p.i
	for p.i < len(p.b) && strings.IndexByte("+-.0123456789eE", p.b[p.i]) >= 0 {
		p.i++
	}
	return json.Number(p.b[start:p.i]), nil
}

func (p *parser) object(depth int) (any, error) {
	o := &Object{vals: map[string]any{}}
	p.i++
	for first := true; ; first = false {
		p.space()
		if p.b[p.i] == '}' {
			p.i++
			return o, nil
		}
		if !first {
			p.i++ // the comma
			p.space()
		}
		key := p.str()
		if p.limits.Strict && o.Has(key) {
			return nil, fmt.Errorf("%w: %q", ErrDuplicate, key)
		}
		p.space()
		p.i++ // the colon
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.Set(key, v)
	}
}

func (p *parser) array(depth int) (any, error) {
	list := []any{}
	p.i++
	for first := true; ; first = false {
		p.space()
		if p.b[p.i] == ']' {
			p.i++
			return list, nil
		}
		if !first {
			p.i++ // the comma
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

func (p *parser) str() string {
	start, plain := p.i, true
	for p.i++; p.b[p.i] != '"'; p.i++ {
		if p.b[p.i] == '\\' {
			plain = false
			p.i++
		}
	}
	p.i++
	raw := p.b[start:p.i]
	if plain && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s) // a string that json.Valid has seen
	return s
}

// Append writes v as compact JSON.
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
		return appendString(b, v)
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
			b = append(appendString(b, k), ':')
			b = Append(b, v.vals[k])
		}
		return append(b, '}')
	case json.RawMessage:
		return append(b, v...)
	}
	panic(fmt.Sprintf("ordered: no JSON value: %T", v))
}

func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			var buf bytes.Buffer
			enc := json.NewEncoder(&buf)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(s) // a string always encodes
			return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Plain turns v into the maps and slices that encoding/json would make of it,
// with json.Number for numbers.
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

// Equal reports whether a and b are the same JSON value: keys in any order,
// numbers by value.
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
		return ok && Compare(a, b) == 0
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

// Compare orders two numbers by value; numbers too large to compute are ordered
// as text.
func Compare(a, b json.Number) int {
	if a == b {
		return 0
	}
	x, y := Rat(a), Rat(b)
	if x == nil || y == nil {
		return strings.Compare(string(a), string(b))
	}
	return x.Cmp(y)
}
