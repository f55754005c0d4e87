package question

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shownOf is what a person reads of a call's arguments: their first maxShown bytes, hidden
// characters as escapes, and how many bytes are missing.
func shownOf(args []byte) string {
	if len(args) <= maxShown {
		return visible(string(args))
	}
	end := maxShown
	for end > maxShown-utf8.UTFMax && !utf8.RuneStart(args[end]) { // no character is cut in two
		end--
	}
	return fmt.Sprintf("%s… (%d bytes not shown)", visible(string(args[:end])), len(args)-end)
}

// visible replaces what a person would not see, or what changes the order or the place of
// what the person sees, by escapes: control, format (bidi, tags, joiners) and private
// characters, separators of lines, blanks other than the common one, marks that select a
// variant or fill a place without a shape, and bytes that are no UTF-8.
func visible(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hidden(r):
			b.WriteString(s[i : i+size])
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// hidden reports whether a character is not visible as itself. Of the blanks, only the
// common one is.
func hidden(r rune) bool {
	return r != ' ' && !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == '\u2800' // a Braille cell without dots
}
