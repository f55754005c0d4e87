package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Members calls f with the name and the raw value of each member of the object b, in
// order, until f returns false. It reports whether b is a valid object as far as it
// was read. A name is what its escapes mean; it and the value share b's storage where
// they can, and are never nil.
func Members(b []byte, f func(name, value []byte) bool) bool {
	s := scanner{b: b}
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return s.end()
	}
	for {
		literal, ok := s.name()
		if !ok {
			return false
		}
		name := literal[1 : len(literal)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = AppendUnquote([]byte{}, literal, len(literal))
		}
		value, ok := s.raw()
		switch {
		case !ok:
			return false
		case !f(name, value):
			return true
		case s.take('}'):
			return s.end()
		case !s.take(','):
			return false
		}
	}
}

// Elements calls f with each raw element of the array b, in order, until f returns
// false. It reports whether b is a valid array as far as it was read.
func Elements(b []byte, f func(value []byte) bool) bool {
	s := scanner{b: b}
	if !s.take('[') {
		return false
	}
	if s.take(']') {
		return s.end()
	}
	for {
		value, ok := s.raw()
		switch {
		case !ok:
			return false
		case !f(value):
			return true
		case s.take(']'):
			return s.end()
		case !s.take(','):
			return false
		}
	}
}

// raw passes a value inside an object or array over, and is its text.
func (s *scanner) raw() (value []byte, ok bool) {
	s.peek()
	from := s.i
	ok = s.value(1)
	return s.b[from:s.i:s.i], ok
}

// Get is the raw value that one finds in the object b by a member's name, in that
// value, where it is an object, by the next name, and so on; nil where there is none.
func Get(b []byte, path ...string) []byte {
	for _, name := range path {
		var value []byte
		Members(b, func(n, v []byte) bool {
			if string(n) == name {
				value = v
			}
			return true
		})
		b = value
	}
	return b
}

// Strings calls f with each string in b as it is written, the names of members
// included, until f returns false or b ends. B must be valid JSON; of other text it
// finds anything or nothing.
func Strings(b []byte, f func(literal []byte) bool) {
	for s := (scanner{b: b}); ; {
		n := bytes.IndexByte(b[s.i:], '"')
		if n < 0 {
			return
		}
		s.i += n
		if from := s.i; !s.text() || !f(b[from:s.i:s.i]) {
			return
		}
	}
}

// Fields decodes the members of the object raw that into names, each into what its
// name points to. A name is taken as it is written: encoding/json takes a name in
// another case for the field too, and mixes two objects of one name, so that it may
// read what others did not. The text null has no members.
//
//	err := jsontext.Fields(raw, map[string]any{"type": &b.Type, "text": &b.Text})
func Fields(raw []byte, into map[string]any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(into)) {
		value, ok := members[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, into[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Duplicate finds a member whose name occurs twice in one object, and is its JSON
// pointer (RFC 6901). Which of the two counts is every reader's own choice (RFC 8259,
// section 4), so that who checks such a value and who uses it may see different ones.
// Names are compared by what they mean, escapes and all. Raw must be valid JSON.
func Duplicate(raw []byte) (pointer string, found bool) {
	s := scanner{b: raw}
	path, _ := s.duplicate()
	var p strings.Builder
	for _, name := range slices.Backward(path) {
		p.WriteString("/" + escapePointer.Replace(name))
	}
	return p.String(), len(path) > 0
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// duplicate passes a value over. Where it finds a name twice it ends, and the path
// leads there, the innermost name first.
func (s *scanner) duplicate() (path []string, ok bool) {
	switch s.peek() {
	case '{':
		seen := map[string]bool{}
		for s.i++; !s.take('}'); s.take(',') {
			literal, ok := s.name()
			if !ok {
				return nil, false
			}
			name := String(literal)
			if seen[name] {
				return []string{name}, true
			}
			seen[name] = true
			if path, ok = s.duplicate(); len(path) > 0 {
				return append(path, name), true
			} else if !ok {
				return nil, false
			}
		}
		return nil, true
	case '[':
		s.i++
		for n := 0; !s.take(']'); s.take(',') {
			if path, ok = s.duplicate(); len(path) > 0 {
				return append(path, strconv.Itoa(n)), true
			} else if !ok {
				return nil, false
			}
			n++
		}
		return nil, true
	}
	return nil, s.scalar()
}
