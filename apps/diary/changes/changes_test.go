package changes

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// rig is a log over files in memory.
type rig struct {
	*Log
	files map[string]string
	fail  error // of tell
	told  []string
	keys  map[string]bool
}

func newRig(dir string) *rig {
	r := &rig{files: map[string]string{}, keys: map[string]bool{}}
	sum := func(file string) (string, error) {
		if text, ok := r.files[file]; ok {
			return Sum([]byte(text)), nil
		}
		return "", nil
	}
	r.Log = New(dir, sum, func(key string, news json.RawMessage) error {
		if r.fail == nil {
			r.told, r.keys[key] = append(r.told, string(news)), true
		}
		return r.fail
	})
	return r
}

// put changes a file as the log is told.
func (r *rig) put(t *testing.T, file, text, news string) {
	t.Helper()
	if err := r.Do(file, []byte(text), news, func() error { r.files[file] = text; return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasMadeIsToldAndWhatWasNotIsForgotten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "changes")
	r := newRig(dir)
	r.fail = errors.New("killed before anything is told")
	r.put(t, "a", "v1", "a is v1")
	r.put(t, "a", "v2", "a is v2")
	r.put(t, "b", "x", "b is x")
	if err := r.Do("b", nil, "b is gone", func() error { delete(r.files, "b"); return nil }); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { recover() }()
		r.Do("c", []byte("never"), "c is there", func() error { panic("killed before the change") })
	}()
	if err := r.Recover(); !errors.Is(err, r.fail) {
		t.Errorf("recovering with %v gave %v", r.fail, err)
	}
	r.fail = nil
	for range 2 {
		if err := r.Recover(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{`"a is v1"`, `"a is v2"`, `"b is x"`, `"b is gone"`}; !slices.Equal(r.told, want) || len(r.keys) != len(want) {
		t.Errorf("told %q under %d keys, want %q", r.told, len(r.keys), want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestAChangeThatFailedIsNotToldAndItsErrorComesBack(t *testing.T) {
	r := newRig(t.TempDir())
	why := errors.New("the disk is full")
	if err := r.Do("a", []byte("x"), "news", func() error { return why }); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if err := r.Recover(); err != nil || len(r.told) > 0 {
		t.Errorf("told %q, %v", r.told, err)
	}
}

func TestANoteThatCannotBeReadIsAnErrorAndStays(t *testing.T) {
	r := newRig(t.TempDir())
	path := r.path("1")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Recover(); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
