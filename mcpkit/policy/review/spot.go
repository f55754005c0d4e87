package review

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"sync"
	"unsafe"
)

// groups is a set of groups of words, of all patterns together.
type groups uint64

// spotter finds in one pass which groups have a word in a text. A word is looked
// for only where one can begin, and there only if its first three bytes say so:
// most of a text is passed over.
type spotter struct {
	starts [1 << 16 / 64]uint64 // bit set: a word of two bytes or more may begin so
	signs  [256]groups          // of words that are one byte
	words  [256][]spot          // the others, by slot
}

type spot struct {
	word   string
	groups groups
}

// start is where the first three of four bytes, in either case, stand in
// spotter.starts.
func start(b []byte) uint16 {
	three := (binary.LittleEndian.Uint32(b) | 0x20202020) & 0xffffff
	return uint16(three * 0x9e3779b1 >> 16)
}

// slot spreads words over their lists by two bytes.
func slot(a, b byte) uint8 { return a*31 ^ b }

// spots knows the words of textRules, whose patterns it gave their needs.
var spots = sync.OnceValue(func() *spotter { return newSpotter(textRules) })

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
	if len(word) == 1 {
		s.signs[word[0]] |= bit
		return
	}
	for _, blank := range " \t\v\f\r" { // of which a text may have any
		for third := range 256 {
			begin := append([]byte(word), byte(third), 0)
			for i := range begin[:2] {
				if begin[i] == ' ' {
					begin[i] = byte(blank)
				}
			}
			if len(word) > 2 && word[2] == ' ' {
				begin[2] = byte(blank)
			}
			at := start(begin)
			s.starts[at>>6] |= 1 << (at & 63)
		}
	}
	list := &s.words[slot(word[0], word[1])]
	for i := range *list {
		if (*list)[i].word == word {
			(*list)[i].groups |= bit
			return
		}
	}
	*list = append(*list, spot{word, bit})
}

// spotted are the groups of which text holds a word. The text is ASCII in any
// form, or in plain form; ok is false where it is neither for sure.
func (s *spotter) spotted(text string, plain bool) (seen groups, ok bool) {
	b := unsafe.Slice(unsafe.StringData(text), len(text))
	inside := uint64(0) // the byte before is of a word: its high bit, moved down
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		if w&highs != 0 {
			if !plain {
				return 0, false
			}
			break // the rest goes byte by byte
		}
		word, blank := wordBytes(w), equal(w, ' ')
		begins := ^(word<<8 | inside) & word
		inside = word >> 56
		for at := (begins | ^word) & highs &^ blank; at != 0; at &= at - 1 {
			k := i + bits.TrailingZeros64(at)/8
			if k+4 <= len(b) && s.signs[b[k]] == 0 && b[k] >= ' ' {
				if first := start(b[k:]); s.starts[first>>6]&(1<<(first&63)) == 0 {
					continue
				}
			}
			if !s.at(text, k, plain, &seen) {
				return 0, false
			}
		}
	}
	for ; i < len(b); i++ {
		word := wordByte[b[i]]
		if (!word || inside == 0) && b[i] != ' ' && !s.at(text, i, plain, &seen) {
			return 0, false
		}
		if inside = 0; word {
			inside = highs >> 56
		}
	}
	return seen, true
}

// at adds the groups of the words that begin at i. It is false where the byte
// there may be none of ASCII in plain form.
func (s *spotter) at(text string, i int, plain bool, seen *groups) bool {
	if folded[text[i]] == otherByte && !plain {
		return false
	}
	c := lowered[text[i]]
	*seen |= s.signs[c]
	if i+1 == len(text) {
		return true
	}
	list := s.words[slot(c, lowered[text[i+1]])]
	for j := range list {
		if list[j].begins(text[i:]) {
			*seen |= list[j].groups
		}
	}
	return true
}

// Eight bytes are looked at at once; they must be ASCII. An answer has the high
// bit of each byte for which it is yes.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func equal(w uint64, c uint64) uint64   { return ^((w ^ c*ones | highs) - ones) & highs }
func atLeast(w uint64, c uint64) uint64 { return ((w | highs) - c*ones) & highs }
func atMost(w uint64, c uint64) uint64  { return ((c*ones | highs) - w) & highs }

// wordBytes is wordByte for eight bytes.
func wordBytes(w uint64) uint64 {
	lower := w | 0x20*ones
	return atLeast(lower, 'a')&atMost(lower, 'z') | atLeast(w, '0')&atMost(w, '9') | equal(w, '_')
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
