package rules

import "testing"

func TestPatternsThatAllEnginesReadAreKept(t *testing.T) {
	for in, want := range map[string]string{ // "" where there is no form that takes the same strings
		`^[A-Z]{3}-[0-9]+$`: `^[A-Z]{3}-[0-9]+$`,
		`^\d+(?:\.\d+)?$`:   `^\d+(?:\.\d+)?$`,
		`^.{1,2000}$`:       `^.{1,2000}$`, // beyond Go's own limit
		`^[é\-_/]*$`:        `^[é\-_/]*$`,
		`^\u00e9\x41$`:      `^\u00e9\x41$`,
		`a[b[]`:             `a[b[]`,
		`(?=x)`:             ``,
		`(?<!x)y`:           ``,
		`(?<name>x)`:        ``,
		`(a)\1`:             ``,
		`\p{L}`:             ``,
		`\u{1F600}`:         ``,
		`\ud83d\ude00`:      ``,
		`[[:alpha:]]`:       ``,
		`[]`:                ``,
		`[^]`:               ``,
		`a++`:               ``,
		`(`:                 ``,
		`a{2,1}`:            ``,
		`\`:                 ``,
		`[a&&b]`:            ``,
	} {
		got, ok := PatternRules{}.Fit(in)
		if ok != (want != "") || got != want {
			t.Errorf("%s became %q, %v", in, got, ok)
		}
	}
}

func TestPatternsAreRewrittenForNarrowEngines(t *testing.T) {
	llama := PatternRules{EscapeBrackets: true, Anchored: true, NoClassEscapes: true, MaxRepeat: 100}
	for in, want := range map[string]string{
		`^\d{3}[\w.]\S$`: `^[0-9]{3}[A-Za-z0-9_.][^ \t\n\r\f\v]$`,
		`^[a[]$`:         `^[a\[]$`,
		`^[\D]$`:         ``,
		`\d`:             ``,
		`^a\$`:           ``,
		`^a{1,101}$`:     ``,
	} {
		if got, ok := llama.Fit(in); ok != (want != "") || got != want {
			t.Errorf("%s became %q, %v", in, got, ok)
		}
	}
}
