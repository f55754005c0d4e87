package serverkit

import (
	"slices"
	"strings"
	"testing"
)

func TestWhatStderrIsQuotedOf(t *testing.T) {
	for in, want := range map[string]string{
		"a|b|c|d": "b|c|d",
		"a":       "a",
		"npm warn x|npm error code EACCES|npm error syscall mkdir|npm error path /home/me/.npm|npm notice|npm error Log files were not written": "npm error code EACCES|npm error syscall mkdir|npm error path /home/me/.npm",
		"npm ERR! code E404": "npm ERR! code E404",
	} {
		if got := quote(strings.Split(in, "|")); !slices.Equal(got, strings.Split(want, "|")) {
			t.Errorf("of %q is quoted %q, want %q", in, got, want)
		}
	}
}
