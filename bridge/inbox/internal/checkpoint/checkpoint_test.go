package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
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

func TestTheFileOfTheLastProcessIsUsedWhereNoNewOneCanBeMade(t *testing.T) {
	dir := t.TempDir()
	last := File{Syncs: new(atomic.Int64)}
	if err := last.Replace(dir, 1); err != nil {
		t.Fatal(err)
	}
	last.Close()
	if err := os.Mkdir(filepath.Join(dir, Name+".tmp"), 0o700); err != nil { // stands for a disk without an inode
		t.Fatal(err)
	}
	_, turn, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := File{Syncs: new(atomic.Int64), Turn: turn}
	defer c.Close()
	if err := c.Renew(dir, 7); err != nil {
		t.Fatal(err)
	}
	if cp, turn, err := Read(dir); err != nil || cp.Projected != 7 || cp.Boot != BootID() || turn != c.Turn {
		t.Errorf("checkpoint %+v of turn %d, %v", cp, turn, err)
	}
}

func TestACheckpointOfANewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	c := File{Syncs: new(atomic.Int64)}
	if err := c.Replace(dir, 1); err != nil {
		t.Fatal(err)
	}
	c.Close()
	path := filepath.Join(dir, Name)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(raw, []byte("aurproj1"), []byte("aurproj2")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(dir); err == nil || !strings.Contains(err.Error(), path+" was written by a newer version of the platform") {
		t.Errorf("reading it: %v", err)
	}
}
