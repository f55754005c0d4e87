package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// spareName is of the file that becomes the next segment. What a process leaves
// of it is not used by the next.
const spareName = "next.segment"

// spares keeps one segment ready, allocated and filled with zeros while nobody
// writes, so that a burst meets neither. There is none on a small disk, and it
// goes first where room is short.
type spares struct {
	mu    sync.Mutex
	ready *segment
	there bool // the file is, or is about to be
}

// calm is how long nobody has written when a spare is filled.
const calm = 20 * time.Millisecond

// makeSpare makes a spare, unless there is one, as soon as the first records of
// seg show that it may be needed. It leaves the disk to commits until seg is
// nearly full.
func (j *Journal) makeSpare(seg *segment) error {
	select {
	case <-seg.inUse:
	case <-j.closing:
		return nil
	}
	s := &j.spares
	s.mu.Lock()
	there := s.there
	s.there = true
	s.mu.Unlock()
	if there {
		return nil
	}
	spare, err := j.fillSpare(seg)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.there = spare, spare != nil
	return err
}

// fillSpare returns nil where there is too little room, or the journal is closed.
func (j *Journal) fillSpare(seg *segment) (spare *segment, err error) {
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	owed := j.debts.total
	j.mu.Unlock()
	if d.slack(owed)/8 < j.opt.SegmentBytes {
		return nil, nil
	}
	path := filepath.Join(j.opt.Dir, spareName)
	os.Remove(path) // none is ours
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := newSegment(f, j.opt.Fault, 0, headerSize, j.opt.SegmentBytes)
	defer func() {
		if spare == nil {
			s.discard()
		}
	}()
	if err := allocate(f, s.size); err != nil {
		return nil, err
	}
	for more := true; more; {
		if !j.awaitCalm(seg) {
			return nil, nil
		}
		if more, err = s.fill(f); err == nil {
			err = s.fault("spare sync")
		}
		if err == nil {
			err = fdatasync(f)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// awaitCalm returns false when the journal is closed.
func (j *Journal) awaitCalm(seg *segment) bool {
	for {
		busy := time.Since(time.Unix(0, j.committed.Load())) < calm
		if !busy || seg.nearlyFull() {
			return !j.isClosing()
		}
		select {
		case <-j.closing:
			return false
		case <-time.After(calm / 4):
		}
	}
}

func (s *segment) nearlyFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written > s.size/4*3 || s.sealed
}

// nextSegment makes the segment that begins with the position first and has at
// least that size, of the spare where there is one.
func (j *Journal) nextSegment(first uint64, size int64) (seg *segment, err error) {
	j.useSpare(func(spare *segment) bool {
		if spare.size < size {
			return false
		}
		if seg, err = spare.become(j.opt.Dir, first); err != nil {
			j.opt.Logger.Debug("journal: the segment made ahead cannot be used", "error", err)
		}
		return err == nil
	})
	if seg != nil {
		return seg, nil
	}
	return createSegment(j.opt.Dir, first, size, j.opt.Fault)
}

// dropSpare reports whether there was one.
func (j *Journal) dropSpare() bool {
	return j.useSpare(func(*segment) bool { return false })
}

// useSpare gives a spare that is ready to use, and removes what that does not
// take. It reports whether there was one. Another is made only after that.
func (j *Journal) useSpare(use func(*segment) (taken bool)) bool {
	s := &j.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready == nil {
		return false
	}
	if use(s.ready) {
		s.ready.f.Close()
	} else {
		s.ready.discard()
	}
	s.ready, s.there = nil, false
	return true
}

// discard removes a segment that holds nothing, and closes it.
func (s *segment) discard() {
	os.Remove(s.f.Name())
	s.f.Close()
}

// become makes a durable segment of the spare s. The descriptor is a new one,
// for its name and so that no failed write of before is reported by it.
func (s *segment) become(dir string, first uint64) (*segment, error) {
	for _, step := range []string{"journal create", "spare rename"} { // the first is of every segment
		if err := s.fault(step); err != nil {
			return nil, err
		}
	}
	if err := s.inPlace(); err != nil {
		return nil, err
	}
	if err := errors.Join(writeHeader(s.f, first), fdatasync(s.f)); err != nil {
		return nil, err
	}
	path := segmentPath(dir, first)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is there", path)
	}
	if err := os.Rename(s.f.Name(), path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	seg := newSegment(f, s.fault, first, headerSize, s.size)
	seg.filled = seg.size
	if err = s.fault("spare folder sync"); err == nil {
		err = durable.SyncDir(dir)
	}
	if err != nil {
		seg.discard()
		return nil, err
	}
	return seg, nil
}
