package tail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// SpareName is the name of the file that becomes the next segment. A file that an
// earlier process left under it is never used: it may not have been synced.
const SpareName = "next.segment"

// Spare keeps the next segment ready: allocated and filled with zeros while
// nobody writes, so that a burst of records waits for neither.
type Spare struct {
	Dir   string
	Size  int64                       // of a segment, in bytes
	Room  func() (bool, error)        // whether the disk has room for a spare
	Stop  <-chan struct{}             // ends the making of one
	Fault func(step string) error     // asked before each step on the disk
	Debug func(msg string, err error) // told why a spare could not be used

	lastAppend atomic.Int64 // nanoseconds of the clock

	mu    sync.Mutex
	ready *Segment
	there bool // there is a spare, or one is being made
}

// calm is how long nobody has written when zeros are written.
const calm = 20 * time.Millisecond

// NoteAppend says that records were written just now.
func (p *Spare) NoteAppend() { p.lastAppend.Store(time.Now().UnixNano()) }

// Ready reports whether there is a spare to use.
func (p *Spare) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready != nil
}

// Make makes a spare, unless there is one, as soon as the first megabyte of seg
// shows that it will be needed. It leaves the disk to appends until seg is nearly
// full. Without an error there may be none, too: for want of room, or as Stop is closed.
func (p *Spare) Make(seg *Segment) error {
	select {
	case <-seg.inUse:
	case <-p.Stop:
		return nil
	}
	p.mu.Lock()
	there := p.there
	p.there = true
	p.mu.Unlock()
	if there {
		return nil
	}
	spare, err := p.fill(seg)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.there = spare, spare != nil
	return err
}

// fill makes the file of a spare; nil where there is too little room, or Stop is closed.
func (p *Spare) fill(seg *Segment) (spare *Segment, err error) {
	if room, err := p.Room(); err != nil || !room {
		return nil, err
	}
	path := filepath.Join(p.Dir, SpareName)
	os.Remove(path) // a file of another process
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := newSegment(f, p.Fault, segment.HeaderSize, p.Size)
	defer func() {
		if spare == nil {
			s.discard()
		}
	}()
	if err := allocate(f, s.size); err != nil {
		return nil, err
	}
	for more := true; more; {
		if !p.awaitCalm(seg) {
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

// awaitCalm waits until nobody writes, or seg is nearly full. It returns false when
// Stop is closed.
func (p *Spare) awaitCalm(seg *Segment) bool {
	for {
		busy := time.Since(time.Unix(0, p.lastAppend.Load())) < calm
		if !busy || seg.nearlyFull() {
			select {
			case <-p.Stop:
				return false
			default:
				return true
			}
		}
		select {
		case <-p.Stop:
			return false
		case <-time.After(calm / 4):
		}
	}
}

func (s *Segment) nearlyFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written > s.size/4*3 || s.sealed
}

// Segment makes the segment that begins with the position first and has at least
// a size: of the spare where that is large enough and can be used, else anew.
func (p *Spare) Segment(first uint64, size int64) (seg *Segment, err error) {
	p.use(func(spare *Segment) bool {
		if spare.size < size {
			return false
		}
		if seg, err = spare.become(p.Dir, first); err != nil {
			p.Debug("journal: the segment made ahead cannot be used", err)
		}
		return err == nil
	})
	if seg != nil {
		return seg, nil
	}
	return Create(p.Dir, first, size, p.Fault)
}

// Drop removes the spare and reports whether there was one.
func (p *Spare) Drop() bool {
	return p.use(func(*Segment) bool { return false })
}

// use offers the spare that is ready to take, and removes it where take declines.
// It reports whether there was one. Another one may be made after that.
func (p *Spare) use(take func(*Segment) (taken bool)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready == nil {
		return false
	}
	if take(p.ready) {
		p.ready.f.Close()
	} else {
		p.ready.discard()
	}
	p.ready, p.there = nil, false
	return true
}

// become makes a durable segment of the spare s. The new segment has a descriptor
// of its own: for the file's new name, and so that a write of zeros that failed
// before is not reported to an append.
func (s *Segment) become(dir string, first uint64) (*Segment, error) {
	for _, step := range []string{"journal create", "spare rename"} { // the first is of every segment
		if err := s.fault(step); err != nil {
			return nil, err
		}
	}
	if err := lockfile.InPlace(s.f); err != nil {
		return nil, err
	}
	if err := errors.Join(writeHeader(s.f, first), fdatasync(s.f)); err != nil {
		return nil, err
	}
	path := segment.Path(dir, first)
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
	seg := newSegment(f, s.fault, segment.HeaderSize, s.size)
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
