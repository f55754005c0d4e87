package review

import "strings"

// groups is a set of groups of words, of all patterns together.
type groups uint64

// spotter finds in one pass which groups have a word in a text. A word is looked
// for only where one can begin, and there only if its first two bytes say so:
// most of a text is passed over.
type spotter struct {
	pairs [1 << 16 / 64]uint64 // bit set: a word begins so
	words [256][]spot          // by first byte
}

type spot struct {
	word   string
	groups groups
}

// spots knows the words of textRules, whose patterns it gave their needs.
var spots = newSpotter(textRules)

func newSpotter(rules []textRule) *spotter {
	s, numbers := &spotter{}, map[string]groups{}
	for i := range rules {
		for j := range rules[i].patterns {
			p := &rules[i].patterns[j]
			for _, group := range p.words {
				name := strings.Join(group, "|")
				bit, known := numbers[name]
				if !known {
					bit = 1 << len(numbers)
					if bit == 0 {
						panic("review: more groups of words than bits")
					}
					numbers[name] = bit
					for _, w := range group {
						s.add(w, bit)
					}
				}
				p.need |= bit
			}
		}
	}
	return s
}

func (s *spotter) add(word string, bit groups) {
	list := s.words[word[0]]
	for i := range list {
		if list[i].word == word {
			list[i].groups |= bit
			return
		}
	}
	s.words[word[0]] = append(list, spot{word, bit})
	for second := range 256 {
		if len(word) == 1 || word[1] == byte(second) {
			p := uint16(word[0])<<8 | uint16(second)
			s.pairs[p>>6] |= 1 << (p & 63)
		}
	}
}

// spotted are the groups of which text holds a word. The text is ASCII in any
// form, or in plain form; ok is false where it is neither for sure.
func (s *spotter) spotted(text string, plain bool) (seen groups, ok bool) {
	inside := false // a word, by the measure of \b
	for i := 0; i < len(text); i++ {
		c := text[i]
		letter := wordByte[c]
		if letter && inside {
			continue
		}
		if inside = letter; c == ' ' {
			continue
		}
		if folded[c] == otherByte && !plain {
			return 0, false
		}
		p := uint16(lowered[c]) << 8 // no word has a zero byte
		if i+1 < len(text) {
			p |= uint16(lowered[text[i+1]])
		}
		if s.pairs[p>>6]&(1<<(p&63)) == 0 {
			continue
		}
		for j := range s.words[p>>8] {
			if w := &s.words[p>>8][j]; w.begins(text[i:]) {
				seen |= w.groups
			}
		}
	}
	return seen, true
}

// begins reports whether text begins with the word once it is in plain form.
func (w *spot) begins(text string) bool {
	i := 0
	for k := range len(w.word) {
		if i == len(text) || lowered[text[i]] != w.word[k] {
			return false
		}
		i++
		if w.word[k] == ' ' {
			for i < len(text) && lowered[text[i]] == ' ' {
				i++
			}
		}
	}
	return true
}

// lowered is each byte in lower case; blanks other than line ends are one.
var lowered = func() (t [256]byte) {
	for c := range 256 {
		t[c] = byte(c)
		switch folded[c] {
		case otherByte, lineByte:
		case blankByte:
			t[c] = ' '
		default:
			t[c] = folded[c]
		}
	}
	return t
}()

// wordByte marks what \b takes for part of a word, in lower case.
var wordByte = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
	}
	return t
}()
