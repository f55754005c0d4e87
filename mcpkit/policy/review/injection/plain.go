package injection

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Plain brings a text into the form that the rules know: composed, in lower case,
// letters of other scripts that look like Latin ones as those, Latin letters without
// accents, one blank between words.
func Plain(s string) string {
	if !ascii(s) {
		s = strings.ToLower(norm.NFKC.String(s))
	}
	var b strings.Builder
	b.Grow(len(s))
	blank, last := false, byte(0) // a blank is due; the last byte written
	for _, r := range s {
		if r == '\n' {
			// Line ends stay for the rules that look at a line's beginning.
			if last != 0 && last != '\n' {
				b.WriteByte('\n')
				last = '\n'
			}
			blank = false
			continue
		}
		if unicode.IsSpace(r) {
			blank = true
			continue
		}
		if blank && last != 0 {
			b.WriteByte(' ')
		}
		blank, last = false, 1
		if 'A' <= r && r <= 'Z' { // in a text of ASCII alone
			r += 'a' - 'A'
		}
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
		} else {
			b.WriteRune(base(r))
		}
	}
	return b.String()
}

// ascii reports whether s has no character beyond ASCII.
func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// base is the Latin letter that a lower-case one looks like, without its accents, or
// the letter itself.
func base(r rune) rune {
	if like, ok := Lookalike(r); ok {
		return like
	}
	if r >= 0xc0 && r < 0x250 || r >= 0x1e00 && r < 0x1f00 {
		first, _ := utf8.DecodeRuneInString(norm.NFD.String(string(r)))
		return first
	}
	return r
}

// joined puts together the words of s that are written as single letters with one
// blank or sign between them: "i g n o r e   a l l", "i-g-n-o-r-e". It is false where
// s has no such word of five letters or more.
func joined(s string) (string, bool) {
	if !spelled(s) { // as most texts, which then cost no memory
		return "", false
	}
	return build(s)
}

// build is joined without asking first whether it is worth it.
func build(s string) (string, bool) {
	var b strings.Builder
	found := false
	r := []rune(s)
	alone := func(i int) bool { // no letter or digit stands before r[i]
		return i == 0 || !unicode.IsLetter(r[i-1]) && !unicode.IsDigit(r[i-1])
	}
	ends := func(i int) bool { // nor after it
		return i+1 >= len(r) || !unicode.IsLetter(r[i+1]) && !unicode.IsDigit(r[i+1])
	}
	for i := 0; i < len(r); i++ {
		b.WriteRune(r[i])
		if !unicode.IsLetter(r[i]) || !alone(i) || !ends(i) {
			continue
		}
		n := 1
		for i+2 < len(r) && strings.ContainsRune(" .-_*·\u00a0\u3000", r[i+1]) && unicode.IsLetter(r[i+2]) && ends(i+2) {
			b.WriteRune(r[i+2])
			i += 2
			n++
		}
		found = found || n >= 5
	}
	return b.String(), found
}

// signs are the ASCII characters that may stand between the letters of a word that
// is spelled out.
const signs = " .-_*"

// spelled reports whether an ASCII text has five single bytes with a sign between
// each two of them. It is true for every text that is not ASCII.
func spelled(s string) bool {
	run := 0
	for i := 1; i < len(s); i += 2 {
		for i < len(s) && s[i] < utf8.RuneSelf && strings.IndexByte(signs, s[i]) < 0 {
			run = 0
			i++
		}
		if i < len(s) && s[i] >= utf8.RuneSelf {
			return true
		}
		if run++; run >= 4 {
			return true
		}
	}
	return false
}

// LongRun reports whether 200 characters of base64 stand in a row.
func LongRun(s string) bool {
	n := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if n++; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/') {
			n = 0
		}
		if n == 200 {
			return true
		}
	}
	return false
}

// Around is the part of s that a match covers, with some of its neighbourhood.
func Around(s string, m []int) string {
	from, to := max(0, m[0]-20), min(len(s), m[1]+40)
	return strings.ToValidUTF8(s[from:to], "")
}

// Lookalike is the Latin letter that a lower-case letter of another script is drawn as.
func Lookalike(r rune) (like rune, ok bool) {
	like, ok = lookalikes()[r]
	return like, ok
}

var lookalikes = sync.OnceValue(func() map[rune]rune {
	const pairs = "аaвbсcԁdеeғfԍgһhіiјjкkӏlмmнhоoрpԛqгrѕsтtуyѵvԝwхxүy" + // Cyrillic
		"αaβbεeηnιiκkνvοoρpτtυuχxγy" + // Greek
		"օoսuոnհhցgյjքqզqՏs" + // Armenian
		"ɑaɡgıiɩiʀrʏyꜱsᴏoᴠvᴡwᴢzɪi" // Latin beyond the keyboard
	out := map[rune]rune{}
	runes := []rune(pairs)
	for i := 0; i+1 < len(runes); i += 2 {
		out[unicode.ToLower(runes[i])] = runes[i+1]
	}
	return out
})
