package inbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

// pendingCount knows how many files are in pending/, and about how large they are,
// without listing the folder: it counts the files that the projector adds, and
// inotify tells of the files that others take and bring back. The folder is listed at
// the start and when notices of inotify were lost; where inotify is not to be had, it
// is listed from time to time.
type pendingCount struct {
	x   *Inbox
	dir string

	mu       sync.Mutex
	listed   int64 // by the last listing, less the changes by then
	added    int64 // by the projector
	came     int64 // files seen to come, by whomever
	returned int64 // of them, by others
	taken    int64
	size     float64   // of all files, in bytes
	blocked  bool      // see room
	over     bool      // the soft limit, and it was said
	expiry   time.Time // no file in pending/ expires before; zero: unknown

	spill   chan struct{}
	listing atomic.Bool // the folder has not been listed yet
}

func newPendingCount(x *Inbox) *pendingCount {
	c := &pendingCount{x: x, dir: filepath.Join(x.opt.Dir, queue.Pending), spill: make(chan struct{}, 1)}
	c.listing.Store(true)
	return c
}

func (c *pendingCount) changes() int64 { return c.added + c.returned - c.taken }

func (c *pendingCount) files() int64 { return max(0, c.listed+c.changes()) }

func (c *pendingCount) bytes() int64 {
	if c.files() == 0 {
		c.size = 0
	}
	return int64(c.size)
}

// mean is the mean size of a file.
func (c *pendingCount) mean() float64 { return c.size / float64(max(1, c.files())) }

// now is how many files there are, and about how many bytes.
func (c *pendingCount) now() (files, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files(), c.bytes()
}

// add counts a file before it is made visible, so that it is counted when inotify tells.
func (c *pendingCount) add(f *file) {
	c.mu.Lock()
	c.added++
	c.size += float64(f.size)
	if !f.expire.IsZero() && f.expire.Before(c.expiry) {
		c.expiry = f.expire
	}
	soft := c.x.opt.Soft
	if soft.Do == Spill && soft.exceeded(c.files(), c.bytes()) {
		poke(c.spill)
	}
	c.mu.Unlock()
}

// undo takes back what add counted.
func (c *pendingCount) undo(f *file) {
	c.mu.Lock()
	c.added--
	c.size -= float64(f.size)
	c.mu.Unlock()
}

// note counts what inotify told of.
func (c *pendingCount) note(came, taken int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mean := c.mean()
	c.came += came
	c.taken += taken
	c.size -= mean * float64(taken)
	// The projector counts before it renames, so that those not yet heard of are
	// never taken for files of others.
	if returned := c.came - c.added; returned > c.returned {
		c.size += mean * float64(returned-c.returned)
		c.returned = returned
		c.expiry = time.Time{}
	}
}

// run keeps the count until ctx ends. It spends a fiftieth of the time on
// listing at most.
func (c *pendingCount) run(ctx context.Context) {
	for {
		var took time.Duration
		if w, err := watchFolder(c.dir); err == nil {
			took = c.follow(ctx, w)
			w.close()
		} else {
			c.x.opt.Logger.Debug("inbox: pending is counted now and then, as it cannot be watched", "error", err)
			took, _ = c.list(nil)
		}
		select {
		case <-time.After(max(8*c.x.opt.Retry, 50*took)):
		case <-ctx.Done():
			return
		}
	}
}

// follow counts once and then listens. It ends when events were missed or the
// folder is gone, with ctx, and after a while when files moved during the count.
func (c *pendingCount) follow(ctx context.Context, w *watch) (took time.Duration) {
	defer context.AfterFunc(ctx, w.interrupt)()
	c.mu.Lock()
	c.listed, c.added, c.came, c.returned, c.taken = c.files(), 0, 0, 0, 0
	c.mu.Unlock()
	exact := false
	for try := 0; try < 10 && took < 10*time.Millisecond && !exact; try++ {
		took, exact = c.list(w)
	}
	if !exact { // later again
		defer time.AfterFunc(max(8*c.x.opt.Retry, 50*took), w.interrupt).Stop()
	}
	for w.wait() {
		// Not for each file by itself: the projector would pay for waking this up.
		time.Sleep(pause)
		came, taken, err := w.read()
		c.note(came, taken)
		if err != nil {
			break
		}
	}
	return took
}

const pause = 10 * time.Millisecond

// list counts the files of the folder. It is not exact when files moved meanwhile,
// as each of them may have been listed or not, nor when one of the projector's was
// counted and had not come yet.
func (c *pendingCount) list(w *watch) (took time.Duration, exact bool) {
	start := time.Now()
	_, before := c.drain(w)
	var n, sampled int64
	var size float64
	err := folders.Each(c.dir, func(name string) {
		if !strings.HasPrefix(name, folders.EventPrefix) {
			return
		}
		if n++; n < 100 || n%64 == 0 {
			if info, err := os.Lstat(filepath.Join(c.dir, name)); err == nil {
				sampled++
				size += float64(info.Size())
			}
		}
	})
	changes, after := c.drain(w)
	if err != nil {
		return time.Since(start), false
	}
	c.mu.Lock()
	c.listed = n - changes
	c.size = size / float64(max(1, sampled)) * float64(n)
	arrived := c.came == c.added+c.returned
	c.mu.Unlock()
	c.listing.Store(false)
	return time.Since(start), after == before && arrived
}

// drain notes what inotify told of by now, and returns what that changed so far
// and how many files moved.
func (c *pendingCount) drain(w *watch) (changes, moves int64) {
	if w != nil {
		came, taken, _ := w.read() // an error comes again with the next
		c.note(came, taken)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes(), c.added + c.returned + c.taken
}

// watch hears of the files that come to a folder and go from it.
type watch struct {
	fd, stop int // inotify, eventfd
	ending   sync.Mutex
	closed   bool
	missed   bool
	buf      [64 << 10]byte
}

var errMissed = errors.New("events of the folder were missed")

func watchFolder(dir string) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	const mask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &watch{fd: fd, stop: stop}, nil
}

func (w *watch) close() {
	w.ending.Lock()
	defer w.ending.Unlock()
	w.closed = true
	unix.Close(w.fd)
	unix.Close(w.stop)
}

// interrupt ends wait for good. It may come late.
func (w *watch) interrupt() {
	w.ending.Lock()
	defer w.ending.Unlock()
	if !w.closed {
		unix.Write(w.stop, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// wait returns true when something happened, and false when interrupted.
func (w *watch) wait() bool {
	for {
		fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}, {Fd: int32(w.stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == nil || err != unix.EINTR {
			return err == nil && fds[1].Revents == 0
		}
	}
}

// read returns what happened since the last call.
func (w *watch) read() (came, taken int64, err error) {
	for !w.missed {
		n, err := unix.Read(w.fd, w.buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return came, taken, nil
		case err != nil:
			return came, taken, err
		}
		in, out, missed := parseEvents(w.buf[:n])
		came, taken, w.missed = came+in, taken+out, missed
	}
	return came, taken, errMissed
}

// parseEvents counts the events of inotify in b; lost says that the count cannot
// go on from here.
func parseEvents(b []byte) (came, taken int64, lost bool) {
	for len(b) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if end > len(b) {
			return came, taken, true
		}
		name := b[unix.SizeofInotifyEvent:end]
		b = b[end:]
		switch {
		case mask&(unix.IN_Q_OVERFLOW|unix.IN_IGNORED|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0:
			lost = true
		case !bytes.HasPrefix(name, []byte(folders.EventPrefix)):
		case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
			came++
		default:
			taken++
		}
	}
	return came, taken, lost
}
