package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestAnAssertionIsSignedByEachKindOfKey(t *testing.T) {
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	numbers := func(sig []byte) (r, s *big.Int) {
		return new(big.Int).SetBytes(sig[:len(sig)/2]), new(big.Int).SetBytes(sig[len(sig)/2:])
	}
	for name, tc := range map[string]struct {
		key  crypto.Signer
		good func(text, sig []byte) bool
	}{
		"ES256": {p256, func(text, sig []byte) bool {
			sum := sha256.Sum256(text)
			r, s := numbers(sig)
			return len(sig) == 64 && ecdsa.Verify(&p256.PublicKey, sum[:], r, s)
		}},
		"ES384": {p384, func(text, sig []byte) bool {
			sum := sha512.Sum384(text)
			r, s := numbers(sig)
			return len(sig) == 96 && ecdsa.Verify(&p384.PublicKey, sum[:], r, s)
		}},
		"RS256": {rsaKey, func(text, sig []byte) bool {
			sum := sha256.Sum256(text)
			return rsa.VerifyPKCS1v15(&rsaKey.PublicKey, crypto.SHA256, sum[:], sig) == nil
		}},
		"EdDSA": {ed, func(text, sig []byte) bool {
			return ed25519.Verify(ed.Public().(ed25519.PublicKey), text, sig)
		}},
	} {
		token, err := assert(tc.key, "client", "https://id.example", time.Now())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		i := strings.LastIndex(token, ".")
		sig, err := base64.RawURLEncoding.DecodeString(token[i+1:])
		if err != nil || !tc.good([]byte(token[:i]), sig) {
			t.Errorf("%s: the signature is not good (%v)", name, err)
		}
		c := readClaims(token)
		if c == nil || c.Issuer != "client" || len(c.Audience) != 1 || c.Audience[0] != "https://id.example" || c.accessToken() {
			t.Errorf("%s: it says %+v", name, c)
		}
		if left := time.Until(c.expiry()); left <= 0 || left > assertLife {
			t.Errorf("%s: it is good for %v", name, left)
		}
	}
}

func FuzzReadClaims(f *testing.F) {
	f.Add("eyJhbGciOiJub25lIn0.eyJhdWQiOlsiYSJdLCJleHAiOjF9.")
	f.Add("eyJhbGciOiJub25lIn0.eyJhdWQiOiJhIiwiZXhwIjoxZTMwfQ.x")
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if c := readClaims(token); c != nil && !c.expiry().IsZero() && c.expiry().Unix() <= 0 {
			t.Errorf("it ends at %v", c.expiry())
		}
	})
}
