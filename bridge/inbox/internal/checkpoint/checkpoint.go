// Package checkpoint keeps how far the files of an inbox are made of its journal,
// in a small file beside the journal.
package checkpoint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/bridge/internal/slots"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// Checkpoint says how far the files are made of the journal. It is kept in two
// [slots] that are written in turn, so that one of them is whole.
//
//	body: projected, intent, boot id
type Checkpoint struct {
	// Every record up to Projected is settled: its file is visible and durable,
	// or it needs none.
	Projected uint64
	// Intent, if above Projected, says that the files of the records in between
	// were written and durable in tmp/ before the first was made visible. So a
	// file of these that is not in tmp/ has been visible.
	Intent uint64
	Boot   uuid.UUID // of the machine when it was written
}

const (
	// Name is that of the file in the journal's folder.
	Name = "projection"

	magic = "aurproj1"
	size  = 8 + 8 + 16
)

// File is the file that checkpoints are written to.
type File struct {
	Syncs *atomic.Int64 // counts sync calls
	Turn  uint64        // of the slot that was written last

	f    *os.File
	boot uuid.UUID
	bad  bool // a write or sync failed: the file must not be used again
}

// BootID is the id of the machine's present run; zero where it is not to be had.
func BootID() uuid.UUID {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return uuid.Nil
	}
	id, err := uuid.Parse(strings.TrimSpace(string(b)))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// Read returns the latest whole slot in the journal's folder and its turn; turn 0
// when there is none. A file of a newer version of the platform is an error.
func Read(dir string) (cp Checkpoint, turn uint64, err error) {
	path := filepath.Join(dir, Name)
	raw, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return cp, 0, err
	}
	turn, b, err := slots.Latest(path, raw, magic, size)
	if turn > 0 {
		le := binary.LittleEndian
		cp = Checkpoint{Projected: le.Uint64(b), Intent: le.Uint64(b[8:]), Boot: uuid.UUID(b[16:])}
	}
	return cp, turn, err
}

// Replace makes a new, durable checkpoint file: where there is none, and after a
// write or sync of the old one failed.
func (c *File) Replace(dir string, projected uint64) error {
	path := filepath.Join(dir, Name)
	f, err := os.OpenFile(path+".tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	next := File{f: f, Syncs: c.Syncs, Turn: c.Turn, boot: BootID()}
	err = next.Save(projected, 0, true)
	if err == nil {
		err = f.Truncate(2 * slots.Size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		f.Close()
		os.Remove(path + ".tmp")
		return fmt.Errorf("writing checkpoint: %w", err)
	}
	c.Close()
	*c = next
	return durable.SyncDir(dir)
}

// Renew saves a checkpoint without an intent, in the file as it is where that
// can be trusted: a full disk may have no room, and no inode, for a new one. With a
// Turn and no file yet, that is the file which [Read] read the turn from.
func (c *File) Renew(dir string, projected uint64) error {
	if c.f == nil && c.Turn > 0 {
		if f, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR, 0); err == nil {
			c.f, c.boot = f, BootID()
		}
	}
	if c.f != nil && !c.bad && c.Save(projected, 0, true) == nil {
		return nil
	}
	return c.Replace(dir, projected)
}

// Save writes the next slot, and syncs it where the order of what follows depends on it.
func (c *File) Save(projected, intent uint64, sync bool) (err error) {
	defer func() { c.bad = c.bad || err != nil }()
	c.Turn++
	le := binary.LittleEndian
	b := le.AppendUint64(make([]byte, 0, size), projected)
	b = append(le.AppendUint64(b, intent), c.boot[:]...)
	if err := slots.Write(c.f, magic, c.Turn, b); err != nil {
		return fmt.Errorf("writing checkpoint: %w", err)
	}
	if !sync {
		return nil
	}
	c.Syncs.Add(1)
	if err := unix.Fdatasync(int(c.f.Fd())); err != nil {
		return fmt.Errorf("syncing checkpoint: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(c.f.Fd()), &st); err != nil || st.Nlink == 0 {
		return fmt.Errorf("writing checkpoint: the file was removed: %w", cmp.Or(err, os.ErrNotExist))
	}
	return nil
}

// Close closes the file.
func (c *File) Close() {
	if c.f != nil {
		c.f.Close()
	}
}
