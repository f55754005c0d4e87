package jsontext

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext/internal/scan"
)

// AppendQuote appends s as a JSON string. It escapes what encoding/json escapes
// except <, > and &, which mean nothing outside of HTML: quotes, backslashes, control
// characters, and U+2028 and U+2029, which end a line for some readers. Bytes that
// are no UTF-8 become \ufffd.
func AppendQuote[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0 // of s, what is written
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			if r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		dst = append(append(dst, s[done:i]...), '\\')
		switch r {
		case '"', '\\':
			dst = append(dst, c)
		case '\b':
			dst = append(dst, 'b')
		case '\f':
			dst = append(dst, 'f')
		case '\n':
			dst = append(dst, 'n')
		case '\r':
			dst = append(dst, 'r')
		case '\t':
			dst = append(dst, 't')
		default:
			dst = append(dst, 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
		i += size
		done = i
	}
	return append(append(dst, s[done:]...), '"')
}

// Quote is s as a JSON string, as [AppendQuote] writes it.
func Quote(s string) []byte { return AppendQuote(make([]byte, 0, len(s)+len(`""`)), s) }

// Marshal is v as encoding/json writes it, with <, > and & as they are, which mean
// nothing outside of HTML. The error is that of encoding/json.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// AppendUnquote appends what the JSON string literal means, of which it reads limit
// bytes at most and then ends between two characters. What is no string is empty.
func AppendUnquote(dst, literal []byte, limit int) []byte {
	if len(literal) < len(`""`) || literal[0] != '"' {
		return dst
	}
	s := literal[1 : len(literal)-1]
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return appendValid(dst, s)
		}
		dst = appendValid(dst, s[:n])
		r, size := scan.Unescape(s[n:])
		if size == 0 { // the limit cut the escape
			return dst
		}
		dst = utf8.AppendRune(dst, r)
		s = s[n+size:]
	}
}

// appendValid appends text, each byte that is no UTF-8 as U+FFFD.
func appendValid(dst, text []byte) []byte {
	if utf8.Valid(text) {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[size:]
	}
	return dst
}

// String is what the JSON string raw means, or "" where raw is no string.
func String(raw []byte) string {
	n := len(raw)
	if n >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : n-1])
	}
	return string(AppendUnquote(nil, raw, n))
}

// Clean is b as valid UTF-8 whose escapes are valid too: bytes that are no UTF-8 and
// escapes of lone surrogates become U+FFFD. It may write into b.
func Clean(b []byte) []byte {
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	for i := loneSurrogate(b, 0); i >= 0; i = loneSurrogate(b, i) {
		copy(b[i:], `\ufffd`)
	}
	return b
}

// LoneSurrogate reports whether a string of raw holds half a character: an escaped
// surrogate without its other half. No text can say what that means (RFC 8259, section
// 8.2), and strict readers refuse it or die of it. Raw must be valid JSON.
func LoneSurrogate(raw []byte) bool { return loneSurrogate(raw, 0) >= 0 }

// loneSurrogate is the index of the first escape of a lone surrogate at i or after it,
// or -1. At i there must be no middle of an escape.
func loneSurrogate(b []byte, i int) int {
	for i < len(b) {
		n := bytes.IndexByte(b[i:], '\\')
		if n < 0 {
			break
		}
		i += n
		_, size := scan.Unescape(b[i:])
		if size == len(`\u0000`) && utf16.IsSurrogate(scan.CodeUnit(b[i:])) {
			return i
		}
		i += max(size, len(`\n`))
	}
	return -1
}
