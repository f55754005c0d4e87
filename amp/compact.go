package amp

import (
	"bytes"
	"encoding/json"
)

// appendCompact appends raw without white space, or says why it is not JSON.
// What is compact already, as most data is, is checked and copied at several
// times the speed of encoding/json, which decides in all other cases.
func appendCompact(b, raw []byte) ([]byte, error) {
	if value(raw, 0, 0) == len(raw) {
		return append(b, raw...), nil
	}
	out := bytes.NewBuffer(b)
	err := json.Compact(out, raw)
	return out.Bytes(), err
}

const maxDepth = 1000 // deeper values are left to encoding/json, as all that is odd

// value returns where the compact JSON value at s[i] ends, or -1.
func value(s []byte, i, depth int) int {
	if i >= len(s) || depth > maxDepth {
		return -1
	}
	switch c := s[i]; {
	case c == '"':
		return text(s, i)
	case c == '{':
		return list(s, i, '}', depth)
	case c == '[':
		return list(s, i, ']', depth)
	case c == '-' || c >= '0' && c <= '9':
		return number(s, i)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s[i:], []byte(word)) {
			return i + len(word)
		}
	}
	return -1
}

// list is an object or array.
func list(s []byte, i int, end byte, depth int) int {
	if i++; i < len(s) && s[i] == end {
		return i + 1
	}
	for {
		if end == '}' {
			if i = text(s, i); i < 0 || i >= len(s) || s[i] != ':' {
				return -1
			}
			i++
		}
		if i = value(s, i, depth+1); i < 0 || i >= len(s) {
			return -1
		}
		switch s[i] {
		case end:
			return i + 1
		case ',':
			i++
		default:
			return -1
		}
	}
}

func text(s []byte, i int) int {
	if i >= len(s) || s[i] != '"' {
		return -1
	}
	for i++; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i++; i >= len(s) {
				return -1
			}
			if s[i] == 'u' {
				for range 4 {
					if i++; i >= len(s) || !hexDigit(s[i]) {
						return -1
					}
				}
			} else if bytes.IndexByte([]byte(`"\/bfnrt`), s[i]) < 0 {
				return -1
			}
		}
	}
	return -1
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func number(s []byte, i int) int {
	if s[i] == '-' {
		i++
	}
	switch {
	case i >= len(s):
		return -1
	case s[i] == '0':
		i++
	default:
		if i = digits(s, i); i < 0 {
			return -1
		}
	}
	if i < len(s) && s[i] == '.' {
		if i = digits(s, i+1); i < 0 {
			return -1
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		return digits(s, i)
	}
	return i
}

// digits returns where a run of at least one digit ends, or -1.
func digits(s []byte, i int) int {
	start := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}
