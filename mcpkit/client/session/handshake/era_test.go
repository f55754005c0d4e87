package handshake_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
)

func TestErasAreKeptInAFileAndForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eras.json")
	eras, err := handshake.OpenEras(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"a", "b", "a"} {
		if err := eras.Set(server, handshake.EraInitialize); err != nil {
			t.Fatal(err)
		}
	}
	if err := eras.Set("a", ""); err != nil {
		t.Fatal(err)
	}
	again, err := handshake.OpenEras(path)
	if err != nil || again.Get("a") != "" || again.Get("b") != handshake.EraInitialize {
		t.Errorf("a: %q, b: %q, %v", again.Get("a"), again.Get("b"), err)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
}

func TestAnEraFileThatCannotBeUsedIsAnError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "eras.json")
	if err := os.WriteFile(path, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := handshake.OpenEras(path); err == nil {
		t.Error("half a file was taken")
	}
	if _, err := handshake.OpenEras(dir); err == nil {
		t.Error("a folder was taken")
	}
	eras, err := handshake.OpenEras(filepath.Join(dir, "none", "eras.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := eras.Set("a", handshake.EraInitialize); err == nil || eras.Get("a") != handshake.EraInitialize {
		t.Errorf("what cannot be written is remembered in memory and said: %v", err)
	}
	if err := os.WriteFile(path, []byte("null"), 0o600); err != nil {
		t.Fatal(err)
	}
	eras, err = handshake.OpenEras(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := eras.Set("a", handshake.EraInitialize); err != nil {
		t.Error(err)
	}
}
