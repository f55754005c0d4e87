package natsbus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// checkpoint says how far the journal is in the stream. It is kept beside the
// journal, in two slots written in turn, so that one of them is whole.
//
//	slot (512 bytes): "aurnats1", turn, forwarded, seq, seq's position, created, unsure; crc32c
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
	checkpointSize  = 8 + 6*8 // without the checksum
	slotSize        = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type checkpointFile struct {
	f    *os.File
	turn uint64
}

// openCheckpoint reads the latest whole slot; found is false when there is none.
func openCheckpoint(dir string) (file checkpointFile, cp checkpoint, found bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, checkpointName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return file, cp, false, err
	}
	file.f = f
	raw := make([]byte, 2*slotSize)
	n, _ := f.ReadAt(raw, 0) // what cannot be read is not there
	le := binary.LittleEndian
	for _, at := range []int{0, slotSize} {
		b := raw[at : at+checkpointSize+4]
		if at+len(b) > n || string(b[:8]) != checkpointMagic || crc32.Checksum(b[:checkpointSize], castagnoli) != le.Uint32(b[checkpointSize:]) {
			continue
		}
		if turn := le.Uint64(b[8:]); turn > file.turn {
			file.turn, found = turn, true
			cp = checkpoint{Forwarded: le.Uint64(b[16:]), Seq: le.Uint64(b[24:]), SeqPos: le.Uint64(b[32:]),
				Created: int64(le.Uint64(b[40:])), Unsure: le.Uint64(b[48:]) != 0}
		}
	}
	if err := errors.Join(f.Truncate(2*slotSize), durable.SyncDir(dir)); err != nil {
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
	le := binary.LittleEndian
	b := append(make([]byte, 0, checkpointSize+4), checkpointMagic...)
	for _, v := range []uint64{c.turn, cp.Forwarded, cp.Seq, cp.SeqPos, uint64(cp.Created), unsure} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := c.f.WriteAt(b, int64(c.turn%2)*slotSize); err != nil {
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
