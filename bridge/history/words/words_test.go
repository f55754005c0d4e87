package words

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWordsOfAnyLanguageAreSplit(t *testing.T) {
	for text, want := range map[string]string{
		"Delete the Diary of 2026-06-17": "delete the diary of 2026 06 17",
		"my.dice.roll_twice":             "my dice roll twice",
		"Löschen, ÉTÉ, Ἀθῆναι":           "loschen ete αθηναι",
		"删除日记":                           "删 删除 除 除日 日 日记 记",
		"删了A本":                           "删 删了 了 a 本",
		"東京タワー":                          "東 東京 京 京タ タ タワ ワ ワー ー",
		"서울에":                            "서 서울 울 울에 에",
		"ＡＢＣ ①":                          "abc 1",
		"ลบ":                             "ล ลบ บ",
		"\x1b[31mred\x1b[0m a\u202eb":    "31mred 0m a b",
		"...":                            "",
		"the The THE":                    "the",
		strings.Repeat("x", 90):          strings.Repeat("x", 40),
	} {
		if got := strings.Join(Of(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestAQueryAsksForEachWordAndPair(t *testing.T) {
	for text, want := range map[string]string{
		"Delete  diary": "delete diary",
		"删除":            "删除",
		"删":             "删",
		"删除日记":          "删除 除日 日记",
		"dele*":         "dele*",
		"a dele* b":     "a dele* b",
		"删除*":           "删除",
		"* . \"":        "",
	} {
		var got []string
		for _, term := range Query(text) {
			w := term.Word
			if term.Prefix {
				w += "*"
			}
			got = append(got, w)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: got %q, want %q", text, s, want)
		}
	}
}

// FuzzWhatATextHasIsFound holds that a query of a part of a text between blanks
// asks for nothing that the text has not.
func FuzzWhatATextHasIsFound(f *testing.F) {
	for _, s := range []string{"a b c", "删除 日记本", "Löschen ÉTÉ", "한국어 서울에", "ก็ ลบ", "x\u0301y \u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		has := map[string]bool{}
		for _, w := range Of(text) {
			if w == "" || !utf8.ValidString(w) || strings.ContainsAny(w, " \"*") {
				t.Fatalf("the word %q", w)
			}
			has[w] = true
		}
		for part := range strings.FieldsSeq(text) {
			for _, term := range Query(strings.TrimRight(part, "*")) {
				if !has[term.Word] {
					t.Fatalf("%q is asked for by %q and not among the words of %q", term.Word, part, text)
				}
			}
		}
	})
}
