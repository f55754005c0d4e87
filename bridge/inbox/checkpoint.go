package inbox

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

// checkpoint says how far the files are made of the journal. It is kept beside
// the journal, in two [slots] written in turn, so that one of them is whole.
//
//	body: projected, intent, boot id
type checkpoint struct {
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
	checkpointName  = "projection"
	checkpointMagic = "aurproj1"
	checkpointSize  = 8 + 8 + 16
)

type checkpointFile struct {
	f     *os.File
	syncs *atomic.Int64 // counts sync calls
	turn  uint64
	boot  uuid.UUID
	bad   bool // a write or sync failed: the file must not be used again
}

func bootID() uuid.UUID {
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

// readCheckpoint returns the latest whole slot and its turn; turn 0 when there is none.
func readCheckpoint(dir string) (cp checkpoint, turn uint64, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, checkpointName))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return cp, 0, err
	}
	turn, b := slots.Latest(raw, checkpointMagic, checkpointSize)
	if turn > 0 {
		le := binary.LittleEndian
		cp = checkpoint{Projected: le.Uint64(b), Intent: le.Uint64(b[8:]), Boot: uuid.UUID(b[16:])}
	}
	return cp, turn, nil
}

// replace makes a new, durable checkpoint file: at start, and after a write or
// sync of the old one failed.
func (c *checkpointFile) replace(dir string, projected uint64) error {
	path := filepath.Join(dir, checkpointName)
	f, err := os.OpenFile(path+".tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	next := checkpointFile{f: f, syncs: c.syncs, turn: c.turn, boot: bootID()}
	err = next.save(projected, 0, true)
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
	c.close()
	*c = next
	return durable.SyncDir(dir)
}

// renew saves a checkpoint without an intent, in the file as it is where that
// can be trusted: a full disk may have no room for a new one.
func (c *checkpointFile) renew(dir string, projected uint64) error {
	if !c.bad && c.save(projected, 0, true) == nil {
		return nil
	}
	return c.replace(dir, projected)
}

// save writes the next slot, and syncs it where the order of what follows depends on it.
func (c *checkpointFile) save(projected, intent uint64, sync bool) (err error) {
	defer func() { c.bad = c.bad || err != nil }()
	c.turn++
	le := binary.LittleEndian
	b := le.AppendUint64(make([]byte, 0, checkpointSize), projected)
	b = append(le.AppendUint64(b, intent), c.boot[:]...)
	if err := slots.Write(c.f, checkpointMagic, c.turn, b); err != nil {
		return fmt.Errorf("writing checkpoint: %w", err)
	}
	if !sync {
		return nil
	}
	c.syncs.Add(1)
	if err := unix.Fdatasync(int(c.f.Fd())); err != nil {
		return fmt.Errorf("syncing checkpoint: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(c.f.Fd()), &st); err != nil || st.Nlink == 0 {
		return fmt.Errorf("writing checkpoint: the file was removed: %w", cmp.Or(err, os.ErrNotExist))
	}
	return nil
}

func (c *checkpointFile) close() {
	if c.f != nil {
		c.f.Close()
	}
}
