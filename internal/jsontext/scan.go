// Package jsontext reads and writes JSON text (RFC 8259) exactly: what is taken out
// of a text is byte for byte what was sent, numbers keep their digits, objects keep
// the order and the spelling of their members, and members that nobody knows stay.
//
//	raw := []byte(`{"id":7,"result":{"n":1.0}}`)
//	n := jsontext.Get(raw, "result", "n") // 1.0
//	raw = jsontext.AppendQuote(nil, "a <b>") // "a <b>"
//
// Three kinds of functions share one scanner:
//
//   - [Valid], [Check], [Depth], [Duplicate] and [LoneSurrogate] say what a text is.
//   - [Members], [Elements], [Get] and [Strings] give parts of a text as raw values,
//     without decoding them.
//   - [Decode] and [Parse] make values of a text, [Append] makes text of values, and
//     [AppendCompact] and [AppendCanonical] write a text in another form.
//
// Bytes that are no UTF-8, and escapes of surrogates without their other half, are
// taken as encoding/json takes them: they are valid and mean U+FFFD. Of several
// members with one name the last one counts. Who must not accept such texts asks
// [Duplicate] and [LoneSurrogate], or parses with [Limits].Strict.
//
// The package knows no schemas, and encoding/json remains what fills Go structs.
package jsontext

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// MaxDepth is how many arrays and objects may stand inside one another. It is the
// limit of encoding/json, so that what is valid here can be decoded there.
const MaxDepth = 10_000

// ErrDepth is the error of a text that is nested deeper than it may be.
var ErrDepth = errors.New("nested too deep")

// Valid reports whether b is one JSON value, as json.Valid does.
func Valid(b []byte) bool {
	s := scanner{b: b}
	return s.value(0) && s.end()
}

// Check says why b is not one JSON value, with the offset of the byte that was not
// expected, or nil. The error of a text that ends too soon is io.ErrUnexpectedEOF.
func Check(b []byte) error {
	s := scanner{b: b}
	if s.value(0) && s.end() {
		return nil
	}
	return s.fault()
}

// IsObject reports whether b is one valid JSON object.
func IsObject(b []byte) bool {
	s := scanner{b: b}
	return s.peek() == '{' && s.value(0) && s.end()
}

// Depth is how many arrays and objects stand inside one another in b, up to where b
// ends or is no JSON.
func Depth(b []byte) int {
	s := scanner{b: b}
	s.value(0)
	return s.deepest
}

// scanner walks over a text. Its methods report whether what they look for is there:
// if so i is the index behind it, else i is the index of the byte that is not as it
// should be.
type scanner struct {
	b       []byte
	i       int
	deepest int  // how many levels the value that was read last has
	tooDeep bool // the walk ended at MaxDepth
}

// fault is why the scanner stopped.
func (s *scanner) fault() error {
	switch {
	case s.tooDeep:
		return fmt.Errorf("%w at byte %d", ErrDepth, s.i)
	case s.i >= len(s.b):
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("unexpected byte %q at %d", s.b[s.i], s.i)
}

// peek passes white space over and is the byte after it, or 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take passes the byte c over, after white space, where it is there.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.i >= len(s.b) {
		return false
	}
	s.i++
	return true
}

// end reports whether only white space is left.
func (s *scanner) end() bool {
	s.peek()
	return s.i >= len(s.b)
}

// value passes one value over that stands depth levels deep. It does not recurse, so
// that hostile nesting costs a byte a level.
func (s *scanner) value(depth int) bool {
	var room [64]byte
	closers := room[:0] // the brackets that end what is open, the innermost last
	s.deepest = 0
	for {
		// A value begins here.
		switch c := s.peek(); c {
		case '{', '[':
			if depth+len(closers) == MaxDepth {
				s.tooDeep = true
				return false
			}
			s.i++
			closers = append(closers, c+2) // in ASCII a closing bracket is two after its opening one
			s.deepest = max(s.deepest, len(closers))
			if s.peek() == c+2 {
				break // the object or array is empty
			}
			if c == '{' {
				if _, ok := s.name(); !ok {
					return false
				}
			}
			continue
		default:
			if !s.scalar() {
				return false
			}
			if len(closers) == 0 {
				return true
			}
		}
		// A value has ended here, or an empty object or array ends.
		for !s.take(',') {
			last := len(closers) - 1
			if !s.take(closers[last]) {
				return false
			}
			if closers = closers[:last]; last == 0 {
				return true
			}
		}
		if closers[len(closers)-1] == '}' {
			if _, ok := s.name(); !ok {
				return false
			}
		}
	}
}

// name passes the name of a member and its colon over. The literal is the name as it
// is written, with its quotes.
func (s *scanner) name() (literal []byte, ok bool) {
	s.peek()
	from := s.i
	if !s.text() {
		return nil, false
	}
	literal = s.b[from:s.i]
	return literal, s.take(':')
}

// scalar passes a value that is neither object nor array over.
func (s *scanner) scalar() bool {
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return false
}

// text passes a string over.
func (s *scanner) text() bool {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return false
	}
	for s.i++; ; {
		s.i += plain(s.b[s.i:])
		if s.i >= len(s.b) {
			return false
		}
		switch s.b[s.i] {
		case '"':
			s.i++
			return true
		case '\\':
			_, size := unescape(s.b[s.i:])
			if size == 0 {
				return s.brokenEscape()
			}
			s.i += size
		default: // a control character
			return false
		}
	}
}

// brokenEscape moves to the byte that breaks the escape at s.i.
func (s *scanner) brokenEscape() bool {
	if s.i++; s.i < len(s.b) && s.b[s.i] == 'u' {
		for s.i++; s.i < len(s.b) && hexDigit(s.b[s.i]) >= 0; {
			s.i++
		}
	}
	return false
}

// plain is how many bytes b begins with that are no quote, backslash or control
// character, so that they stand for themselves inside a string.
func plain(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 { // text is the bulk of most messages
		w := binary.LittleEndian.Uint64(b[i:])
		// The high bit of each byte is set where the byte is one of those. A borrow
		// sets it in other bytes too, but only after the first.
		if odd := ((w - ' '*ones) | ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones)) &^ w & high; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// number passes a number over.
func (s *scanner) number() bool {
	s.skip("-")
	if !s.skip("0") && !s.digits() {
		return false
	}
	if s.skip(".") && !s.digits() {
		return false
	}
	if s.skip("eE") {
		s.skip("+-")
		return s.digits()
	}
	return true
}

// skip passes one byte over that is in set.
func (s *scanner) skip(set string) bool {
	if s.i < len(s.b) {
		for i := range len(set) {
			if s.b[s.i] == set[i] {
				s.i++
				return true
			}
		}
	}
	return false
}

// digits passes one or more digits over.
func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

// word passes a word over.
func (s *scanner) word(w string) bool {
	for i := range len(w) {
		if s.i >= len(s.b) || s.b[s.i] != w[i] {
			return false
		}
		s.i++
	}
	return true
}
