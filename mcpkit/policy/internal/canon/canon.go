// Package canon gives JSON values that mean the same one form, so that they have
// one hash: no blanks, object members in the order of their names, strings
// escaped in one way.
//
//	sum, err := canon.Sum(json.RawMessage(`{"b": 1, "a": "\u0041"}`)) // of {"a":"A","b":1}
//
// Where two readers could understand a value differently it stays different:
// numbers keep their digits (1.0 is not 1), strings that are no valid Unicode
// keep their bytes, and a name that occurs twice in an object is an error. So is
// nesting beyond MaxDepth.
package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxDepth is how many values may stand inside one another.
const MaxDepth = 500

// JSON is the canonical form of raw. Nothing at all counts as null.
func JSON(raw []byte) ([]byte, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte("null"), nil
	}
	if !json.Valid(raw) {
		return nil, errors.New("the text is not valid JSON")
	}
	r := reader{src: raw}
	return r.value(make([]byte, 0, len(raw)))
}

// Sum is the SHA-256 of the canonical form of raw, in hex.
func Sum(raw []byte) (string, error) {
	b, err := JSON(raw)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// reader walks JSON that is known to be valid.
type reader struct {
	src   []byte
	i     int
	depth int
}

// next skips blanks and separators.
func (r *reader) next() byte {
	for strings.IndexByte(" \t\r\n,:", r.src[r.i]) >= 0 {
		r.i++
	}
	return r.src[r.i]
}

func (r *reader) value(dst []byte) ([]byte, error) {
	if r.depth++; r.depth > MaxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", MaxDepth)
	}
	defer func() { r.depth-- }()
	switch r.next() {
	case '{':
		return r.object(dst)
	case '[':
		return r.array(dst)
	case '"':
		return append(dst, text(r.str())...), nil
	}
	start := r.i
	for r.i < len(r.src) && strings.IndexByte(" \t\r\n,:]}", r.src[r.i]) < 0 {
		r.i++
	}
	return append(dst, r.src[start:r.i]...), nil
}

func (r *reader) array(dst []byte) ([]byte, error) {
	r.i++
	dst = append(dst, '[')
	for n := 0; r.next() != ']'; n++ {
		if n > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = r.value(dst); err != nil {
			return nil, err
		}
	}
	r.i++
	return append(dst, ']'), nil
}

func (r *reader) object(dst []byte) ([]byte, error) {
	r.i++
	type member struct {
		name  string
		value []byte
	}
	var members []member
	for r.next() != '}' {
		name := text(r.str())
		value, err := r.value(nil)
		if err != nil {
			return nil, err
		}
		members = append(members, member{string(name), value})
	}
	r.i++
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			if m.name == members[i-1].name {
				return nil, fmt.Errorf("the name %.60s stands twice in one object", m.name)
			}
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, m.name...), ':'), m.value...)
	}
	return append(dst, '}'), nil
}

// str takes the string literal that begins here.
func (r *reader) str() []byte {
	start := r.i
	for r.i++; r.src[r.i] != '"'; r.i++ {
		if r.src[r.i] == '\\' {
			r.i++
		}
	}
	r.i++
	return r.src[start:r.i]
}

// text is the one form of a string literal.
func text(literal []byte) []byte {
	var s string
	if err := json.Unmarshal(literal, &s); err != nil || strings.ContainsRune(s, '\uFFFD') {
		return literal
	}
	b, err := json.Marshal(s)
	if err != nil {
		return literal
	}
	return b
}
