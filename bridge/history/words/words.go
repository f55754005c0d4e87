// Package words splits text of any language into the words that a search finds.
//
//	words.Of("Löschen des Eintrags 删除日记") // loschen des eintrags 删 删除 除 除日 日 日记 记
//
// A word is a run of letters and digits, in lower case, without accents and in the
// compatibility form of Unicode, so that ＡＢＣ is abc. Scripts that put no blank
// between words (Han, kana, Thai, Lao, Khmer, Burmese) and Hangul, whose particles
// hang on the words, are split into characters and pairs of neighbours: a Chinese
// word of two characters is one pair. The package stores nothing.
package words

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxWord is how many characters of a word are kept.
const maxWord = 40

// pairs are the scripts that are split into pairs.
var pairs = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// Of are the words of a text that is stored, each once, in the order in which they
// come.
func Of(text string) []string {
	var s Set
	s.Add(text)
	return s.Words()
}

// Set collects the words of several texts.
type Set struct {
	list []string
	seen map[string]bool
}

// Add adds the words of a text.
func (s *Set) Add(text string) {
	split(text, func(run []rune, paired bool) {
		if !paired {
			s.add(string(run))
			return
		}
		for i, r := range run {
			s.add(string(r))
			if i+1 < len(run) {
				s.add(string(run[i : i+2]))
			}
		}
	})
}

func (s *Set) add(word string) {
	if s.seen == nil {
		s.seen = make(map[string]bool)
	}
	if !s.seen[word] {
		s.seen[word] = true
		s.list = append(s.list, word)
	}
}

// Words are the words that were added, each once.
func (s *Set) Words() []string { return s.list }

// Term is one thing that a text must have to be found.
type Term struct {
	Word   string
	Prefix bool // Word is the beginning of a word
}

// Query are the terms of what a person searches for: every word of it, and of a
// longer run of a script without blanks its pairs. A * behind a word stands for any
// end of it. Without a letter or digit there are no terms.
func Query(text string) []Term {
	var out []Term
	seen := map[Term]bool{}
	add := func(t Term) {
		if !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	for field := range strings.FieldsSeq(text) {
		open := strings.HasSuffix(field, "*")
		var runs [][]rune
		var last bool // whether the last run is of a script that is split into pairs
		split(field, func(run []rune, paired bool) {
			runs, last = append(runs, run), paired
			switch {
			case !paired || len(run) == 1:
				add(Term{Word: string(run)})
			default:
				for i := range len(run) - 1 {
					add(Term{Word: string(run[i : i+2])})
				}
			}
		})
		if n := len(runs); open && n > 0 && !last {
			whole := Term{Word: string(runs[n-1])}
			for i, t := range out {
				if t == whole {
					out[i].Prefix = true
				}
			}
		}
	}
	return out
}

// split calls f for each run of letters and digits of one kind.
func split(text string, f func(run []rune, paired bool)) {
	var run []rune
	var paired bool
	flush := func() {
		if len(run) > 0 {
			if !paired && len(run) > maxWord {
				run = run[:maxWord]
			}
			f(run, paired)
			run = nil
		}
	}
	for _, r := range fold(text) {
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) {
			flush()
			continue
		}
		if p := inPairs(r); p != paired {

			flush()
			paired = p
		}
		run = append(run, r)
	}
	flush()
}

// inPairs reports whether r is of a script that is split into pairs.
func inPairs(r rune) bool {
	if r < 0xe00 { // the first of Thai; nearly all letters of other scripts are below
		return false
	}
	return r >= 0x4e00 && r <= 0x9fff || r == 'ー' /* of both kana */ || unicode.In(r, pairs...)
}

// fold is text in lower case, its accents apart from their letters.
func fold(text string) string {
	plain := true
	for i := range len(text) {
		if text[i] >= 0x80 {
			plain = false
			break
		}
	}
	if plain {
		return strings.ToLower(text)
	}
	// Hangul is decomposed by this too, and composed again, so that a pair is of syllables.
	return norm.NFKC.String(strings.Map(accent, strings.ToLower(norm.NFKD.String(text))))
}

// accent drops the accents of alphabets.
func accent(r rune) rune {
	if r >= 0x300 && r <= 0x36f {
		return -1
	}
	return r
}
