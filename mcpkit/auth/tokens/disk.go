package tokens

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
)

// seal encrypts body so that only open with the same key and owner reads it.
func seal(key []byte, owner Key, body []byte) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(body)+aead.Overhead())
	rand.Read(nonce) // never fails (crypto/rand)
	return aead.Seal(nonce, nonce, body, bind(owner)), nil
}

func open(key []byte, owner Key, sealed []byte) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, ErrSealed
	}
	body, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], bind(owner))
	if err != nil {
		return nil, ErrSealed
	}
	return body, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// bind is what ties a sealed record to its owner.
func bind(k Key) []byte {
	b, _ := json.Marshal([]string{k.Server, k.Resource, k.Issuer}) // strings marshal
	return b
}
