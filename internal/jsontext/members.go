package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext/internal/scan"
)

// Members calls f with the name and the raw value of each member of the object b, in
// order, until f returns false. It reports whether b is a valid object as far as it
// was read. A name is what its escapes mean; it and the value share b's storage where
// they can, and are never nil.
func Members(b []byte, f func(name, value []byte) bool) bool {
	s := &scan.Scanner{Text: b}
	if !s.Take('{') {
		return false
	}
	if s.Take('}') {
		return s.End()
	}
	for {
		literal, ok := s.Name()
		if !ok {
			return false
		}
		name := literal[1 : len(literal)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = AppendUnquote([]byte{}, literal, len(literal))
		}
		value, ok := raw(s)
		switch {
		case !ok:
			return false
		case !f(name, value):
			return true
		case s.Take('}'):
			return s.End()
		case !s.Take(','):
			return false
		}
	}
}

// Elements calls f with each raw element of the array b, in order, until f returns
// false. It reports whether b is a valid array as far as it was read.
func Elements(b []byte, f func(value []byte) bool) bool {
	s := &scan.Scanner{Text: b}
	if !s.Take('[') {
		return false
	}
	if s.Take(']') {
		return s.End()
	}
	for {
		value, ok := raw(s)
		switch {
		case !ok:
			return false
		case !f(value):
			return true
		case s.Take(']'):
			return s.End()
		case !s.Take(','):
			return false
		}
	}
}

// raw passes a value inside an object or array over, and is its text.
func raw(s *scan.Scanner) (value []byte, ok bool) {
	s.Peek()
	from := s.At
	ok = s.Value(1)
	return s.Text[from:s.At:s.At], ok
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
	for s := (&scan.Scanner{Text: b}); ; {
		n := bytes.IndexByte(b[s.At:], '"')
		if n < 0 {
			return
		}
		s.At += n
		if from := s.At; !s.Quoted() || !f(b[from:s.At:s.At]) {
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
	s := &scan.Scanner{Text: raw}
	path, _ := duplicate(s)
	var p strings.Builder
	for _, name := range slices.Backward(path) {
		p.WriteString("/" + escapePointer.Replace(name))
	}
	return p.String(), len(path) > 0
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// duplicate passes a value over. Where it finds a name twice it ends, and the path
// leads there, the innermost name first.
func duplicate(s *scan.Scanner) (path []string, ok bool) {
	switch s.Peek() {
	case '{':
		seen := map[string]bool{}
		for s.At++; !s.Take('}'); s.Take(',') {
			literal, ok := s.Name()
			if !ok {
				return nil, false
			}
			name := String(literal)
			if seen[name] {
				return []string{name}, true
			}
			seen[name] = true
			if path, ok = duplicate(s); len(path) > 0 {
				return append(path, name), true
			} else if !ok {
				return nil, false
			}
		}
		return nil, true
	case '[':
		s.At++
		for n := 0; !s.Take(']'); s.Take(',') {
			if path, ok = duplicate(s); len(path) > 0 {
				return append(path, strconv.Itoa(n)), true
			} else if !ok {
				return nil, false
			}
			n++
		}
		return nil, true
	}
	return nil, s.Scalar()
}
