package base

import (
	"strings"
)

// Visible removes the characters of s that a person does not see and a model
// reads: tags, zero-width and bidirectional controls, variation selectors
// beyond the emoji ones, and control characters other than tab and line ends.
// A joiner stays between letters of scripts, and emoji, that need it.
func Visible(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	rs := []rune(s)
	for i, r := range rs {
		if !hidden(r) || (r == 0x200c || r == 0x200d) && i > 0 && joins(rs[i-1]) && i+1 < len(rs) && joins(rs[i+1]) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	switch {
	case r < 0x20:
		return r != '\t' && r != '\n' && r != '\r'
	case r < 0xad:
		return r >= 0x7f && r < 0xa0
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe0fff, r >= 0xfe00 && r <= 0xfe0d:
		return true
	}
	switch r {
	case 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180c, 0x180d, 0x180e, 0x180f, 0x3164, 0xfeff, 0xffa0:
		return true
	}
	return false
}

// joins reports whether r is of a kind that joiners stand between: scripts
// beyond the Latin ones, and emoji.
func joins(r rune) bool { return r >= 0x0590 && !hidden(r) }
