package checkpoint

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestADamagedCheckpointFileIsReplacedAndAGoodOneKept(t *testing.T) {
	dir := t.TempDir()
	c := File{Syncs: new(atomic.Int64)}
	if err := c.Replace(dir, 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	inode := func() uint64 {
		info, err := os.Stat(filepath.Join(dir, Name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	first := inode()
	if err := c.Renew(dir, 2); err != nil || inode() != first {
		t.Errorf("a good file was replaced, %v", err)
	}
	c.f.Close() // every write fails from here on
	if err := c.Save(3, 0, true); err == nil {
		t.Fatal("writing a closed file worked")
	}
	if err := c.Renew(dir, 3); err != nil || inode() == first {
		t.Errorf("a bad file was kept, %v", err)
	}
	if cp, _, err := Read(dir); err != nil || cp.Projected != 3 {
		t.Errorf("checkpoint %+v, %v", cp, err)
	}
}
