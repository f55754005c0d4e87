package redact

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// Strip takes out of s what a person does not see but a model or a terminal
// reads: control characters other than tab and line ends, ANSI escape sequences,
// bidirectional controls, zero-width characters, tag characters and variation
// selectors that select nothing. It returns how many were taken out. Line and
// paragraph separators become line ends and broken UTF-8 becomes U+FFFD. Joiners
// stay where scripts and emoji need them.
func Strip(s string) (string, int) {
	i := firstOdd(s)
	if i == len(s) {
		return s, 0
	}
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[:i])
	prev, n := lastRune(s[:i]), 0
	for i < len(s) {
		if size := ansi(s[i:]); size > 0 {
			i, n = i+size, n+1
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		next, _ := utf8.DecodeRuneInString(s[i+size:])
		switch {
		case r == '\u2028' || r == '\u2029':
			b.WriteByte('\n')
		case r == '\r' && next == '\n':
			b.WriteByte('\r')
		case hidden(r) && !needed(prev, r, next):
			n++
			i += size
			continue // prev stays: what was hidden joins nothing
		default:
			b.WriteRune(r)
		}
		prev = r
		i += size
	}
	return b.String(), n
}

// Show writes s on one line with everything that is hidden, and line ends and
// tabs, spelled out: \n, \x1b, \u202e. It is for names and values in terminals
// and logs.
func Show(s string) string {
	i := firstOdd(s)
	if j := strings.IndexAny(s[:i], "\n\t"); j >= 0 {
		i = j
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	prev := lastRune(s[:i])
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		next, _ := utf8.DecodeRuneInString(s[i+size:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r != '\u2028' && r != '\u2029' && (!hidden(r) || needed(prev, r, next)):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		prev = r
		i += size
	}
	return b.String()
}

// firstOdd is the index of the first character that needs a look: most text has
// none. Line ends and tabs do not.
func firstOdd(s string) int {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	for i := 0; i < len(s); {
		for i+8 <= len(b) && allPrintable(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i == len(s) {
			return i
		}
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' || hidden(r) {
			return i
		}
		i += size
	}
	return len(s)
}

// allPrintable reports whether eight bytes are all printable ASCII; at worst it
// says no although they are.
func allPrintable(w uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	del := w ^ 0x7f*ones
	return (w|(w-' '*ones)|(del-ones))&high == 0
}

func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// hidden reports whether r is not seen: controls, formats, and letters and marks
// that are drawn as nothing.
func hidden(r rune) bool {
	switch {
	case r < 0x80:
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	case r < 0xa0, r == 0xad:
		return true // C1 controls; soft hyphen
	case r < 0x300:
		return false
	case r == 0x34f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x3164, r == 0xffa0:
		return true // joiners and fillers
	case r >= 0x180b && r <= 0x180f, r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef:
		return true // variation selectors
	case r >= 0x2000 && r <= 0x206f:
		return r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2060
	case r >= 0xfff0 && r <= 0xfff8, r >= 0xe0000 && r <= 0xe0fff:
		return true // tags, and what is reserved to be drawn as nothing
	case r >= 0x0600 && r <= 0x0605, r == 0x06dd, r == 0x070f, r == 0x0890, r == 0x0891, r == 0x08e2, r == 0x110bd, r == 0x110cd:
		return false // signs that enclose numbers are formats but seen
	case r >= 0x4e00 && r <= 0x9fff:
		return false
	}
	return unicode.Is(unicode.Cf, r)
}

// needed reports whether a hidden character does honest work between its
// neighbours.
func needed(prev, r, next rune) bool {
	switch {
	case r == 0x200d && emoji(prev) && unicode.Is(unicode.So, next): // families, professions
		return true
	case r == 0x200c || r == 0x200d: // Arabic and Indic spelling
		return complexScript(prev) && complexScript(next)
	case r == 0xfe0e || r == 0xfe0f: // text or emoji form of a symbol
		return prev > 0x20 && (unicode.IsSymbol(prev) || unicode.IsPunct(prev) || prev >= '0' && prev <= '9')
	case r >= 0xfe00 && r <= 0xfe0d, r >= 0xe0100 && r <= 0xe01ef: // forms of one character
		return unicode.Is(unicode.Han, prev) || r < 0xfe10 && unicode.Is(unicode.Sm, prev)
	case r >= 0x180b && r <= 0x180f:
		return unicode.Is(unicode.Mongolian, prev) && !hidden(prev)
	}
	return false
}

func emoji(r rune) bool {
	return unicode.Is(unicode.So, r) || r == 0xfe0f || r >= 0x1f3fb && r <= 0x1f3ff
}

func complexScript(r rune) bool {
	return r >= 0x600 && r < 0x1e00 && (unicode.IsLetter(r) || unicode.IsMark(r)) && !hidden(r)
}

// ansi is the length of the escape sequence that s begins with, or 0 (ECMA-48
// sections 5.4 and 5.6; one that never ends is cut after the text that could
// belong to it).
func ansi(s string) int {
	body := 0
	switch {
	case len(s) > 1 && s[0] == 0x1b:
		body = 2
	case strings.HasPrefix(s, "\u009b"):
		return 2 + csi(s[2:])
	default:
		return 0
	}
	switch c := s[1]; {
	case c == '[':
		return body + csi(s[body:])
	case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_': // strings to BEL or ST
		for i := body; i < len(s) && s[i] != '\n'; i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b {
				if i+1 < len(s) && s[i+1] == '\\' {
					i++
				}
				return i + 1
			}
		}
		return body // no end: only the introducer goes, the text stays visible
	case c >= 0x20 && c <= 0x2f:
		for body < len(s) && s[body] >= 0x20 && s[body] <= 0x2f {
			body++
		}
		if body < len(s) && s[body] >= 0x30 && s[body] <= 0x7e {
			body++
		}
		return body
	case c >= 0x30 && c <= 0x7e:
		return body
	}
	return 1
}

// csi is the length of a control sequence after its introducer.
func csi(s string) int {
	i := 0
	for i < len(s) && s[i] >= 0x30 && s[i] <= 0x3f {
		i++
	}
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
		i++
	}
	if i < len(s) && s[i] >= 0x40 && s[i] <= 0x7e {
		i++
	}
	return i
}
