package db

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestTheFileIsForOneOwnerAndOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20?#.db")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Exec("INSERT INTO pinned VALUES ('s', 'a', 1)"); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(f.Name(), "a b%20?#.db") {
			t.Errorf("%s has mode %v (%v)", f.Name(), info.Mode(), err)
		}
	}
	if second, err := Open(path); !errors.Is(err, ErrInUse) {
		t.Errorf("opened again: %v, %v", second, err)
	}
	var mode, sync string
	if err := errors.Join(d.QueryRow("PRAGMA journal_mode").Scan(&mode), d.QueryRow("PRAGMA synchronous").Scan(&sync)); err != nil || mode != "wal" || sync != "2" {
		t.Errorf("journal_mode %s, synchronous %s, %v", mode, sync, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var server string
	if err := again.QueryRow("SELECT server FROM pinned").Scan(&server); err != nil || server != "s" {
		t.Errorf("found %q, %v", server, err)
	}
}

func TestAFileThatIsNotOursIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.db")
	text := strings.Repeat("this is no database. ", 100)
	if err := os.WriteFile(junk, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(junk); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("junk: %v", err)
	}
	if b, err := os.ReadFile(junk); err != nil || string(b) != text {
		t.Errorf("it was changed to %d bytes, %v", len(b), err)
	}
	later := filepath.Join(dir, "later.db")
	d, err := Open(later)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Exec("PRAGMA user_version = 999"); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if _, err := Open(later); err == nil || !strings.Contains(err.Error(), "version 999") {
		t.Errorf("a later version: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "no", "folder.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

func TestAnEmptyOrDamagedFileDoesNotBeginAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.db")
	// What a first start leaves that is killed at any moment does not matter.
	for _, name := range []string{".new", ".new-wal", ".new-shm"} {
		if err := os.WriteFile(path+name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 { // more than fits one page
		if _, err := d.Exec("INSERT INTO pinned VALUES (?, 'a', 1)", strings.Repeat("x", 100)+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.Clone(whole)
	clear(half[len(half)/2:]) // pages of rows and of the index
	for name, content := range map[string][]byte{"empty": nil, "half zero": half, "cut": whole[:len(whole)/2]} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := Open(path); err == nil || !strings.Contains(err.Error(), "damaged; move it away") {
			t.Errorf("%s: %v, %v", name, d, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
}
