package client_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/client"
)

func TestErasAreKeptInAFileAndForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eras.json")
	eras, err := client.OpenEras(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"a", "b", "a"} {
		if err := eras.Set(server, client.EraInitialize); err != nil {
			t.Fatal(err)
		}
	}
	if err := eras.Set("a", ""); err != nil {
		t.Fatal(err)
	}
	again, err := client.OpenEras(path)
	if err != nil || again.Get("a") != "" || again.Get("b") != client.EraInitialize {
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
	if _, err := client.OpenEras(path); err == nil {
		t.Error("half a file was taken")
	}
	if _, err := client.OpenEras(dir); err == nil {
		t.Error("a folder was taken")
	}
	eras, err := client.OpenEras(filepath.Join(dir, "none", "eras.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := eras.Set("a", client.EraInitialize); err == nil || eras.Get("a") != client.EraInitialize {
		t.Errorf("what cannot be written is remembered in memory and said: %v", err)
	}
	if err := os.WriteFile(path, []byte("null"), 0o600); err != nil {
		t.Fatal(err)
	}
	eras, err = client.OpenEras(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := eras.Set("a", client.EraInitialize); err != nil {
		t.Error(err)
	}
}
