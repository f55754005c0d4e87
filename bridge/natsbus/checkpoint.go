package natsbus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/bridge/internal/slots"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// checkpoint says how far the journal is in the stream. It is kept beside the
// journal, in two [slots] written in turn, so that one of them is whole.
//
//	body: forwarded, seq, seq's position, created, unsure
//
// It may be older than the truth: what it leaves open is asked of the stream.
type checkpoint struct {
	Forwarded uint64 // every record up to here is in the stream, or needs no message
	Seq       uint64 // of the last message the stream acknowledged; 0 for none
	SeqPos    uint64 // the position of its record
	Created   int64  // when the stream was made, in ns: Seq counts in this one
	Unsure    bool   // records after Forwarded may have been sent
}

const (
	checkpointName  = "forwarded"
	checkpointMagic = "aurnats1"
	checkpointSize  = 5 * 8
)

type checkpointFile struct {
	f    *os.File
	turn uint64
}

// openCheckpoint reads the latest whole slot; found is false when there is none. A
// file of a newer version of the platform is an error.
func openCheckpoint(dir string) (file checkpointFile, cp checkpoint, found bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, checkpointName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return file, cp, false, err
	}
	file.f = f
	raw := make([]byte, 2*slots.Size)
	n, _ := f.ReadAt(raw, 0) // what cannot be read is not there
	turn, b, err := slots.Latest(f.Name(), raw[:n], checkpointMagic, checkpointSize)
	if err != nil {
		f.Close()
		return file, cp, false, err
	}
	if turn > 0 {
		le := binary.LittleEndian
		file.turn, found = turn, true
		cp = checkpoint{Forwarded: le.Uint64(b), Seq: le.Uint64(b[8:]), SeqPos: le.Uint64(b[16:]),
			Created: int64(le.Uint64(b[24:])), Unsure: le.Uint64(b[32:]) != 0}
	}
	if err := errors.Join(f.Truncate(2*slots.Size), durable.SyncDir(dir)); err != nil {
		f.Close()
		return file, cp, false, err
	}
	return file, cp, found, nil
}

// save writes the next slot, and syncs it where asked.
func (c *checkpointFile) save(cp checkpoint, sync bool) error {
	c.turn++
	unsure := uint64(0)
	if cp.Unsure {
		unsure = 1
	}
	b := make([]byte, 0, checkpointSize)
	for _, v := range []uint64{cp.Forwarded, cp.Seq, cp.SeqPos, uint64(cp.Created), unsure} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	if err := slots.Write(c.f, checkpointMagic, c.turn, b); err != nil {
		return fmt.Errorf("writing checkpoint: %w", err)
	}
	if !sync {
		return nil
	}
	if err := unix.Fdatasync(int(c.f.Fd())); err != nil {
		return fmt.Errorf("syncing checkpoint: %w", err)
	}
	return nil
}
