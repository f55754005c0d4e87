// Package jsonnode parses JSON text into the nodes that the YAML parser makes of
// YAML, so that one decoder serves both. It takes the comments and trailing commas
// that editors allow in their settings. It decodes nothing into Go values.
package jsonnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Error says what is wrong with a text, and where. Line and Column count from 1,
// Column in characters.
type Error struct {
	Line, Column int
	Message      string
}

func (e *Error) Error() string { return e.Message }

// Parse parses one JSON document whose values are nested at most maxDepth deep.
// The error is an *Error.
func Parse(data []byte, maxDepth int) (*yaml.Node, error) {
	r := &reader{text: data, data: plain(data), maxDepth: maxDepth}
	r.dec = json.NewDecoder(bytes.NewReader(r.data))
	r.dec.UseNumber()
	root, err := r.value(0)
	if err == nil {
		at := r.next()
		if _, more := r.dec.Token(); !errors.Is(more, io.EOF) {
			err = &positioned{at, "there is text after the document"}
		}
	}
	if err == nil {
		return root, nil
	}
	at := r.dec.InputOffset()
	var pe *positioned
	var se *json.SyntaxError
	switch {
	case errors.As(err, &pe):
		at = pe.offset
	case errors.As(err, &se):
		at = r.culprit(se)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		at, err = int64(len(data)), errors.New("the document ends too early")
		if len(bytes.TrimSpace(r.data)) == 0 {
			at, err = 0, errors.New("the file is empty")
		}
	}
	line, column := r.position(at)
	return nil, &Error{line, column, err.Error()}
}

// reader builds nodes from the tokens of encoding/json. The YAML parser itself does
// not read all JSON: tabs and surrogate pairs stop it.
type reader struct {
	text  []byte // as in the file
	data  []byte // without comments, at the same offsets
	dec   *json.Decoder
	lines []int64 // offsets of line starts

	maxDepth int
}

type positioned struct {
	offset int64
	text   string
}

func (e *positioned) Error() string { return e.text }

// next is the offset of the coming token.
func (r *reader) next() int64 {
	i := r.dec.InputOffset()
	for i < int64(len(r.data)) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[i]) >= 0 {
		i++
	}
	return i
}

// culprit is the offset of the character that a syntax error is about: the
// decoder counts it in or not, by where it noticed.
func (r *reader) culprit(e *json.SyntaxError) int64 {
	at := max(e.Offset-1, r.next())
	if quoted, ok := strings.CutPrefix(e.Error(), "invalid character '"); ok && at+1 < int64(len(r.data)) &&
		r.data[at] != quoted[0] && r.data[at+1] == quoted[0] {
		at++
	}
	return at
}

func (r *reader) position(offset int64) (line, column int) {
	if r.lines == nil {
		r.lines = []int64{0}
		if bytes.HasPrefix(r.text, []byte(byteOrderMark)) {
			r.lines[0] = int64(len(byteOrderMark))
		}
		for i, c := range r.text {
			if c == '\n' {
				r.lines = append(r.lines, int64(i)+1)
			}
		}
	}
	offset = max(min(offset, int64(len(r.text))), r.lines[0])
	line = sort.Search(len(r.lines), func(i int) bool { return r.lines[i] > offset })
	return line, utf8.RuneCount(r.text[r.lines[line-1]:offset]) + 1
}

func (r *reader) value(depth int) (*yaml.Node, error) {
	at := r.next()
	if depth > r.maxDepth {
		return nil, &positioned{at, "values are nested too deeply"}
	}
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	n.Line, n.Column = r.position(at)
	switch v := tok.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for r.dec.More() {
			child, err := r.value(depth + 1) // of an object first the key, a string
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
			if v == '{' {
				if child, err = r.value(depth + 1); err != nil {
					return nil, err
				}
				n.Content = append(n.Content, child)
			}
		}
		_, err = r.dec.Token()
		return n, err
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Number:
		n.Tag, n.Value = "!!float", v.String()
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			n.Tag = "!!int"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(v)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

const byteOrderMark = "\ufeff"

// plain replaces comments, trailing commas and a byte order mark by blanks,
// so that offsets stay.
func plain(data []byte) []byte {
	out := bytes.Clone(data)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
	}
	if bytes.HasPrefix(out, []byte(byteOrderMark)) {
		blank(0, len(byteOrderMark))
	}
	comma := -1 // the last comma, while only blanks and comments followed it
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(out[i:], []byte("//")):
			end := len(out)
			if n := bytes.IndexByte(out[i:], '\n'); n >= 0 {
				end = i + n
			}
			blank(i, end)
			i = end - 1
		case bytes.HasPrefix(out[i:], []byte("/*")):
			n := bytes.Index(out[i+2:], []byte("*/"))
			if n < 0 {
				return out // the parser will stumble over it
			}
			end := i + 2 + n + 2
			blank(i, end)
			i = end - 1
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
	}
	return out
}
