package scan

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Unescape is the character that the escape at the beginning of b stands for and how
// many bytes the escape has: two escapes where those are the halves of one character.
// A lone half stands for U+FFFD. The size is 0 where there is no valid escape.
func Unescape(b []byte) (r rune, size int) {
	if len(b) < len(`\n`) {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	r = CodeUnit(b)
	switch {
	case r < 0:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if r = utf16.DecodeRune(r, CodeUnit(b[6:])); r == utf8.RuneError {
		return r, 6
	}
	return r, 12
}

// CodeUnit is the UTF-16 code unit of the escape \uXXXX that b begins with, or -1.
func CodeUnit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		d := hexDigit(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | d
	}
	return r
}

// hexDigit is the value of a hexadecimal digit, or -1.
func hexDigit(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c - 'a' + 10)
	case c >= 'A' && c <= 'F':
		return rune(c - 'A' + 10)
	}
	return -1
}
