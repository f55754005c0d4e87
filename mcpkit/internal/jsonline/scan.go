// Package jsonline reads JSON-RPC messages, one a line, from a stream that may
// hold anything: it finds the parts of a message without decoding them, so
// that what is passed on is byte for byte what was sent.
//
//	m, ok := jsonline.Scan([]byte(`{"jsonrpc":"2.0","id":7,"result":{"n":1.0}}`))
//	// ok, m.ID is `7`, m.Result is `{"n":1.0}`
//
// It checks that JSON is valid (RFC 8259), and leaves its meaning to others.
package jsonline

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how deep values may be nested. It is the limit of encoding/json,
// so that everything that passes here can be decoded later.
const MaxDepth = 10000

// Message is the top level of a JSON-RPC message. Its parts are raw JSON values
// that share the line's storage; nil means absent. As with encoding/json the
// last of several members with one name counts.
type Message struct {
	Version, ID, Method, Params, Result, Error []byte
}

// Scan finds the parts of line, and reports whether it is one valid JSON object.
func Scan(line []byte) (m Message, ok bool) {
	o := object{b: line}
	if !o.open() {
		return Message{}, false
	}
	for o.next() {
		switch string(o.key) {
		case "jsonrpc":
			m.Version = o.value
		case "id":
			m.ID = o.value
		case "method":
			m.Method = o.value
		case "params":
			m.Params = o.value
		case "result":
			m.Result = o.value
		case "error":
			m.Error = o.value
		}
	}
	if !o.ok {
		return Message{}, false
	}
	return m, true
}

// Members calls f with the name and the raw value of each member of the object
// b, in order, until f returns false. It reports whether b is a valid object as
// far as it was read. Names are decoded.
func Members(b []byte, f func(name, value []byte) bool) bool {
	o := object{b: b}
	if !o.open() {
		return false
	}
	for o.next() {
		if !f(o.key, o.value) {
			return true
		}
	}
	return o.ok
}

// Get is the raw value of the member called name in the object b, or nil.
func Get(b []byte, name string) (value []byte) {
	Members(b, func(n, v []byte) bool {
		if string(n) == name {
			value = v
		}
		return true
	})
	return value
}

// Elements calls f with each raw element of the array b, and reports whether b
// is a valid array.
func Elements(b []byte, f func(value []byte)) bool {
	i := space(b, 0)
	if i >= len(b) || b[i] != '[' {
		return false
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return space(b, i+1) == len(b)
	}
	for {
		end := skip(b, i)
		if end < 0 {
			return false
		}
		f(b[i:end])
		i = space(b, end)
		if i >= len(b) {
			return false
		}
		switch b[i] {
		case ',':
			i = space(b, i+1)
		case ']':
			return space(b, i+1) == len(b)
		default:
			return false
		}
	}
}

// Valid reports whether b is one valid JSON value.
func Valid(b []byte) bool {
	end := skip(b, space(b, 0))
	return end >= 0 && space(b, end) == len(b)
}

// IsObject reports whether b is one valid JSON object.
func IsObject(b []byte) bool {
	i := space(b, 0)
	return i < len(b) && b[i] == '{' && Valid(b)
}

// String is the string that the raw value b stands for, or "" where it is none.
func String(b []byte) (s string) {
	if n := len(b); n >= 2 && b[0] == '"' && bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
		return string(b[1 : n-1])
	}
	json.Unmarshal(b, &s) // what is no string is ""
	return s
}

// Clean returns b as valid UTF-8 whose escapes are valid too: bytes that are no
// UTF-8 and escapes of lone surrogates become U+FFFD. It may write into b.
func Clean(b []byte) []byte {
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	fixSurrogates(b)
	return b
}

// fixSurrogates overwrites escapes of lone surrogates, which stand for no
// character, with \ufffd.
func fixSurrogates(b []byte) {
	for i := 0; ; {
		j := bytes.IndexByte(b[i:], '\\')
		if j < 0 || i+j+1 >= len(b) {
			return
		}
		i += j
		r := escaped(b[i:])
		switch {
		case r < 0:
			i += 2
		case r >= 0xD800 && r < 0xDC00:
			if low := escaped(b[i+6:]); low >= 0xDC00 && low < 0xE000 {
				i += 12
				continue
			}
			copy(b[i+2:], "fffd")
			i += 6
		case r >= 0xDC00 && r < 0xE000:
			copy(b[i+2:], "fffd")
			i += 6
		default:
			i += 6
		}
	}
}

