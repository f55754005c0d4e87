package natsbus

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACheckpointOfANewerFormatIsRefusedAndStays(t *testing.T) {
	dir := t.TempDir()
	file, _, _, err := openCheckpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.save(checkpoint{Forwarded: 1}, true); err != nil {
		t.Fatal(err)
	}
	if err := file.f.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, checkpointName)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw = append(bytes.ReplaceAll(raw, []byte("aurnats1"), []byte("aurnats2")), "and what this version does not know"...)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	file, _, _, err = openCheckpoint(dir)
	if err == nil {
		file.f.Close()
	}
	if err == nil || !strings.Contains(err.Error(), path+" was written by a newer version of the platform") {
		t.Errorf("opening it: %v", err)
	}
	if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, raw) {
		t.Errorf("the checkpoint was changed: %d bytes, %v", len(left), err)
	}
}
