package session

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("\x1b[2J\xff\u202e" + strings.Repeat("é", 300)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := printable(b)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q becomes %q", b, got)
		}
	})
}

func TestReportsComeAtPowersOfTen(t *testing.T) {
	var said []int64
	for n := int64(1); n <= 1000; n++ {
		if powerOfTen(n) {
			said = append(said, n)
		}
	}
	if d := cmp.Diff([]int64{1, 10, 100, 1000}, said); d != "" {
		t.Error(d)
	}
}
