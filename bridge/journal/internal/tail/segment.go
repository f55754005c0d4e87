// Package tail writes the last segment of a journal, the only one that takes
// records, and keeps the next one ready.
//
//	seg, err := tail.Create(dir, first, size, fault)
//	err = seg.Append(records) // durable
//	err = seg.Seal()          // full
//
// A segment's blocks are allocated when it is made and filled with zeros ahead
// of the records, so that an append waits for the data alone and not for the file
// system's own journal.
package tail

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

const stride = 1 << 20 // bytes of zeros that are written and synced at once

var zeros [stride]byte

// Segment is the file that takes records. One goroutine appends and seals,
// another one may run FillAhead meanwhile.
type Segment struct {
	f     *os.File
	fault func(string) error
	off   int64 // end of the synced records
	size  int64

	mu      sync.Mutex
	filled  int64 // end of the blocks that were written before, with zeros or records
	written int64 // end of the records, also of those not synced
	sealed  bool
	inUse   chan struct{} // closed when a stride has been written
}

func newSegment(f *os.File, fault func(string) error, off, size int64) *Segment {
	s := &Segment{f: f, fault: fault, off: off, size: size, filled: off, written: off, inUse: make(chan struct{})}
	if off >= stride {
		close(s.inUse)
	}
	return s
}

// Create makes a durable, empty segment of a size with its blocks allocated. On
// error nothing is left of it. No record at the position first or later is durable
// yet, so a file that has the segment's name already is of a segment that failed and
// could not be removed: that file is kept aside. Before each step on the disk fault
// is asked, which may fail the step.
func Create(dir string, first uint64, size int64, fault func(string) error) (_ *Segment, err error) {
	if err := fault("journal create"); err != nil {
		return nil, err
	}
	path := segment.Path(dir, first)
	aside := segment.Damage{Segment: filepath.Base(path)}.TornName()
	if err := os.Rename(path, filepath.Join(dir, aside)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := newSegment(f, fault, segment.HeaderSize, size)
	defer func() {
		if err != nil {
			s.discard()
		}
	}()
	if err := allocate(f, size); err != nil {
		return nil, err
	}
	if err := writeHeader(f, first); err != nil {
		return nil, err
	}
	if _, err := s.fill(f); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	if err := fault("journal folder sync"); err != nil {
		return nil, err
	}
	return s, durable.SyncDir(dir)
}

func writeHeader(f *os.File, first uint64) error {
	_, err := f.WriteAt(segment.Header(first), 0)
	return err
}

// Resume takes up the segment that begins with the position first. Its synced
// records end at off, where the file was cut.
func Resume(dir string, first uint64, off, size int64, fault func(string) error) (*Segment, error) {
	f, err := os.OpenFile(segment.Path(dir, first), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := newSegment(f, fault, off, size)
	if err := allocate(f, size); err != nil {
		s.size = off // full: the next batch makes a new one, which waits for space
	}
	return s, nil
}

func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = f.Truncate(size)
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// Fits reports whether n more bytes of records find room.
func (s *Segment) Fits(n int) bool { return s.off+int64(n) <= s.size }

// FillAhead fills the segment with zeros, ahead of the records: writing over
// blocks that were written before changes no metadata, so that an append waits
// for the data alone. It ends when that is done, on error, or with stop; after an
// error appends are slower and no less durable.
//
// It has its own descriptor. The kernel reports a failed write once to each
// descriptor, and an append must not miss one.
func (s *Segment) FillAhead(stop <-chan struct{}) error {
	f, err := os.OpenFile(s.f.Name(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if more, err := s.fill(f); err != nil || !more {
			return err
		}
		if err := fdatasync(f); err != nil {
			return err
		}
	}
}

// fill writes the next stride of zeros.
func (s *Segment) fill(f *os.File) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(stride, s.size-s.filled)
	if n <= 0 || s.sealed {
		return false, nil
	}
	if _, err := f.WriteAt(zeros[:n], s.filled); err != nil {
		return false, err
	}
	s.filled += n
	return true, nil
}

// Append makes b durable after the records that are. After an error the segment
// must not be used again: see [Segment.Abandon].
func (s *Segment) Append(b []byte) error {
	if err := s.fault("journal write"); err != nil {
		return err
	}
	end := s.off + int64(len(b))
	s.noteWritten(end)
	if _, err := s.f.WriteAt(b, s.off); err != nil {
		return err
	}
	if err := s.fault("journal sync"); err != nil {
		return err
	}
	if err := fdatasync(s.f); err != nil {
		return err
	}
	s.off = end
	return s.fault("journal synced")
}

// noteWritten says that records are written up to end, so that no zeros are
// written over them.
func (s *Segment) noteWritten(end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written < stride && end >= stride && !s.sealed {
		close(s.inUse)
	}
	s.filled, s.written = max(s.filled, end), end
}

func fdatasync(f *os.File) error {
	for {
		switch err := unix.Fdatasync(int(f.Fd())); err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}

// InPlace is a [lockfile.Removed] when the segment is not found under its name any more.
func (s *Segment) InPlace() error { return lockfile.InPlace(s.f) }

// Seal gives back the room that the segment did not use and closes it.
func (s *Segment) Seal() error {
	s.stopFilling()
	return errors.Join(s.f.Truncate(s.off), s.f.Close())
}

// Abandon leaves a segment whose append failed. What the file has beyond the
// synced records is void: the next segment begins where those end.
func (s *Segment) Abandon() {
	s.stopFilling()
	if s.off == segment.HeaderSize && s.InPlace() == nil {
		os.Remove(s.f.Name())
	} else {
		s.f.Truncate(s.off)
	}
	s.f.Close()
}

func (s *Segment) stopFilling() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written < stride && !s.sealed {
		close(s.inUse) // nobody waits any longer
	}
	s.sealed = true
}

// discard removes a segment that has no records, and closes it.
func (s *Segment) discard() {
	os.Remove(s.f.Name())
	s.f.Close()
}
