package tokens

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// TestMain lets the test binary stand for another process that counts in a record.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TOKENS_TEST_COUNT"); dir != "" {
		if err := count(dir, 20); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var owner = Key{Server: "im.example", Resource: "https://example.com/mcp", Issuer: "https://id.example.com"}

var secret = bytes.Repeat([]byte("s"), MinKey)

func record(k Key) *Record {
	now := time.Now().UTC().Round(0)
	return &Record{
		Key: k, Client: Client{ID: "client", Secret: "client-secret-0123", Method: "client_secret_basic", RedirectURI: "http://127.0.0.1:1/c"},
		TokenEndpoint: k.Issuer + "/token", RevocationEndpoint: k.Issuer + "/revoke",
		Access: "access-token-0123", Refresh: "refresh-token-0123", Obtained: now, Expiry: now.Add(time.Hour), Scopes: []string{"a", "b"},
		Wanted: []string{"c"},
	}
}

func mustOpen(t *testing.T, dir string, key []byte) *Store {
	t.Helper()
	s, err := Open(dir, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestARecordComesBackAsItWasPut(t *testing.T) {
	for _, key := range [][]byte{nil, secret} {
		dir := filepath.Join(t.TempDir(), "auth")
		s := mustOpen(t, dir, key)
		if _, err := s.Get(owner); !errors.Is(err, ErrNotFound) {
			t.Errorf("before anything is stored: %v", err)
		}
		want := record(owner)
		if err := s.Put(want); err != nil {
			t.Fatal(err)
		}
		got, err := mustOpen(t, dir, key).Get(owner)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, %v", f, info.Mode(), err)
			}
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"access-token-0123", "refresh-token-0123", "client-secret-0123"} {
				if strings.Contains(string(raw), word) != (key == nil) {
					t.Errorf("with a key of %d bytes %s holds %s: %v", len(key), f, word, key != nil)
				}
			}
		}
		if err := s.Delete(owner); err != nil {
			t.Fatal(err)
		}
		if all, err := s.Find(owner.Server); len(all) != 0 || err != nil {
			t.Errorf("%d records are left, %v", len(all), err)
		}
	}
}

func TestARecordIsNotHandedToAnother(t *testing.T) {
	others := []Key{
		{"im.other", owner.Resource, owner.Issuer},
		{owner.Server, "https://example.com/other", owner.Issuer},
		{owner.Server, owner.Resource, "https://evil.example.com"},
	}
	for _, key := range [][]byte{nil, secret} {
		s := mustOpen(t, filepath.Join(t.TempDir(), "auth"), key)
		if err := s.Put(record(owner)); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(s.path(owner))
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range others {
			if _, err := s.Get(k); !errors.Is(err, ErrNotFound) {
				t.Errorf("%v got %v", k, err)
			}
			// Somebody copies the file, and then also writes the other's name into it.
			swapped := bytes.Replace(raw, []byte(owner.Server), []byte(k.Server), 1)
			swapped = bytes.Replace(swapped, []byte(owner.Resource), []byte(k.Resource), 1)
			swapped = bytes.Replace(swapped, []byte(owner.Issuer+`"`), []byte(k.Issuer+`"`), 1)
			for i, data := range [][]byte{raw, swapped} {
				if err := os.WriteFile(s.path(k), data, 0o600); err != nil {
					t.Fatal(err)
				}
				if i == 1 && key == nil {
					continue // only a key shows that
				}
				if r, err := s.Get(k); err == nil {
					t.Errorf("%v got the record of %v", k, r.Key)
				}
				if all, err := s.Find(k.Server); err == nil || len(all) > 1 || len(all) == 1 && all[0].Key == k {
					t.Errorf("Find of %v got %d records, %v", k, len(all), err)
				}
			}
			if err := os.Remove(s.path(k)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOnlyTheRightKeyOpensARecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	if err := mustOpen(t, dir, nil).Put(record(owner)); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, secret)
	r, err := s.Get(owner) // from before there was a key
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(r); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][]byte{nil, bytes.Repeat([]byte("x"), MinKey)} {
		if _, err := mustOpen(t, dir, wrong).Get(owner); !errors.Is(err, ErrSealed) {
			t.Errorf("a key of %d bytes that is another one: %v", len(wrong), err)
		}
	}
	if _, err := Open(dir, []byte("short")); err == nil {
		t.Error("a short key was taken")
	}
}

func TestAFileThatOthersMayReadOrThatIsDamagedIsRefusedAndTheRestIsNot(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "auth"), nil)
	other := owner
	other.Issuer = "https://second.example.com"
	for _, k := range []Key{owner, other} {
		if err := s.Put(record(k)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string) {
		t.Helper()
		_, err := s.Get(owner)
		if err == nil || strings.Contains(err.Error(), "token-0123") {
			t.Errorf("%s: %v", what, err)
		}
		if all, err := s.Find(owner.Server); err == nil || len(all) != 1 || all[0].Key != other {
			t.Errorf("%s: Find got %d records, %v", what, len(all), err)
		}
	}
	if err := os.Chmod(s.path(owner), 0o644); err != nil {
		t.Fatal(err)
	}
	check("others may read it")
	raw, err := os.ReadFile(s.path(owner))
	if err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{"cut": raw[:len(raw)/2], "empty": {}, "another format": []byte(`{"format":2}`), "no record": []byte(`{"format":1}`)} {
		if err := os.Remove(s.path(owner)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path(owner), data, 0o600); err != nil {
			t.Fatal(err)
		}
		check(what)
	}
	elsewhere := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(elsewhere, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.path(owner)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, s.path(owner)); err != nil {
		t.Fatal(err)
	}
	check("a link")
}

