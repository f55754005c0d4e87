package rpc

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// Quote is v as a JSON string.
func Quote(v string) string { return string(jsontext.Quote(v)) }

// Integer is the id that raw stands for. Servers that keep all numbers as floating
// point may send it back as one, and some that keep ids as text as a string.
func Integer(raw []byte) (int64, bool) {
	if n := len(raw); n > 2 && raw[0] == '"' && raw[n-1] == '"' {
		id, err := strconv.ParseUint(string(raw[1:n-1]), 10, 63)
		return int64(id), err == nil
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	if len(raw) == 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Members is the members of the object raw, without braces and line ends, except
// those that drop names. It reports false where raw is no object.
func Members(raw []byte, drop func(name []byte) bool) ([]byte, bool) {
	var out []byte
	ok := jsontext.Members(raw, func(name, value []byte) bool {
		if drop == nil || !drop(name) {
			if len(out) > 0 {
				out = append(out, ',')
			}
			n, _ := json.Marshal(string(name))
			out = append(append(append(out, n...), ':'), OneLine(value)...)
		}
		return true
	})
	return out, ok
}

// OneLine drops line ends, which valid JSON has only between tokens.
func OneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}

// ReservedMeta reports whether only the session may write that member of _meta.
func ReservedMeta(name []byte) bool {
	return string(name) == "progressToken" || bytes.HasPrefix(name, []byte("io.modelcontextprotocol/"))
}

const maxSample = 200 // bytes of what a server sent that are shown

// Printable is the beginning of b, safe for a terminal: what does not print is escaped,
// and what is cut off is an ellipsis.
func Printable(b []byte) string {
	cut := ""
	if len(b) > maxSample {
		b, cut = b[:maxSample], "…"
	}
	out := make([]byte, 0, len(b))
	for _, r := range string(b) {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			q := strconv.QuoteRuneToASCII(r)
			out = append(out, q[1:len(q)-1]...)
			continue
		}
		out = append(out, string(r)...)
	}
	return string(out) + cut
}
