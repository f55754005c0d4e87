package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "artifacts"), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, content string) Ref {
	t.Helper()
	ref, err := s.Put(t.Context(), strings.NewReader(content), "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func read(s *Store, hash string) (string, error) {
	f, err := s.Open(hash)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}

// files are all files below the store's folder.
func files(t *testing.T, s *Store) (list []string) {
	t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestContentComesBackAsItWasPutAndIsKeptOnce(t *testing.T) {
	s := open(t, Options{})
	for _, content := range []string{"", "hello", strings.Repeat("天气", 1<<19)} {
		a, b := put(t, s, content), put(t, s, content)
		sum := sha256.Sum256([]byte(content))
		want := Ref{hex.EncodeToString(sum[:]), int64(len(content)), "text/plain", filepath.Join(s.dir, hex.EncodeToString(sum[:1]), hex.EncodeToString(sum[:]))}
		if a != want || b != want {
			t.Errorf("got %+v and %+v, want %+v", a, b, want)
		}
		if got, err := read(s, a.SHA256); err != nil || got != content {
			t.Errorf("read %d bytes, %v; want %d", len(got), err, len(content))
		}
		if info, err := os.Stat(a.Path); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode is %v, %v", info.Mode(), err)
		}
	}
	if list := files(t, s); len(list) != 3 {
		t.Errorf("there are %q", list)
	}
}

func TestAFailedPutLeavesNothingBehind(t *testing.T) {
	s := open(t, Options{MaxSize: 10})
	broken := errors.New("the line broke")
	_, err := s.Put(t.Context(), io.MultiReader(strings.NewReader("begin"), iotest.ErrReader(broken)), "")
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Put(t.Context(), strings.NewReader("12345678901"), ""); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.Put(ctx, readerFunc(func(p []byte) (int, error) { cancel(); return 1, nil }), "")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if list := files(t, s); len(list) != 0 {
		t.Errorf("left behind: %q", list)
	}
	if ref := put(t, s, "1234567890"); ref.Size != 10 {
		t.Errorf("the largest allowed gave %+v", ref)
	}
}

func TestAChangedFileIsNotServedAsWhole(t *testing.T) {
	s := open(t, Options{})
	ref := put(t, s, "the truth")
	if err := os.WriteFile(ref.Path, []byte("the trash"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(s, ref.SHA256); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(ref.Path, []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, "the truth") // a file of another size is replaced
	if got, err := read(s, ref.SHA256); err != nil || got != "the truth" {
		t.Errorf("after putting it again: %q, %v", got, err)
	}
}

func TestWhatIsNoHashIsNotFound(t *testing.T) {
	s := open(t, Options{})
	ref := put(t, s, "x")
	for _, hash := range []string{"", "x", "../" + ref.SHA256, strings.ToUpper(ref.SHA256), ref.SHA256[:62], strings.Repeat("0", 64), strings.Repeat("../", 30)} {
		if _, err := s.Open(hash); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%q) gave %v", hash, err)
		}
	}
}

func TestPruneGoesByAgeAndThenByTheOldest(t *testing.T) {
	s := open(t, Options{})
	var refs []Ref
	for i := range 5 { // 0 is the oldest, four hours
		ref := put(t, s, strings.Repeat(fmt.Sprint(i), 100))
		at := time.Now().Add(-time.Duration(4-i) * time.Hour)
		if err := os.Chtimes(ref.Path, at, at); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(refs[0].Path), "not-ours"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	left := func() (out string) {
		for i, r := range refs {
			if _, err := os.Stat(r.Path); err == nil {
				out += fmt.Sprint(i)
			}
		}
		return out
	}
	for _, c := range []struct {
		policy Policy
		left   string
	}{
		{Policy{}, "01234"},
		{Policy{MaxAge: 210 * time.Minute}, "1234"},
		{Policy{MaxTotal: 300}, "234"},
		{Policy{MaxTotal: 1, MinAge: 90 * time.Minute}, "34"},
	} {
		got, err := s.Prune(t.Context(), c.policy)
		if err != nil || left() != c.left || got.Kept != len(c.left) || got.KeptBytes != int64(100*len(c.left)) {
			t.Errorf("%+v left %s, want %s (%+v, %v)", c.policy, left(), c.left, got, err)
		}
	}
	put(t, s, strings.Repeat("3", 100)) // young again
	if _, err := s.Prune(t.Context(), Policy{MaxAge: 30 * time.Minute}); err != nil || left() != "34" {
		t.Errorf("left %s, %v", left(), err)
	}
	if list := files(t, s); len(list) != 3 {
		t.Errorf("there are %q", list)
	}
}

func TestOpenRemovesOldRemainsAndKeepsWhatIsBeingWritten(t *testing.T) {
	s := open(t, Options{})
	old, young := filepath.Join(s.tmp(), "put-1"), filepath.Join(s.tmp(), "put-2")
	for _, name := range []string{old, young} {
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, at, at); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if list := files(t, s); len(list) != 1 || list[0] != young {
		t.Errorf("left are %q", list)
	}
}

func TestWhatPutReturnedIsThereWhilePruneRuns(t *testing.T) {
	s := open(t, Options{})
	stop := make(chan struct{})
	var pruner sync.WaitGroup
	pruner.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := s.Prune(context.Background(), Policy{MaxTotal: 1, MinAge: time.Minute}); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 40 {
				content := bytes.Repeat([]byte{byte(w), byte(i % 10)}, 500)
				ref, err := s.Put(context.Background(), bytes.NewReader(content), "")
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := read(s, ref.SHA256); err != nil || got != string(content) {
					t.Errorf("what was put is not there: %v", err)
				}
				at := time.Now().Add(-time.Hour) // ripe for pruning until it is put again
				os.Chtimes(ref.Path, at, at)
			}
		})
	}
	writers.Wait()
	close(stop)
	pruner.Wait()
}
