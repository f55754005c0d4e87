package rpc

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("\x1b[2J\xff\u202e" + strings.Repeat("é", 300)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := Printable(b)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q becomes %q", b, got)
		}
	})
}

func TestAnIDIsKnownInTheFormsInWhichServersSendItBack(t *testing.T) {
	for raw, want := range map[string]int64{`7`: 7, `7.0`: 7, `7e0`: 7, `"7"`: 7, `-1`: -1, `9007199254740993`: 9007199254740993, `"9007199254740993"`: 9007199254740993} {
		if got, ok := Integer([]byte(raw)); !ok || got != want {
			t.Errorf("%s is %d, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{``, `"`, `""`, `"x"`, `"7.0"`, `"-1"`, `" 7"`, `"+7"`, `7.5`, `null`, `true`, `"7`, `1e300`, `"99999999999999999999"`} {
		if got, ok := Integer([]byte(raw)); ok {
			t.Errorf("%s is %d", raw, got)
		}
	}
}