func TestAFolderThatOthersMayEnterIsClosed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, durable.TempPrefix+"1")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir, nil)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed writer left is still there: %v", err)
	}
}

// count adds to a record n times, under the lock.
func count(dir string, n int) error {
	s, err := Open(dir, nil)
	if err != nil {
		return err
	}
	for range n {
		unlock, err := s.Lock(context.Background(), owner.Server)
		if err != nil {
			return err
		}
		r, err := s.Get(owner)
		if err == nil {
			r.Scopes = append(r.Scopes, "x")
			err = s.Put(r)
		}
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func TestTwoProcessesChangeARecordOneAfterTheOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	s := mustOpen(t, dir, nil)
	r := record(owner)
	r.Scopes = nil
	if err := s.Put(r); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), "TOKENS_TEST_COUNT="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Go(func() {
		if err := count(dir, 20); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if r, err = s.Get(owner); err != nil || len(r.Scopes) != 80 {
		t.Errorf("%d of 80 changes are there, %v", len(r.Scopes), err)
	}
}

func TestALockIsWaitedForAsLongAsTheContextAllows(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "auth"), nil)
	unlock, err := s.Lock(t.Context(), owner.Server)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Lock(ctx, owner.Server); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the lock was had twice: %v", err)
	}
	other, err := s.Lock(t.Context(), "im.other")
	if err != nil {
		t.Fatal(err)
	}
	other()
	unlock()
	if unlock, err = s.Lock(t.Context(), owner.Server); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestTheStampChangesWithEveryPut(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "auth"), nil)
	seen := map[string]bool{s.Stamp(owner.Server): true}
	r := record(owner)
	for i := range 50 {
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
		if stamp := s.Stamp(owner.Server); seen[stamp] {
			t.Fatalf("put %d left the stamp as it had been", i)
		} else {
			seen = map[string]bool{stamp: true}
		}
	}
	other := owner
	other.Server = "im.other"
	before := s.Stamp(owner.Server)
	if err := s.Put(record(other)); err != nil {
		t.Fatal(err)
	}
	if s.Stamp(owner.Server) != before {
		t.Error("the stamp changed with another server's record")
	}
}

func TestATokenIsFreshUntilShortlyBeforeItsEnd(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		name string
		r    *Record
		want bool
	}{
		{"none", nil, false},
		{"empty", &Record{}, false},
		{"no end", &Record{Access: "a"}, true},
		{"refused", &Record{Access: "a", Refused: true}, false},
		{"an hour, at its beginning", &Record{Access: "a", Obtained: now, Expiry: now.Add(time.Hour)}, true},
		{"an hour, half a minute before its end", &Record{Access: "a", Obtained: now.Add(-time.Hour), Expiry: now.Add(Skew / 2)}, false},
		{"twenty seconds, at its beginning", &Record{Access: "a", Obtained: now, Expiry: now.Add(20 * time.Second)}, true},
		{"twenty seconds, four before its end", &Record{Access: "a", Obtained: now.Add(-16 * time.Second), Expiry: now.Add(4 * time.Second)}, false},
		{"over", &Record{Access: "a", Obtained: now.Add(-2 * time.Hour), Expiry: now.Add(-time.Hour)}, false},
		{"over before it began", &Record{Access: "a", Obtained: now, Expiry: now.Add(-time.Hour)}, false},
	} {
		if got := tc.r.Fresh(now); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
