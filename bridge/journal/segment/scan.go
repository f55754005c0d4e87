package segment

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/aurorabot-dev/platform/bridge/internal/format"
)

// window reads a file through one buffer.
type window struct {
	f    *os.File
	buf  []byte
	base int64
}

// at returns n bytes at off, or fewer at the end of the file.
func (w *window) at(off int64, n int) ([]byte, error) {
	if off < w.base || off+int64(n) > w.base+int64(len(w.buf)) {
		size := max(n, 256<<10)
		if cap(w.buf) < size {
			w.buf = make([]byte, size)
		}
		got, err := w.f.ReadAt(w.buf[:size], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		w.base, w.buf = off, w.buf[:got]
	}
	b := w.buf[off-w.base:]
	return b[:min(n, len(b))], nil
}

// forget drops the buffer, so that what was written since is seen.
func (w *window) forget() { w.buf = w.buf[:0] }

// record reads the record at off, at position least or later. The size is 0
// where there is none. The record is valid until the next read.
func (w *window) record(off int64, least uint64) (r Record, size int64, err error) {
	h, err := w.at(off, HeaderSize)
	if err != nil || len(h) < HeaderSize {
		return r, 0, err
	}
	if size = recordSize(h, least); size == 0 {
		return r, 0, nil
	}
	b, err := w.at(off, int(size))
	if err != nil || int64(len(b)) < size {
		return r, 0, err
	}
	r, ok := decode(b)
	if !ok {
		return r, 0, nil
	}
	return r, size, nil
}

// seek finds the first valid record at or after off, and the end of what is
// not zero before it. The offset is -1 where there is none.
func (w *window) seek(off int64, least uint64) (found, nonzero int64, err error) {
	nonzero = off
	for {
		h, err := w.at(off, HeaderSize)
		if err != nil {
			return -1, 0, err
		}
		for i, c := range h[:min(8, len(h))] {
			if c != 0 {
				nonzero = off + int64(i) + 1
			}
		}
		if len(h) < HeaderSize {
			for i, c := range h {
				if c != 0 {
					nonzero = max(nonzero, off+int64(i)+1)
				}
			}
			return -1, nonzero, nil
		}
		if recordSize(h, least) > 0 {
			if _, size, err := w.record(off, least); err != nil || size > 0 {
				return off, nonzero, err
			}
		}
		off += 8
	}
}

// openSegment opens a segment for reading. A damaged header is no error here, as
// the first position is in the name; that of a newer format is a [format.ErrNewer].
func openSegment(dir string, first uint64) (*window, error) {
	f, err := os.Open(Path(dir, first))
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(Magic))
	n, _ := f.ReadAt(head, 0) // a short file has no records
	if err := format.Check(f.Name(), head[:n], Magic); err != nil {
		f.Close()
		return nil, err
	}
	return &window{f: f}, nil
}

// Scan calls fn with each record of a segment at a position below limit (0: no
// limit), and returns the offset at which the last of them ends. Of the last
// segment of a log, the last damage is its torn end.
func Scan(dir string, first, limit uint64, fn func(Record)) (end int64, damage []Damage, err error) {
	w, err := openSegment(dir, first)
	if err != nil {
		return 0, nil, err
	}
	defer w.f.Close()
	name, off, least := filepath.Base(w.f.Name()), int64(HeaderSize), first
	end = off
	for {
		r, size, err := w.record(off, least)
		if err != nil {
			return 0, nil, err
		}
		if size == 0 {
			found, nonzero, err := w.seek(off, least)
			if err != nil {
				return 0, nil, err
			}
			if found < 0 {
				if limit == 0 && nonzero > off {
					damage = append(damage, Damage{Segment: name, Offset: off, Bytes: nonzero - off, Torn: true})
				} else if limit > least {
					damage = append(damage, Damage{Segment: name, Offset: off, Bytes: nonzero - off, From: least, To: limit - 1})
				}
				return end, damage, nil
			}
			if r, size, err = w.record(found, least); err != nil {
				return 0, nil, err
			}
			if limit == 0 || r.Pos < limit {
				damage = append(damage, Damage{Segment: name, Offset: off, Bytes: found - off, From: least, To: r.Pos - 1})
			}
			off = found
		} else if r.Pos > least && (limit == 0 || r.Pos < limit) {
			damage = append(damage, Damage{Segment: name, Offset: off, From: least, To: r.Pos - 1})
		}
		if limit > 0 && r.Pos >= limit {
			if limit > least {
				damage = append(damage, Damage{Segment: name, Offset: off, From: least, To: limit - 1})
			}
			return end, damage, nil
		}
		fn(r)
		off += size
		end, least = off, r.Pos+1
	}
}
