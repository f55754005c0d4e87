package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext/internal/scan"
)

// AppendCompact appends raw without white space and otherwise as it is written. The
// error says why raw is not JSON; what is appended then is of no use.
func AppendCompact(dst, raw []byte) ([]byte, error) {
	if err := Check(raw); err != nil {
		return dst, err
	}
	s := &scan.Scanner{Text: raw}
	for s.Peek() != 0 {
		from := s.At
		if raw[from] == '"' {
			s.Quoted()
		} else { // up to what may be white space or a string
			for s.At < len(raw) && raw[s.At] > ' ' && raw[s.At] != '"' {
				s.At++
			}
		}
		dst = append(dst, raw[from:s.At]...)
	}
	return dst, nil
}

// MaxCanonicalDepth is how many values, each inside the one before, may stand in what
// has a canonical form.
const MaxCanonicalDepth = 500

// AppendCanonical appends the canonical form of raw, which texts that mean the same
// share, so that they have one hash: it has no white space, members in the order of
// their names as they are written there, and strings escaped in one way. Nothing at
// all counts as null.
//
// Where two readers could understand a text differently it stays different: numbers
// keep their digits (1.0 is not 1), strings that are no valid Unicode keep their
// bytes, and a name that occurs twice in an object is an error. So is a value deeper
// than [MaxCanonicalDepth].
//
// Hashes of this form are kept by their users for years. It must never change, and so
// its strings have <, > and & escaped, unlike those of [AppendQuote].
func AppendCanonical(dst, raw []byte) ([]byte, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return append(dst, "null"...), nil
	}
	if !Valid(raw) {
		return nil, errors.New("the text is not valid JSON")
	}
	s := &scan.Scanner{Text: raw}
	return canonical(s, dst, 1)
}

// canonical appends the form of the value that comes next in valid JSON.
func canonical(s *scan.Scanner, dst []byte, depth int) (_ []byte, err error) {
	if depth > MaxCanonicalDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", MaxCanonicalDepth)
	}
	c := s.Peek()
	from := s.At
	switch c {
	case '{':
		return canonicalObject(s, dst, depth)
	case '[':
		s.At++
		dst = append(dst, '[')
		for n := 0; !s.Take(']'); n++ {
			if s.Take(',') {
				dst = append(dst, ',')
			}
			if dst, err = canonical(s, dst, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case '"':
		s.Quoted()
		return appendCanonicalString(dst, s.Text[from:s.At]), nil
	}
	s.Scalar()
	return append(dst, s.Text[from:s.At]...), nil
}

// canonicalObject writes the members as they come, and sorts them where they must be.
func canonicalObject(s *scan.Scanner, dst []byte, depth int) (_ []byte, err error) {
	s.At++
	dst = append(dst, '{')
	var members []canonicalMember
	first := len(dst)
	for !s.Take('}') {
		if s.Take(',') {
			dst = append(dst, ',')
		}
		literal, _ := s.Name()
		m := canonicalMember{from: len(dst) - first}
		dst = appendCanonicalString(dst, literal)
		m.colon = len(dst) - first
		if dst, err = canonical(s, append(dst, ':'), depth+1); err != nil {
			return nil, err
		}
		m.end = len(dst) - first
		members = append(members, m)
	}
	written := dst[first:]
	byName := func(a, b canonicalMember) int {
		return bytes.Compare(written[a.from:a.colon], written[b.from:b.colon])
	}
	if !slices.IsSortedFunc(members, byName) {
		slices.SortFunc(members, byName)
		written = bytes.Clone(written)
		dst = dst[:first]
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, written[m.from:m.end]...)
		}
	}
	for i, m := range members[min(1, len(members)):] {
		if byName(members[i], m) == 0 {
			return nil, fmt.Errorf("the name %.60s stands twice in one object", written[m.from:m.colon])
		}
	}
	return append(dst, '}'), nil
}

// canonicalMember is where a member stands in what is written of an object.
type canonicalMember struct{ from, colon, end int }

// appendCanonicalString appends the one form of a string.
func appendCanonicalString(dst, literal []byte) []byte {
	text := AppendUnquote(nil, literal, len(literal))
	if bytes.ContainsRune(text, utf8.RuneError) { // perhaps of what is no valid Unicode
		return append(dst, literal...)
	}
	from := len(dst)
	dst = AppendQuote(dst, text)
	if !bytes.ContainsAny(text, "<>&") {
		return dst
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, dst[from:])
	return append(dst[:from], escaped.Bytes()...)
}
