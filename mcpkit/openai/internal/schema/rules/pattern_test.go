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
	llama := PatternRules{EscapeBrackets: true, Grammar: true, MaxRepeat: 100}
	for in, want := range map[string]string{
		`^\d{3}[\w.]\S$`:   `^[0-9]{3}[A-Za-z0-9_.][^ \t\n\r\x0C\x0B]$`,
		`^(?:a|b)+\/\@\-$`: `^(a|b)+/@-$`,
		`^[A-Z\-\^\.]$`:    `^[A-Z\x2D\x5E.]$`,
		`^\u4e2d\t\f\x41$`: `^中\t\x0C\x41$`,
		`^a\.\(\\+$`:       `^a\.\(\\+$`,
		`^\b[a-z]+\b$`:     ``,
		`^a$|^b$`:          ``,
		`^a|b$`:            ``,
		`^a(^b|c$)$`:       ``,
		`^[a[]$`:           `^[a\[]$`,
		`^[\D]$`:           ``,
		`\d`:               ``,
		`^a\$`:             ``,
		`^a{1,101}$`:       ``,
	} {
		got, ok := llama.Fit(in)
		if ok != (want != "") || got != want {
			t.Errorf("%s became %q, %v", in, got, ok)
		}
		if again, _ := llama.Fit(got); ok && again != got {
			t.Errorf("%s became %q, and then %q", in, got, again)
		}
	}
}
