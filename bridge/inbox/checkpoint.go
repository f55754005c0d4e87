package inbox

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// checkpoint says how far the files are made of the journal. It is kept beside
// the journal, in two slots written in turn, so that one of them is whole.
//
//	slot (512 bytes): "aurproj1", turn, projected, intent, boot id, crc32c
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
	slotSize        = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
	le := binary.LittleEndian
	for ; len(raw) >= 52; raw = raw[min(slotSize, len(raw)):] {
		if string(raw[:8]) != checkpointMagic || crc32.Checksum(raw[:48], castagnoli) != le.Uint32(raw[48:]) {
			continue
		}
		if t := le.Uint64(raw[8:]); t > turn {
			turn = t
			cp = checkpoint{Projected: le.Uint64(raw[16:]), Intent: le.Uint64(raw[24:]), Boot: uuid.UUID(raw[32:48])}
		}
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
		err = f.Truncate(2 * slotSize)
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
	b := append(make([]byte, 0, 52), checkpointMagic...)
	for _, v := range []uint64{c.turn, projected, intent} {
		b = le.AppendUint64(b, v)
	}
	b = append(b, c.boot[:]...)
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := c.f.WriteAt(b, int64(c.turn%2)*slotSize); err != nil {
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
