package auth_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"unicode"

	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/auth/issuer"
)

func FuzzParseAnswer(f *testing.F) {
	for _, s := range []string{redirect + "?code=a&state=b", "?error=x", "abc", "a=b", "%", "code=%zz", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := issuer.ParseAnswer(s)
		if err == nil && q.Get("code") == "" && q.Get("error") == "" {
			t.Errorf("%q became %v, which answers nothing", s, q)
		}
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the error quotes %q", s)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if key, err := auth.ParseKey(data); err == nil {
			if _, ok := key.Public().(ed25519.PublicKey); !ok && key.Public() == nil {
				t.Error("a key without a public one")
			}
		}
	})
}
