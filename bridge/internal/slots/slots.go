// Package slots keeps a few bytes in a file of two slots that are written in
// turn: a write that is torn, by a crash or a power cut, leaves the other slot
// whole.
//
//	err := slots.Write(f, "aurnats1", turn+1, body)
//	turn, body, err := slots.Latest(path, raw, "aurnats1", size) // of the file's content
//
// A slot has 512 bytes: magic, turn, body, the crc32c of these, and nothing.
// When the file is synced is the affair of its owner.
package slots

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/aurorabot-dev/platform/bridge/internal/format"
)

// Size is that of a slot in bytes.
const Size = 512

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write writes the slot whose turn it is; turns begin with 1. A body has at most
// 400 bytes, and the same number in every turn.
func Write(w io.WriterAt, magic string, turn uint64, body []byte) error {
	b := append(make([]byte, 0, len(magic)+8+len(body)+4), magic...)
	b = binary.LittleEndian.AppendUint64(b, turn)
	b = append(b, body...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	_, err := w.WriteAt(b, int64(turn%2)*Size)
	return err
}

// Latest is the body, of size bytes, of the whole slot that was written last, and
// its turn: 0 when no slot is whole. The body is a part of raw, which is the content
// of the file at path. A slot of a newer version is a [format.ErrNewer].
func Latest(path string, raw []byte, magic string, size int) (turn uint64, body []byte, err error) {
	for slot := raw; len(slot) > 0; slot = slot[min(Size, len(slot)):] {
		if err := format.Check(path, slot, magic); err != nil {
			return 0, nil, err
		}
	}
	head := len(magic) + 8
	for ; len(raw) >= head+size+4; raw = raw[min(Size, len(raw)):] {
		content, sum := raw[:head+size], raw[head+size:]
		if string(raw[:len(magic)]) != magic || crc32.Checksum(content, castagnoli) != binary.LittleEndian.Uint32(sum) {
			continue
		}
		if t := binary.LittleEndian.Uint64(raw[len(magic):]); t > turn {
			turn, body = t, content[head:]
		}
	}
	return turn, body, nil
}
