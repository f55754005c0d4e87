package segment

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Reader gives the records of a journal in order. It is not safe for
// concurrent use. It may read on after io.EOF when there is more.
type Reader struct {
	dir   string
	upTo  func() uint64 // highest position to give; nil for all that is valid
	known uint64        // what it was last
	next  uint64
	w     *window
	off   int64
	limit uint64        // first position of the segment after the open one; 0 when it is the last
	aside func(*Damage) // keeps damaged bytes; may be nil
	// Damage is what was skipped so far.
	Damage []Damage
}

// OpenReader reads a journal from the position from on, also while another
// process writes it, and without changing anything. It begins later where the
// segments before were dropped.
func OpenReader(dir string, from uint64) (*Reader, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	return &Reader{dir: dir, next: max(from, 1)}, nil
}

// NewReader reads the journal in dir from the position from on, as far as upTo
// says at the time. Damage that it meets is given to aside.
func NewReader(dir string, from uint64, upTo func() uint64, aside func(*Damage)) *Reader {
	return &Reader{dir: dir, upTo: upTo, next: max(from, 1), aside: aside}
}

// Pos is the position up to which all records were given, or are not there.
func (r *Reader) Pos() uint64 { return r.next - 1 }

// Next is the next record, or io.EOF when there is none at present.
func (r *Reader) Next() (Record, error) {
	for {
		if r.upTo != nil && r.next > r.known {
			if r.known = r.upTo(); r.next > r.known {
				return Record{}, io.EOF
			}
		}
		if r.w == nil {
			if err := r.open(); err != nil {
				return Record{}, err
			}
		}
		rec, size, err := r.w.record(r.off, 1)
		if err == nil && size == 0 { // perhaps written since it was read
			r.w.forget()
			rec, size, err = r.w.record(r.off, 1)
		}
		if err != nil {
			return Record{}, err
		}
		if size == 0 {
			if more, err := r.skip(); err != nil {
				return Record{}, err
			} else if !more {
				return Record{}, io.EOF
			}
			continue
		}
		if r.limit > 0 && rec.Pos >= r.limit {
			r.leave(0)
			continue
		}
		r.off += size
		if rec.Pos < r.next {
			continue
		}
		if rec.Pos > r.next {
			r.lost(r.off-size, 0, rec.Pos)
		}
		r.next = rec.Pos + 1
		rec.Body = slices.Clone(rec.Body)
		return rec, nil
	}
}

// skip goes on after the last record that could be read: to the next segment,
// or over damage. It reports false at the end of the log.
func (r *Reader) skip() (bool, error) {
	if err := r.findLimit(); err != nil {
		return false, err
	}
	found, nonzero, err := r.w.seek(r.off, r.next)
	if err != nil {
		return false, err
	}
	if found >= 0 {
		rec, _, err := r.w.record(found, r.next)
		if err != nil {
			return false, err
		}
		if r.limit == 0 || rec.Pos < r.limit {
			r.lost(r.off, found-r.off, rec.Pos)
			r.off, r.next = found, rec.Pos
			return true, nil
		}
	}
	if r.limit == 0 {
		return false, nil
	}
	bytes := int64(0)
	if found < 0 {
		bytes = nonzero - r.off
	}
	r.leave(bytes)
	return true, nil
}

// leave goes on to the next segment; the bytes that follow hold no record.
func (r *Reader) leave(bytes int64) {
	if r.limit > r.next {
		r.lost(r.off, bytes, r.limit)
		r.next = r.limit
	}
	r.w.f.Close()
	r.w = nil
}

func (r *Reader) lost(off, bytes int64, to uint64) {
	d := Damage{Segment: filepath.Base(r.w.f.Name()), Offset: off, Bytes: bytes, From: r.next, To: to - 1}
	if r.aside != nil {
		r.aside(&d)
	}
	r.Damage = append(r.Damage, d)
}

func (r *Reader) findLimit() error {
	logs, err := List(r.dir)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(logs, func(first uint64) bool { return first > r.opened() }); i >= 0 {
		r.limit = logs[i]
	}
	return nil
}

func (r *Reader) opened() (first uint64) {
	name := filepath.Base(r.w.f.Name())
	for _, c := range name[:20] {
		first = first*10 + uint64(c-'0')
	}
	return first
}

// open opens the segment that holds the next record.
func (r *Reader) open() error {
	logs, err := List(r.dir)
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		return io.EOF
	}
	at, exact := slices.BinarySearch(logs, r.next)
	if !exact && at > 0 {
		at--
	}
	first := logs[at]
	if r.w, err = openSegment(r.dir, first); err != nil {
		if errors.Is(err, os.ErrNotExist) { // dropped in between
			return io.EOF
		}
		return err
	}
	r.off, r.limit = HeaderSize, 0
	r.next = max(r.next, first)
	if at+1 < len(logs) {
		r.limit = logs[at+1]
	}
	return nil
}

// Close frees the reader.
func (r *Reader) Close() error {
	if r.w == nil {
		return nil
	}
	err := r.w.f.Close()
	r.w = nil
	return err
}
