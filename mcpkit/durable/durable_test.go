package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// holds reports what is wrong with dir unless it holds the file alone, with the text.
func holds(t *testing.T, dir, name, text string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Fatalf("the folder holds %v", entries)
	}
	if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
		t.Errorf("the file holds %q, %v; want %q", b, err, text)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
}

func TestAFileIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"a long first text", "short", ""} {
		if err := durable.WriteFile(filepath.Join(dir, "x"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		holds(t, dir, "x", text)
	}
}

func TestAFileThatIsThereIsNotCreatedAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := durable.CreateFile(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := durable.CreateFile(path, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating it again: %v", err)
	}
	holds(t, dir, "x", "first")
}

func TestAWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, write := range []func(string, []byte) error{durable.WriteFile, durable.CreateFile} {
		if err := write(filepath.Join(dir, "x"), []byte("text")); err == nil {
			t.Error("a folder was replaced by a file")
		}
		if err := write(filepath.Join(dir, "none", "x"), []byte("text")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("writing in no folder: %v", err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestWhatIsNotThereIsRemovedWithoutAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := durable.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x")
	if err := durable.WriteFile(path, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := durable.RemoveFile(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its removal: %v", err)
	}
}
