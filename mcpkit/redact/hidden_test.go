package redact

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestStripTakesWhatIsNotSeenAndLeavesWhatIsNeeded(t *testing.T) {
	for _, c := range []struct {
		in, want string
		n        int
	}{
		{"plain text\twith\nlines\r\n", "plain text\twith\nlines\r\n", 0},
		{"天气 é 日本語 עברית العربية", "天气 é 日本語 עברית العربية", 0},
		{"a\x00b\x08c\x7fd\u0085e", "abcde", 4},
		{"\x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link\x1b]8;;\x1b\\", "red link", 4},
		{"\u009b2Jgone \x1bPq#1\x1b\\ \x1b(B!", "gone  !", 3},
		{"open \x1b]0;title without end", "open 0;title without end", 1},
		{"user\u202etxt.exe\u2066\u2069", "usertxt.exe", 3},
		{"ig\u200bno\u2060re\ufeff\u00ad", "ignore", 4},
		{"tags" + "\U000e0041\U000e0042" + "!", "tags!", 2},
		{"a" + strings.Repeat("\ufe01", 3) + "漢\U000e0100\U000e0101", "a漢\U000e0100", 4},
		{"👩\u200d🚀 👨\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3", "👩\u200d🚀 👨\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3", 0},
		{"می\u200cخواهم क\u094d\u200dष", "می\u200cخواهم क\u094d\u200dष", 0},
		{"a\u200db \u200c", "ab ", 2},
		{"one\u2028two\u2029three\rfour", "one\ntwo\nthreefour", 1},
		{"bad \xff\xfe utf", "bad \ufffd\ufffd utf", 0},
		{"\u3164\uffa0filler", "filler", 2},
	} {
		got, n := Strip(c.in)
		if got != c.want || n != c.n {
			t.Errorf("Strip(%+q) = %+q, %d; want %+q, %d", c.in, got, n, c.want, c.n)
		}
	}
}

func TestShowSpellsOutWhatIsNotSeen(t *testing.T) {
	for in, want := range map[string]string{
		"plain 天气":                    "plain 天气",
		"a\nb\tc\r":                   `a\nb\tc\r`,
		"\x1b[2J\x00\x7f\u0085":       `\x1b[2J\x00\x7f\u0085`,
		"u\u202e\u200b\U000e0041\xff": `u\u202e\u200b\U000e0041\xff`,
		"é\u2028é\n":                  `é\u2028é\n`,
		"👩\u200d🚀":                    "👩\u200d🚀",
	} {
		if got := Show(in); got != want {
			t.Errorf("Show(%+q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzHidden(f *testing.F) {
	f.Add("\x1b[31mred\x1b]0;x\x07 \u200b\U000e0041👩\u200d🚀\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		clean, n := Strip(s)
		if again, m := Strip(clean); again != clean || m != 0 {
			t.Fatalf("%+q became %+q and then %+q", s, clean, again)
		}
		if !utf8.ValidString(clean) || strings.ContainsAny(clean, "\x1b\x00\u202e\u200b\u2028") {
			t.Fatalf("%+q became %+q", s, clean)
		}
		if n == 0 && len(clean) < len(s) && utf8.ValidString(s) && !strings.ContainsAny(s, "\u2028\u2029") {
			t.Fatalf("%+q lost something unseen and became %+q", s, clean)
		}
		if shown := Show(s); strings.ContainsAny(shown, "\x1b\x00\r\u202e\u200b") || !utf8.ValidString(shown) {
			t.Fatalf("%+q is shown as %+q", s, shown)
		}
	})
}

func TestWhateverUnicodeSaysIsDrawnAsNothingIsHidden(t *testing.T) {
	for _, table := range []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector} {
		for _, r := range table.R16 {
			for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
				if out, n := Strip("a" + string(c) + "b"); n != 1 || out != "ab" {
					t.Errorf("%U stays", c)
				}
			}
		}
		for _, r := range table.R32 {
			for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
				if out, n := Strip("a" + string(c) + "b"); n != 1 || out != "ab" {
					t.Errorf("%U stays", c)
				}
			}
		}
	}
}
