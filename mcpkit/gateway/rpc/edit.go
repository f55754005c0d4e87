package rpc

import (
	"bytes"
	"slices"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// Text is the string that raw stands for.
func Text(raw []byte) (s string, ok bool) {
	return jsontext.String(raw), len(raw) > 0 && raw[0] == '"'
}

// Quote is s as JSON.
func Quote(s string) []byte { return jsontext.Quote(s) }

// With is the object raw with member name set to value, at its beginning; members
// with names in drop, and an older one of that name, are left out.
func With(raw []byte, name string, value []byte, drop ...string) []byte {
	b := append(make([]byte, 0, len(raw)+len(name)+len(value)+8), '{')
	if name != "" {
		b = append(append(append(b, Quote(name)...), ':'), value...)
	}
	jsontext.Members(raw, func(n, v []byte) bool {
		if string(n) == name || slices.Contains(drop, string(n)) {
			return true
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, Quote(string(n))...), ':'), v...)
		return true
	})
	return append(b, '}')
}

// OneLine is a message without line ends, which valid JSON has only between tokens.
func OneLine(msg []byte) []byte {
	if bytes.IndexByte(msg, '\n') < 0 && bytes.IndexByte(msg, '\r') < 0 {
		return msg
	}
	out := make([]byte, 0, len(msg))
	for _, c := range msg {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}

// Replace is the object raw with the value of one member replaced, or raw itself
// where it has no such member.
func Replace(raw []byte, name string, f func(value []byte) []byte) []byte {
	if jsontext.Get(raw, name) == nil {
		return raw
	}
	b := append(make([]byte, 0, len(raw)+64), '{')
	jsontext.Members(raw, func(n, v []byte) bool {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(jsontext.AppendQuote(b, n), ':')
		if string(n) == name {
			v = f(v)
		}
		b = append(b, v...)
		return true
	})
	return append(b, '}')
}

// Each is the array raw with its elements replaced, or raw itself where it is none.
func Each(raw []byte, f func(v []byte) []byte) []byte {
	b := append(make([]byte, 0, len(raw)+64), '[')
	ok := jsontext.Elements(raw, func(v []byte) bool {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, f(v)...)
		return true
	})
	if !ok {
		return raw
	}
	return append(b, ']')
}
