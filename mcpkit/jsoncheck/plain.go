package jsoncheck

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// plain is the length of the beginning of b that is ASCII and means itself inside
// a JSON string: most texts are that and nothing else.
func plain(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// In each byte the high bit is set where it was, and where there is a
		// control character, a quote or a backslash; a borrow reaches only bytes
		// after such a one.
		if odd := (w | (w - ' '*ones) | ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones)) & high; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// AppendString appends s as a JSON string, as encoding/json writes it but without
// escapes for HTML.
func AppendString(dst []byte, s string) []byte {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	dst = append(dst, '"')
	for i := 0; ; {
		n := plain(b[i:])
		dst = append(dst, b[i:i+n]...)
		if i += n; i == len(b) {
			return append(dst, '"')
		}
		if b[i] < utf8.RuneSelf {
			dst = appendEscaped(dst, b[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, `\ufffd`...)
		case r == '\u2028' || r == '\u2029': // line ends for JavaScript
			dst = append(dst, `\u202`...)
			dst = append(dst, "89"[r-'\u2028'])
		default:
			dst = append(dst, b[i:i+n]...)
		}
		i += n
	}
}

func appendEscaped(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
