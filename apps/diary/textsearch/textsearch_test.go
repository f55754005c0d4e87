package textsearch

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextsAreComparedWithoutCaseWidthAndComposition(t *testing.T) {
	for a, b := range map[string]string{
		"ＡＢＣ１２３": "abc123", "Straße": "STRASSE", "Caf\u00e9": "cafe\u0301", "ﬁne": "FINE",
		"ｶﾞ": "ガ", "①": "1", "ΣΊΣΥΦΟΣ": "σίσυφος", "㈱": "(株)", "Hello": "hELLO",
		"café à côté": "cafe a cote", "らーめん": "ﾗｰﾒﾝ", "ガラス": "か\u3099らす", "葛\U000e0100城": "葛城", "ёлка": "елка", "圖書館": "图书馆", "萬國": "万国", "頭髮": "头发", "Ἀθῆναι": "αθηναι", "회의": "\u1112\u116c\u110b\u1174",
	} {
		if Fold(a) != Fold(b) {
			t.Errorf("%q folds to %q, %q to %q", a, Fold(a), b, Fold(b))
		}
	}
}

func TestAMarkThatMakesAnotherLetterStays(t *testing.T) {
	for a, b := range map[string]string{"ガ": "カ", "ぱ": "ば", "й": "и", "회": "호", "한국": "한글", "図": "圖", "干": "于"} {
		if Fold(a) == Fold(b) {
			t.Errorf("%q and %q are one: %q", a, b, Fold(a))
		}
	}
}

func TestEveryTermMustOccurAndAllOccurrencesCount(t *testing.T) {
	text := Fold("今天种了郁金香，郁金香是红的。Tulips and more TULIPS")
	for query, want := range map[string]int{
		"郁金香": 2, "金香": 2, "郁金香 红": 3, "tulip": 2, "ＴＵＬＩＰＳ 种了": 3, "玫瑰": 0, "郁金香 玫瑰": 0, "tulip tulip": 2, "郁　金": 4,
	} {
		if got := Count(text, Terms(query)); got != want {
			t.Errorf("%q: %d hits, want %d", query, got, want)
		}
	}
}

func TestASnippetShowsTheTextAroundTheHit(t *testing.T) {
	long := strings.Repeat("前", 100) + "ＴＵＬＩＰ" + strings.Repeat("后", 100)
	for _, tt := range []struct{ text, query, want string }{
		{"short and good", "GOOD", "short and good"},
		{long, "tulip", "…" + strings.Repeat("前", 40) + "ＴＵＬＩＰ" + strings.Repeat("后", 75) + "…"},
		{"line one\n\nline two", "two", "line one line two"},
		{strings.Repeat("ﬃ", 200) + " needle", "needle", "…" + strings.Repeat("ﬃ", 39) + " needle"},
		{strings.Repeat("x", 100), "only-in-tags", strings.Repeat("x", 80) + "…"},
		{"", "anything", ""},
	} {
		if got := Snippet(tt.text, Terms(tt.query)); got != tt.want {
			t.Errorf("%.20q for %q: got %q, want %q", tt.text, tt.query, got, tt.want)
		}
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("今天种了郁金香。", "金香")
	f.Add("cafe\u0301 Stra\u00dfe \ufb03", "\u00e9")
	f.Fuzz(func(t *testing.T, text, query string) {
		list := Terms(query)
		if slices.Contains(list, "") {
			t.Fatalf("%q has an empty term", query)
		}
		hits := Count(Fold(text), list)
		got := Snippet(strings.ToValidUTF8(text, "\uFFFD"), list)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > snippetBefore+snippetAfter+2 {
			t.Fatalf("%q for %q (%d hits): snippet %q", text, query, hits, got)
		}
	})
}
