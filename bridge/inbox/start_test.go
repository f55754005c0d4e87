package inbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/bridge/inbox/internal/checkpoint"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

// published opens an inbox, publishes an event, and closes it.
func published(t *testing.T, opt Options) {
	t.Helper()
	x := open(t, opt)
	publish(t, x, 1)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnInboxOpensOnADiskWithoutAFreeInode(t *testing.T) {
	opt := options(t.TempDir())
	published(t, opt)
	// A folder in the place of the new checkpoint stands for the missing inode.
	if err := os.Mkdir(filepath.Join(opt.Journal.Dir, checkpoint.Name+".tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	published(t, opt)
	if got := len(files(t, opt, queue.Pending)); got != 2 {
		t.Errorf("%d pending", got)
	}
}

func TestAnInboxWhoseCheckpointANewerVersionWroteIsRefusedAndStays(t *testing.T) {
	opt := options(t.TempDir())
	published(t, opt)
	path := filepath.Join(opt.Journal.Dir, checkpoint.Name)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.ReplaceAll(raw, []byte("aurproj1"), []byte("aurproj2"))
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	x, err := Open(opt)
	if err == nil {
		x.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "newer version of the platform") {
		t.Errorf("opening it: %v", err)
	}
	if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, raw) {
		t.Errorf("the checkpoint was changed: %d bytes, %v", len(left), err)
	}
}