// escaped is the code unit of the escape \uXXXX that b begins with, or -1.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// object walks over the members of an object.
type object struct {
	b          []byte
	i          int
	key, value []byte
	ok         bool // the walk has reached the end of a valid object
}

func (o *object) open() bool {
	o.i = space(o.b, 0)
	return o.i < len(o.b) && o.b[o.i] == '{'
}

func (o *object) next() bool {
	first := o.key == nil && o.value == nil
	b, i := o.b, space(o.b, o.i)
	if first {
		i = space(b, i+1)
	}
	if i >= len(b) {
		return false
	}
	switch {
	case b[i] == '}':
		o.ok = space(b, i+1) == len(b)
		return false
	case first:
	case b[i] == ',':
		i = space(b, i+1)
	default:
		return false
	}
	end := text(b, i)
	if end < 0 {
		return false
	}
	key := b[i+1 : end-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		var s string
		if json.Unmarshal(b[i:end], &s) != nil {
			return false
		}
		key = []byte(s)
	}
	i = space(b, end)
	if i >= len(b) || b[i] != ':' {
		return false
	}
	i = space(b, i+1)
	if end = skip(b, i); end < 0 {
		return false
	}
	o.key, o.value, o.i = key, b[i:end:end], end
	return true
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// plain is how many bytes b begins with that are no quote, backslash or control
// character; at its end up to seven are not counted.
func plain(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// In each byte the high bit is set where it is one of those, and in some
		// after the first.
		if odd := ((w - ' '*ones) | ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones)) &^ w & high; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	return i
}

// text is the index after the string that begins at i, or -1.
func text(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; ; i++ {
		if i += plain(b[i:]); i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < 0x20:
			return -1
		case c == '\\':
			i++
			if i >= len(b) {
				return -1
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if escaped(b[i-1:]) < 0 {
					return -1
				}
				i += 4
			default:
				return -1
			}
		}
	}
}

// number is the index after the number that begins at i, or -1.
func number(b []byte, i int) int {
	digits := func() bool {
		from := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}

// literal is the index after word where b has it at i, or -1.
func literal(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// nesting remembers for each open value whether it is an object.
type nesting struct {
	depth int
	top   uint64   // of the innermost 64 levels or fewer
	deep  []uint64 // of the levels outside
}

func (n *nesting) push(object uint64) bool {
	if n.depth > 0 && n.depth%64 == 0 {
		n.deep = append(n.deep, n.top)
	}
	n.top = n.top<<1 | object
	n.depth++
	return n.depth < MaxDepth
}

func (n *nesting) pop() {
	n.top >>= 1
	n.depth--
	if n.depth > 0 && n.depth%64 == 0 {
		n.top, n.deep = n.deep[len(n.deep)-1], n.deep[:len(n.deep)-1]
	}
}

// skip is the index after the value that begins at i, or -1. It does not
// recurse: hostile nesting costs a bit a level.
func skip(b []byte, i int) int {
	var open nesting
	for {
		// A value begins here, with its name before it inside an object.
		i = space(b, i)
		if open.depth > 0 && open.top&1 == 1 {
			if i = text(b, i); i < 0 {
				return -1
			}
			if i = space(b, i); i >= len(b) || b[i] != ':' {
				return -1
			}
			i = space(b, i+1)
		}
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			i = text(b, i)
		case c == '{' || c == '[':
			object, end := uint64(0), byte(']')
			if c == '{' {
				object, end = 1, '}'
			}
			i = space(b, i+1)
			if i < len(b) && b[i] == end {
				i++
				break
			}
			if !open.push(object) {
				return -1
			}
			continue
		case c == '-' || c >= '0' && c <= '9':
			i = number(b, i)
		case c == 't':
			i = literal(b, i, "true")
		case c == 'f':
			i = literal(b, i, "false")
		case c == 'n':
			i = literal(b, i, "null")
		default:
			return -1
		}
		// A value has ended here, and perhaps what it stands in.
		for {
			if i < 0 || open.depth == 0 {
				return i
			}
			if i = space(b, i); i >= len(b) {
				return -1
			}
			end := byte(']')
			if open.top&1 == 1 {
				end = '}'
			}
			if b[i] == ',' {
				i++
				break
			}
			if b[i] != end {
				return -1
			}
			i++
			open.pop()
		}
	}
}
