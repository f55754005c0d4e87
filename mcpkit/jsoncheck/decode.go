package jsoncheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxDepth is how deep a value may be nested; encoding/json has the same limit.
const maxDepth = 10_000

// Decode reads one JSON value (RFC 8259) as encoding/json does into an any, with
// numbers as json.Number: what [Schema.Check] takes.
func Decode(raw []byte) (any, error) {
	d := decoder{b: raw}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.i < len(raw) {
		return nil, d.unexpected()
	}
	return v, nil
}

// Valid reports whether raw is one JSON value, as json.Valid does.
func Valid(raw []byte) bool {
	d := decoder{b: raw, discard: true}
	if _, err := d.value(0); err != nil {
		return false
	}
	d.space()
	return d.i == len(raw)
}

type decoder struct {
	b       []byte
	i       int
	discard bool // what is read
}

func (d *decoder) space() {
	for d.i < len(d.b) && (d.b[d.i] == ' ' || d.b[d.i] == '\n' || d.b[d.i] == '\t' || d.b[d.i] == '\r') {
		d.i++
	}
}

func (d *decoder) unexpected() error {
	if d.i >= len(d.b) {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("unexpected byte %q at %d", d.b[d.i], d.i)
}

// next takes the byte c after blanks, if it is there.
func (d *decoder) next(c byte) bool {
	d.space()
	if d.i < len(d.b) && d.b[d.i] == c {
		d.i++
		return true
	}
	return false
}

func (d *decoder) value(depth int) (any, error) {
	d.space()
	if d.i >= len(d.b) {
		return nil, d.unexpected()
	}
	switch c := d.b[d.i]; {
	case c == '"':
		return d.text()
	case depth == maxDepth && (c == '{' || c == '['):
		return nil, errors.New("it is nested too deep")
	case c == '{':
		return d.object(depth + 1)
	case c == '[':
		return d.array(depth + 1)
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	for _, w := range &words {
		if bytes.HasPrefix(d.b[d.i:], w.text) {
			d.i += len(w.text)
			return w.value, nil
		}
	}
	return nil, d.unexpected()
}

var words = [...]struct {
	text  []byte
	value any
}{{[]byte("true"), true}, {[]byte("false"), false}, {[]byte("null"), nil}}

func (d *decoder) object(depth int) (any, error) {
	d.i++
	var out map[string]any
	if !d.discard {
		out = map[string]any{}
	}
	if d.next('}') {
		return out, nil
	}
	for {
		if d.space(); d.i >= len(d.b) || d.b[d.i] != '"' {
			return nil, d.unexpected()
		}
		name, err := d.text()
		if err != nil {
			return nil, err
		}
		if !d.next(':') {
			return nil, d.unexpected()
		}
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		if !d.discard {
			out[name] = v
		}
		if d.next('}') {
			return out, nil
		}
		if !d.next(',') {
			return nil, d.unexpected()
		}
	}
}

func (d *decoder) array(depth int) (any, error) {
	d.i++
	out := []any{}
	if d.next(']') {
		return out, nil
	}
	for {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		if !d.discard {
			out = append(out, v)
		}
		if d.next(']') {
			return out, nil
		}
		if !d.next(',') {
			return nil, d.unexpected()
		}
	}
}

// text reads a string. One with escapes, or with bytes that are no UTF-8, is left
// to encoding/json.
func (d *decoder) text() (string, error) {
	escaped, ascii := false, true
	for i := d.i + 1; ; i++ {
		if i += plain(d.b[min(i, len(d.b)):]); i >= len(d.b) {
			break
		}
		switch c := d.b[i]; {
		case c == '"':
			raw := d.b[d.i : i+1]
			d.i = i + 1
			if d.discard {
				if escaped && !json.Valid(raw) {
					return "", errors.New("an escape is not valid")
				}
				return "", nil
			}
			if text := raw[1 : len(raw)-1]; !escaped && (ascii || utf8.Valid(text)) {
				return string(text), nil
			}
			var s string
			err := json.Unmarshal(raw, &s)
			return s, err
		case c == '\\':
			escaped = true
			i++
		case c >= utf8.RuneSelf:
			ascii = false
			for i+1 < len(d.b) && d.b[i+1] >= utf8.RuneSelf {
				i++
			}
		default: // a control character
			d.i = i
			return "", d.unexpected()
		}
	}
	d.i = len(d.b)
	return "", d.unexpected()
}

func (d *decoder) number() (any, error) {
	from := d.i
	d.skip('-')
	if !d.skip('0') && !d.digits() {
		return nil, d.unexpected()
	}
	if d.skip('.') && !d.digits() {
		return nil, d.unexpected()
	}
	if d.skip('e') || d.skip('E') {
		if !d.skip('+') {
			d.skip('-')
		}
		if !d.digits() {
			return nil, d.unexpected()
		}
	}
	if d.discard {
		return nil, nil
	}
	return json.Number(d.b[from:d.i]), nil
}

func (d *decoder) skip(c byte) bool {
	if d.i < len(d.b) && d.b[d.i] == c {
		d.i++
		return true
	}
	return false
}

func (d *decoder) digits() bool {
	from := d.i
	for d.i < len(d.b) && d.b[d.i] >= '0' && d.b[d.i] <= '9' {
		d.i++
	}
	return d.i > from
}
