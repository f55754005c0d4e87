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
