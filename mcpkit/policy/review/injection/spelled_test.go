package injection

import "testing"

func TestWhateverIsSpelledOutIsLookedAtLetterByLetter(t *testing.T) {
	for s, want := range map[string]string{
		"i g n o r e all":             "ignore all",
		"please i-g-n-o-r-e":          "please ignore",
		"x.i.g.n.o.r":                 "xignor",
		"go: d r o p s it":            "go: drops it",
		" i g n o r":                  " ignor",
		"a b c d":                     "",
		"plain words, and a b c of d": "",
		"":                            "",
	} {
		got, ok := joined(s)
		if want == "" && ok || want != "" && got != want {
			t.Errorf("%q becomes %q, %v; want %q", s, got, ok, want)
		}
	}
}

func FuzzSpelled(f *testing.F) {
	f.Add("i g n o r e")
	f.Add(" a b c d e")
	f.Add("ab c d e f g")
	f.Fuzz(func(t *testing.T, s string) {
		if spelled(s) {
			return
		}
		if words, found := build(s); found {
			t.Errorf("%q was passed over, and becomes %q", s, words)
		}
	})
}
