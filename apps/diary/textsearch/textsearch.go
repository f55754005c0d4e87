// Package textsearch finds the words of a query in texts of any language: it brings
// both to one form, counts the occurrences, and cuts out the text around the first.
//
//	folded := textsearch.Fold(text)
//	hits := textsearch.Count(folded, textsearch.Terms("郁金香 coffee"))
//
// The package knows no entries and keeps no index.
package textsearch

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const (
	snippetBefore = 40 // characters before the hit
	snippetAfter  = 80 // characters from the hit on
)

// Fold brings text to the form in which it is compared: Unicode NFKC without case, so
// that full-width and composed letters are one; Latin, Greek and Cyrillic letters
// without accents; katakana as hiragana; traditional Chinese characters as simplified
// ones; without variation selectors.
func Fold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	folded := norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
	return norm.NFC.String(strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Variation_Selector, r), r >= 0x300 && r <= 0x36f: // combining accents
			return -1
		case r >= 'ァ' && r <= 'ヶ', r == 'ヽ', r == 'ヾ':
			return r - 'ァ' + 'ぁ'
		case r >= 0x3400:
			if simple, ok := simplified()[r]; ok {
				return simple
			}
		}
		return r
	}, withoutAccents(folded)))
}

// withoutAccents takes apart the letters of Latin, Greek and Cyrillic that have an
// accent; those of other scripts stay whole, where a mark makes another letter.
func withoutAccents(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if r >= 0xc0 && r < 0x530 && r != 'й' || r >= 0x1e00 && r < 0x2000 {
			b.WriteString(norm.NFD.String(string(r)))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

//go:embed chinese.txt
var chinese string

// simplified are the traditional characters that have a simplified form.
var simplified = sync.OnceValue(func() map[rune]rune {
	forms := make(map[rune]rune)
	for line := range strings.Lines(chinese) {
		for _, pair := range strings.Fields(line) {
			if r := []rune(pair); len(r) == 2 {
				forms[r[0]] = r[1]
			}
		}
	}
	return forms
})

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Terms are the parts of a query that must all occur. They are found anywhere,
// also within words: Chinese and Japanese have no marks between theirs.
func Terms(query string) []string {
	list := strings.Fields(Fold(query))
	slices.Sort(list)
	return slices.Compact(list)
}

// Count is how often the terms occur in folded text, and 0 if one does not.
func Count(folded string, terms []string) (hits int) {
	for _, term := range terms {
		n := strings.Count(folded, term)
		if n == 0 {
			return 0
		}
		hits += n
	}
	return hits
}

// Snippet is the text around the first hit, or its beginning if the hit is
// elsewhere.
func Snippet(text string, terms []string) string {
	at := position(text, terms)
	start, end := at, at
	for n := 0; n < snippetBefore && start > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(text[:start])
		start -= size
	}
	for n := 0; n < snippetAfter && end < len(text); n++ {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	s := OneLine(text[start:end])
	if start > 0 {
		s = "…" + s
	}
	if end < len(text) {
		s += "…"
	}
	return s
}

// position is where in text the first hit begins, in bytes. Folding moves and
// merges bytes, so the way back leads through a table.
func position(text string, terms []string) int {
	var (
		folded  strings.Builder
		origin  []int // of each byte of folded
		segment norm.Iter
	)
	segment.InitString(norm.NFKC, text)
	for !segment.Done() {
		at := segment.Pos()
		folded.WriteString(Fold(string(segment.Next())))
		for len(origin) < folded.Len() {
			origin = append(origin, at)
		}
	}
	first := len(origin)
	for _, term := range terms {
		if i := strings.Index(folded.String(), term); i >= 0 {
			first = min(first, i)
		}
	}
	if first == len(origin) {
		return 0
	}
	return origin[first]
}

// OneLine is s without control characters and runs of space.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// FirstLine is the first line of text that says something, cut to n characters.
func FirstLine(text string, n int) string {
	for line := range strings.Lines(text) {
		if line = OneLine(strings.TrimLeft(line, "# \t")); line != "" {
			return cut(line, n)
		}
	}
	return ""
}

// cut is at most n characters of s, with a mark where there were more.
func cut(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}
