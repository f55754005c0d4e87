package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// Damage is a part of a segment that holds no valid record where there should be one.
type Damage struct {
	Segment string // file name, of a summary where that is damaged and its segment was dropped
	Offset  int64
	Bytes   int64
	Torn    bool   // at the end of the log, as a crash leaves it: nothing acknowledged is lost
	From    uint64 // else the positions From to To are lost
	To      uint64
	Kept    string // where the bytes were put aside; may be empty
}

func (d Damage) String() string {
	if strings.HasSuffix(d.Segment, ".ids") {
		return fmt.Sprintf("%s is not valid, the ids of records %d to %d are forgotten: such events would be taken for new ones", d.Segment, d.From, d.To)
	}
	if d.Torn {
		return fmt.Sprintf("%s: torn end of %d bytes at %d", d.Segment, d.Bytes, d.Offset)
	}
	if d.To < d.From {
		return fmt.Sprintf("%s: %d bytes at %d are not valid, no record is missing", d.Segment, d.Bytes, d.Offset)
	}
	return fmt.Sprintf("%s: %d bytes at %d are not valid, records %d to %d are lost", d.Segment, d.Bytes, d.Offset, d.From, d.To)
}

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
	h, err := w.at(off, headerSize)
	if err != nil || len(h) < headerSize {
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
		h, err := w.at(off, headerSize)
		if err != nil {
			return -1, 0, err
		}
		for i, c := range h[:min(8, len(h))] {
			if c != 0 {
				nonzero = off + int64(i) + 1
			}
		}
		if len(h) < headerSize {
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

// openSegment opens a segment for reading. A header that is not one is not an
// error here: its first position is in the name.
func openSegment(dir string, first uint64) (*window, error) {
	f, err := os.Open(segmentPath(dir, first))
	if err != nil {
		return nil, err
	}
	return &window{f: f}, nil
}

// scan calls fn with each record of a segment at a position below limit (0: no
// limit), and returns where they end. The damage of a last segment ends with
// its torn end.
func scan(dir string, first, limit uint64, fn func(Record)) (end int64, damage []Damage, err error) {
	w, err := openSegment(dir, first)
	if err != nil {
		return 0, nil, err
	}
	defer w.f.Close()
	name, off, least := filepath.Base(w.f.Name()), int64(headerSize), first
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

// TornName is the name of the file that d's bytes are kept in, where they are.
func (d Damage) TornName() string {
	base := d.Segment[:len(d.Segment)-len(filepath.Ext(d.Segment))]
	return base + "-" + strconv.FormatInt(d.Offset, 10) + ".torn"
}

// keepAside keeps what a reader met, once.
func (j *Journal) keepAside(d *Damage) {
	if err := d.Keep(j.opt.Dir); err != nil {
		j.opt.Logger.Warn("journal: keeping damaged bytes aside", "what", d.String(), "error", err)
	}
}

// Keep copies the damaged bytes to a file beside the segment in dir, unless one
// holds them already, and sets Kept to its path. It may run while another
// process writes the journal.
func (d *Damage) Keep(dir string) error {
	if d.Bytes == 0 {
		return nil
	}
	src, err := os.Open(filepath.Join(dir, d.Segment))
	if err != nil {
		return err
	}
	defer src.Close()
	path := filepath.Join(dir, d.TornName())
	same, err := holds(path, io.NewSectionReader(src, d.Offset, d.Bytes))
	if err != nil {
		return err
	}
	if !same {
		err = copyTo(path, io.NewSectionReader(src, d.Offset, d.Bytes))
	}
	if err == nil {
		d.Kept = path
	}
	return err
}

// copyMark follows the name of a file that is being copied.
const copyMark = ".tmp-"

// copyTo makes a file that is there whole or not at all.
func copyTo(path string, r io.Reader) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+copyMark+"*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// holds reports whether the file at path is there and holds what r gives.
func holds(path string, r io.Reader) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	want, have := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(r, want)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, err
		}
		m, ferr := io.ReadFull(f, have)
		if ferr != nil && ferr != io.EOF && ferr != io.ErrUnexpectedEOF {
			return false, ferr
		}
		if !bytes.Equal(want[:n], have[:m]) {
			return false, nil
		}
		if err != nil { // the end of both
			return true, nil
		}
	}
}
