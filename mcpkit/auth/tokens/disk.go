package tokens

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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

// unfinished begins the names of files that are not whole yet.
const unfinished = ".new-"

// replace makes data the content of the file at path, all of it or none, for its
// owner alone.
func replace(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
