package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"unsafe"

	"github.com/aurorabot-dev/platform/mcpkit/redact/internal/shapes"
)

// view reads bytes as a string without copying; the bytes must not change while
// the string is in use.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// outside marks the bytes that JSON has outside of strings.
var outside = func() (t [256]bool) {
	for _, c := range []byte("{}[]:,+-.0123456789eE truefalsn\t\r\n") {
		t[c] = true
	}
	return t
}()

// JSON returns raw without secrets in its strings, names of members included.
// Everything else, numbers above all, stays byte for byte; so does all of raw
// where nothing was found. A member whose name says that it is a password or
// token loses its value where that looks like one. What is not JSON is redacted
// as text.
func (r *Redactor) JSON(raw json.RawMessage) (json.RawMessage, Hits) {
	x := r.load()
	var hits Hits
	var out, buf []byte
	done := 0
	secretMember := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '"' {
			if !outside[c] {
				return r.Bytes(raw)
			}
			if c > ' ' && c != ':' {
				secretMember = false
			}
			continue
		}
		var text string
		var end int
		if text, end, buf = stringAt(raw, i+1, buf); end < 0 {
			return r.Bytes(raw)
		}
		var clean string
		var found Hits
		isName := nextByte(raw, end+1) == ':'
		if secretMember && shapes.Plausible(text, true) && !strings.ContainsAny(text, " \n") {
			clean, found = shapes.Marker(shapes.Password), Hits{shapes.Password: 1}
		} else {
			clean = x.clean(text, &found)
		}
		if found != nil {
			hits.Merge(found)
			out = append(out, raw[done:i]...)
			out = appendQuoted(out, clean)
			done = end + 1
		}
		secretMember = isName && shapes.SecretName(text)
		i = end
	}
	if hits == nil {
		return raw, nil
	}
	return append(out, raw[done:]...), hits
}

// stringAt returns what the JSON string that begins at i means and the index of
// its closing quote, or -1. Where there are escapes the meaning is in buf, which
// is returned for the next time.
func stringAt(raw []byte, i int, buf []byte) (string, int, []byte) {
	n := bytes.IndexByte(raw[i:], '"')
	if n < 0 {
		return "", -1, buf
	}
	if bytes.IndexByte(raw[i:i+n], '\\') < 0 {
		return view(raw[i : i+n]), i + n, buf
	}
	buf, end := unescape(buf[:0], raw, i)
	return view(buf), end, buf
}

func nextByte(raw []byte, i int) byte {
	for ; i < len(raw); i++ {
		if c := raw[i]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}
