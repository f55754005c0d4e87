package pattern

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a.b", true}, {"a*", "a", true}, {"?", "", false},
		{"?", "é", true}, {"??", "é", false}, {"a?c", "a字c", true}, {"*字", "文字", true}, {"a*b*c", "axxbyyc", true},
		{"a*b*c", "axxbyy", false}, {"*a", "aaab", false}, {"*ab", "aaab", true}, {"a.b", "aXb", false}, {"[a]", "a", false},
		{"A", "a", false}, {"**", "x", true}, {"*?", "x", true}, {"*?", "", false}, {"a\xff?", "a\xff\xfe", true},
	} {
		if got := Glob(tc.pattern, tc.s); got != tc.want {
			t.Errorf("Glob(%q, %q) = %v", tc.pattern, tc.s, got)
		}
	}
}

// reference is Glob as a regular expression.
func reference(pattern string) *regexp.Regexp {
	var b strings.Builder
	for _, r := range pattern {
		switch r {
		case '*':
			b.WriteString(`(?s:.*)`)
		case '?':
			b.WriteString(`(?s:.)`)
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return regexp.MustCompile(`\A` + b.String() + `\z`)
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b?c", "aXXbYc")
	f.Add("**?*", "字")
	f.Add("com.*.get_*", "com.example.get_x")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 50 || !utf8.ValidString(pattern) || !utf8.ValidString(s) {
			Glob(pattern, s) // must not panic
			return
		}
		if got, want := Glob(pattern, s), reference(pattern).MatchString(s); got != want {
			t.Errorf("Glob(%q, %q) = %v, want %v", pattern, s, got, want)
		}
	})
}
