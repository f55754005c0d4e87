// Package scan walks over JSON text (RFC 8259) value by value and checks it on the
// way. It is what the packages of jsontext share, and makes nothing of what it reads:
//
//	s := scan.Scanner{Text: raw}
//	ok := s.Value(0) && s.End() // raw is one JSON value
package scan

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

// Scanner walks over a text. Its methods report whether what they look for is there:
// if so At is the index behind it, else At is the index of the byte that is not as it
// should be.
type Scanner struct {
	Text    []byte
	At      int
	Deepest int  // how many levels the value has that [Scanner.Value] passed last
	TooDeep bool // the walk ended at MaxDepth or at a limit of the caller's own
}

// Fault is why the scanner stopped.
func (s *Scanner) Fault() error {
	switch {
	case s.TooDeep:
		return fmt.Errorf("%w at byte %d", ErrDepth, s.At)
	case s.At >= len(s.Text):
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("unexpected byte %q at %d", s.Text[s.At], s.At)
}

// Peek passes white space over and is the byte after it, or 0 at the end.
func (s *Scanner) Peek() byte {
	for s.At < len(s.Text) {
		switch c := s.Text[s.At]; c {
		case ' ', '\n', '\t', '\r':
			s.At++
		default:
			return c
		}
	}
	return 0
}

// Take passes the byte c over, after white space, where it is there.
func (s *Scanner) Take(c byte) bool {
	if s.Peek() != c || s.At >= len(s.Text) {
		return false
	}
	s.At++
	return true
}

// End reports whether only white space is left.
func (s *Scanner) End() bool {
	s.Peek()
	return s.At >= len(s.Text)
}

// Value passes one value over that stands depth levels deep. It does not recurse, so
// that hostile nesting costs a byte a level.
func (s *Scanner) Value(depth int) bool {
	var room [64]byte
	closers := room[:0] // the brackets that end what is open, the innermost last
	s.Deepest = 0
	for {
		// A value begins here.
		switch c := s.Peek(); c {
		case '{', '[':
			if depth+len(closers) == MaxDepth {
				s.TooDeep = true
				return false
			}
			s.At++
			closers = append(closers, c+2) // in ASCII a closing bracket is two after its opening one
			s.Deepest = max(s.Deepest, len(closers))
			if s.Peek() == c+2 {
				break // the object or array is empty
			}
			if c == '{' {
				if _, ok := s.Name(); !ok {
					return false
				}
			}
			continue
		default:
			if !s.Scalar() {
				return false
			}
			if len(closers) == 0 {
				return true
			}
		}
		// A value has ended here, or an empty object or array ends.
		for !s.Take(',') {
			last := len(closers) - 1
			if !s.Take(closers[last]) {
				return false
			}
			if closers = closers[:last]; last == 0 {
				return true
			}
		}
		if closers[len(closers)-1] == '}' {
			if _, ok := s.Name(); !ok {
				return false
			}
		}
	}
}

// Name passes the name of a member and its colon over. The literal is the name as it
// is written, with its quotes.
func (s *Scanner) Name() (literal []byte, ok bool) {
	s.Peek()
	from := s.At
	if !s.Quoted() {
		return nil, false
	}
	literal = s.Text[from:s.At]
	return literal, s.Take(':')
}

// Scalar passes a value that is neither object nor array over.
func (s *Scanner) Scalar() bool {
	switch c := s.Peek(); {
	case c == '"':
		return s.Quoted()
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

// Quoted passes a string over.
func (s *Scanner) Quoted() bool {
	if s.At >= len(s.Text) || s.Text[s.At] != '"' {
		return false
	}
	for s.At++; ; {
		s.At += plain(s.Text[s.At:])
		if s.At >= len(s.Text) {
			return false
		}
		switch s.Text[s.At] {
		case '"':
			s.At++
			return true
		case '\\':
			_, size := Unescape(s.Text[s.At:])
			if size == 0 {
				return s.brokenEscape()
			}
			s.At += size
		default: // a control character
			return false
		}
	}
}

// brokenEscape moves to the byte that breaks the escape at s.At.
func (s *Scanner) brokenEscape() bool {
	if s.At++; s.At < len(s.Text) && s.Text[s.At] == 'u' {
		for s.At++; s.At < len(s.Text) && hexDigit(s.Text[s.At]) >= 0; {
			s.At++
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
func (s *Scanner) number() bool {
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
func (s *Scanner) skip(set string) bool {
	if s.At < len(s.Text) {
		for i := range len(set) {
			if s.Text[s.At] == set[i] {
				s.At++
				return true
			}
		}
	}
	return false
}

// digits passes one or more digits over.
func (s *Scanner) digits() bool {
	from := s.At
	for s.At < len(s.Text) && s.Text[s.At] >= '0' && s.Text[s.At] <= '9' {
		s.At++
	}
	return s.At > from
}

// word passes a word over.
func (s *Scanner) word(w string) bool {
	for i := range len(w) {
		if s.At >= len(s.Text) || s.Text[s.At] != w[i] {
			return false
		}
		s.At++
	}
	return true
}
