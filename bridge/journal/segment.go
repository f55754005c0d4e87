package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

const (
	segmentMagic = "aurjrnl1"
	stride       = 1 << 20 // of zeros, written and synced at once
)

var zeros [stride]byte

// segment is the file that takes records.
type segment struct {
	f     *os.File
	fault func(string) error
	first uint64
	off   int64 // end of the synced records
	size  int64

	mu      sync.Mutex
	filled  int64 // end of the blocks written before, with zeros or records
	written int64 // end of the records, also of those not synced
	sealed  bool
	inUse   chan struct{} // closed when a stride has been written
}

func newSegment(f *os.File, fault func(string) error, first uint64, off, size int64) *segment {
	s := &segment{f: f, fault: fault, first: first, off: off, size: size, filled: off, written: off, inUse: make(chan struct{})}
	if off >= stride {
		close(s.inUse)
	}
	return s
}

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d.log", first))
}

// createSegment makes a durable, empty segment with its blocks allocated. On
// error nothing is left of it. No record at first or later is durable yet: a file
// of its name is of a segment that failed and could not be removed, and is kept aside.
func createSegment(dir string, first uint64, size int64, fault func(string) error) (_ *segment, err error) {
	if err := fault("journal create"); err != nil {
		return nil, err
	}
	path := segmentPath(dir, first)
	aside := Damage{Segment: filepath.Base(path)}.TornName()
	if err := os.Rename(path, filepath.Join(dir, aside)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := newSegment(f, fault, first, headerSize, size)
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
	var h [headerSize]byte
	copy(h[:], segmentMagic)
	binary.LittleEndian.PutUint64(h[8:], first)
	_, err := f.WriteAt(h[:], 0)
	return err
}

// resumeSegment takes up a segment whose records end at off, of which the rest was cut.
func resumeSegment(dir string, first uint64, off, size int64, fault func(string) error) (*segment, error) {
	f, err := os.OpenFile(segmentPath(dir, first), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := newSegment(f, fault, first, off, size)
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

func (s *segment) fits(n int) bool { return s.off+int64(n) <= s.size }

// fillAhead fills the segment with zeros, ahead of the records: writing over
// blocks that were written before changes no metadata, so that a commit waits
// for the data alone. It ends when that is done, on error, or with stop; then
// commits cost what they cost.
//
// It has its own descriptor. The kernel reports a failed write once for each,
// and the committer must not miss one.
func (s *segment) fillAhead(stop <-chan struct{}) error {
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
func (s *segment) fill(f *os.File) (more bool, err error) {
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

// append makes b durable after the records that are. After an error the file
// must not be used again.
func (s *segment) append(b []byte) error {
	if err := s.fault("journal write"); err != nil {
		return err
	}
	end := s.off + int64(len(b))
	s.note(end)
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

// note says that records are written up to end.
func (s *segment) note(end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written < stride && end >= stride && !s.sealed {
		close(s.inUse)
	}
	s.filled, s.written = max(s.filled, end), end // no zeros over these
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

// inPlace fails when the segment is not found any more under its name.
func (s *segment) inPlace() error { return inPlace(s.f) }

// errRemoved says that somebody removed or replaced a file that is in use.
type errRemoved struct{ path string }

func (e errRemoved) Error() string { return e.path + " was removed while it was in use" }

func inPlace(f *os.File) error {
	var held, there unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &held); err != nil {
		return &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	err := unix.Stat(f.Name(), &there)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || err == nil && (held.Dev != there.Dev || held.Ino != there.Ino) {
		return errRemoved{f.Name()}
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return nil
}

// seal gives back what the segment did not use and closes it.
func (s *segment) seal() error {
	s.stopFilling()
	return errors.Join(s.f.Truncate(s.off), s.f.Close())
}

// abandon leaves a file whose sync failed. What it holds beyond its synced
// records is void: the next segment begins where they end.
func (s *segment) abandon() {
	s.stopFilling()
	if s.off == headerSize && s.inPlace() == nil {
		os.Remove(s.f.Name())
	} else {
		s.f.Truncate(s.off)
	}
	s.f.Close()
}

func (s *segment) stopFilling() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written < stride && !s.sealed {
		close(s.inUse) // nobody waits any longer
	}
	s.sealed = true
}

// list returns the positions that name the files of dir with a suffix, rising.
func list(dir, suffix string) (firsts []uint64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if number, ok := strings.CutSuffix(e.Name(), suffix); ok && len(number) == 20 {
			if first, err := strconv.ParseUint(number, 10, 64); err == nil {
				firsts = append(firsts, first)
			}
		}
	}
	slices.Sort(firsts)
	return firsts, nil
}

// Lock takes the only write lock of a folder, a file in it. The error names the
// process that holds it.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := make([]byte, 20)
		n, _ := f.ReadAt(holder, 0)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w by process %s (%s)", ErrLocked, strings.TrimSpace(string(holder[:n])), path)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	pid := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if err := f.Truncate(0); err == nil {
		f.WriteAt(pid, 0) // only for the message above
	}
	return f, nil
}

// ErrLocked says that another process has the folder open for writing.
var ErrLocked = errors.New("in use")
