// Package pending knows how many files are in an inbox's folder pending/, and
// about how large they are, without listing the folder each time. It says how many
// more may be made visible under the limits, and moves expired events to done/ where
// a limit asks for that.
//
// It makes no files visible: package projector does.
package pending

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

// Options say what is counted and what is allowed.
type Options struct {
	Dir        string // of the inbox
	Soft, Hard Limit
	Retry      time.Duration // an eighth of the shortest time between two listings of the folder
	Logger     *slog.Logger
}

// Counter counts the files that the projector adds, and inotify tells it of the
// files that others take and bring back. The folder is listed at the start, when
// notices of inotify were lost, and from time to time while a limit blocks: a network's
// or a container's mount gives no notice of what the other side takes. Where inotify is
// not to be had, the folder is listed from time to time always. It is safe for concurrent use.
type Counter struct {
	opt Options
	dir string

	mu       sync.Mutex
	listed   int64 // by the last listing, less the changes by then
	added    int64 // by the projector
	came     int64 // files seen to come, by whomever
	returned int64 // of them, by others
	taken    int64
	size     float64   // of all files, in bytes
	blocked  bool      // see Room
	over     bool      // the soft limit, and it was said
	recount  func()    // has the folder listed again; nil where that is about to happen
	due      time.Time // from when on the folder may be listed again
	expiry   time.Time // no file in pending/ expires before; zero: unknown

	spill   chan struct{}
	spilled atomic.Int64
	counted atomic.Bool // the folder was listed once
}

// New is a counter that knows nothing yet: [Counter.Run] lists the folder.
func New(opt Options) *Counter {
	return &Counter{opt: opt, dir: filepath.Join(opt.Dir, queue.Pending), spill: make(chan struct{}, 1)}
}

// Listed reports whether the folder was listed, so that what was there at the
// start is counted too.
func (c *Counter) Listed() bool { return c.counted.Load() }

// Spilled is how many expired events were moved to done/.
func (c *Counter) Spilled() int64 { return c.spilled.Load() }

func (c *Counter) changes() int64 { return c.added + c.returned - c.taken }

func (c *Counter) files() int64 { return max(0, c.listed+c.changes()) }

func (c *Counter) bytes() int64 {
	if c.files() == 0 {
		c.size = 0
	}
	return int64(c.size)
}

// mean is the mean size of a file.
func (c *Counter) mean() float64 { return c.size / float64(max(1, c.files())) }

// Now is how many files there are, and about how many bytes they have.
func (c *Counter) Now() (files, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files(), c.bytes()
}

// Add counts a file of a size in bytes before it is made visible, so that it is
// counted when inotify tells of it. The zero time is that of one that never expires.
func (c *Counter) Add(size int64, expire time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added++
	c.size += float64(size)
	if !expire.IsZero() && expire.Before(c.expiry) {
		c.expiry = expire
	}
	soft := c.opt.Soft
	if soft.Do == Spill && soft.exceeded(c.files(), c.bytes()) {
		poke(c.spill)
	}
}

// Undo takes back what Add counted for a file that was not made visible.
func (c *Counter) Undo(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added--
	c.size -= float64(size)
}

// note counts what inotify told of.
func (c *Counter) note(came, taken int64) {
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

// Run keeps the count until ctx ends. It spends a fiftieth of the time on
// listing at most.
func (c *Counter) Run(ctx context.Context) {
	for {
		var took time.Duration
		if w, err := watchFolder(c.dir); err == nil {
			took = c.follow(ctx, w)
			w.close()
		} else {
			c.opt.Logger.Debug("inbox: pending is counted now and then, as it cannot be watched", "error", err)
			took, _ = c.list(nil)
		}
		select {
		case <-time.After(max(8*c.opt.Retry, 50*took)):
		case <-ctx.Done():
			return
		}
	}
}

// follow counts once and then listens. It ends when events were missed or the
// folder is gone, with ctx, and after a while when files moved during the count or a
// limit blocks.
func (c *Counter) follow(ctx context.Context, w *watch) (took time.Duration) {
	defer context.AfterFunc(ctx, w.interrupt)()
	c.mu.Lock()
	c.listed, c.added, c.came, c.returned, c.taken = c.files(), 0, 0, 0, 0
	c.mu.Unlock()
	exact := false
	for try := 0; try < 10 && took < 10*time.Millisecond && !exact; try++ {
		took, exact = c.list(w)
	}
	if !exact { // later again
		defer time.AfterFunc(max(8*c.opt.Retry, 50*took), w.interrupt).Stop()
	}
	c.mu.Lock()
	c.recount, c.due = w.interrupt, time.Now().Add(max(64*c.opt.Retry, 50*took))
	c.mu.Unlock()
	for w.wait() {
		// Not for each file by itself: the projector would pay for waking this up.
		time.Sleep(pause)
		came, taken, err := w.read()
		c.note(came, taken)
		if err != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recount = nil
	return took
}

const pause = 10 * time.Millisecond

// list counts the files of the folder. It is not exact when files moved meanwhile,
// as each of them may have been listed or not, nor when one of the projector's was
// counted and had not come yet.
func (c *Counter) list(w *watch) (took time.Duration, exact bool) {
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
	c.counted.Store(true)
	return time.Since(start), after == before && arrived
}

// drain notes what inotify told of by now, and returns what that changed so far
// and how many files moved.
func (c *Counter) drain(w *watch) (changes, moves int64) {
	if w != nil {
		came, taken, _ := w.read() // an error comes again with the next
		c.note(came, taken)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes(), c.added + c.returned + c.taken
}
