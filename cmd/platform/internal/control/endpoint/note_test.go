package endpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

func TestANoteIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	if err := note(filepath.Join(dir, "nothing", "x"), "x"); err == nil {
		t.Error("a note in no folder was written")
	}
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := note(filepath.Join(dir, "x"), "x"); err == nil {
		t.Error("a folder was replaced")
	}
	left, err := filepath.Glob(filepath.Join(dir, durable.TempPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
