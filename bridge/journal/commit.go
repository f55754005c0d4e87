package journal

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/tail"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
)

// commitAll is the committer: it takes what is queued, makes it durable, and
// tells those who wait. It ends when the journal is closed.
func (j *Journal) commitAll() {
	for {
		b := j.take()
		if b == nil {
			return
		}
		err := j.commit(b)
		j.mu.Lock()
		b.err, j.syncing = err, nil
		if err == nil {
			j.durable, j.free = b.last, b.buf
			j.mem.Files.Promise(b.last, b.files)
		} else {
			j.pending.err = err // closed while degraded: nobody will write these either
			close(j.pending.done)
		}
		close(b.done)
		j.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take waits for records and makes room for the next; nil when closed and empty.
func (j *Journal) take() *batch {
	for {
		j.gather()
		j.mu.Lock()
		if b := j.pending; len(b.buf) > 0 {
			j.pending, j.syncing, j.free = newBatch(j.free), b, nil
			close(j.room)
			j.room = make(chan struct{})
			j.mu.Unlock()
			return b
		}
		closing := j.isClosing()
		j.mu.Unlock()
		if closing {
			return nil
		}
		select {
		case <-j.kick:
		case <-j.closing:
		case <-time.After(j.opt.lookEvery):
			j.look()
		}
	}
}

// look notices what happened to the disk and the folder, without a record.
func (j *Journal) look() {
	err := j.inPlace()
	if err == nil {
		err = j.checkRoom()
	}
	if space.IsFull(err) && j.spare.Drop() {
		err = j.checkRoom()
	}
	j.setState(err)
	if err != nil {
		poke(j.rotated)
	}
}

// gather lets all goroutines that are ready to run queue their records before
// the next sync begins. Otherwise the first one told of the last sync starts the
// next alone, and publishers fall into two groups that wait for each other. It
// takes no time where nobody is ready.
func (j *Journal) gather() {
	const turns = 8
	for queued, i := -1, 0; i < turns; i++ {
		j.mu.Lock()
		now := len(j.pending.buf)
		j.mu.Unlock()
		if now == queued || now == 0 || now >= j.opt.QueueBytes {
			return
		}
		queued = now
		runtime.Gosched()
	}
}

// commit makes b durable, however long that takes. It fails only when the
// journal is closed while it cannot write.
func (j *Journal) commit(b *batch) error {
	var tidied time.Time
	for attempt := 0; ; attempt++ {
		size, err := j.roomFor(b)
		if errors.Is(err, os.ErrNotExist) { // the folder is gone
			if err = j.renew(lockfile.Removed{Path: j.opt.Dir}); err == nil {
				size, err = j.roomFor(b)
			}
		}
		if err == nil {
			err = j.write(b, size)
		}
		if err == nil {
			j.spare.NoteAppend()
			j.setState(nil)
			return nil
		}
		if space.IsFull(err) && j.spare.Drop() {
			continue
		}
		if attempt == 0 && j.seg == nil && j.State().Err == nil && !space.IsFull(err) {
			j.opt.Logger.Error("journal: writing failed, trying a new segment", "error", err)
			continue // a new file may do
		}
		if !errors.As(err, new(space.Later)) { // that is no fault, and files are being made
			j.setState(err)
		}
		if space.IsFull(err) && time.Since(tidied) > j.opt.Retry {
			poke(j.rotated) // old segments may be in the way
			tidied = time.Now()
		}
		select {
		case <-j.closing:
			return fmt.Errorf("%w: %w", ErrClosed, err)
		case <-j.gotRoom:
		case <-time.After(j.opt.Retry):
		}
	}
}

func (j *Journal) write(b *batch, size int64) error {
	if j.seg != nil && !j.seg.Fits(len(b.buf)) {
		err := j.seg.Seal()
		j.seg = nil
		if err != nil {
			j.opt.Logger.Warn("journal: closing a full segment", "error", err) // its records are synced
		}
	}
	if j.seg == nil {
		if err := j.heal(); err != nil {
			return err
		}
		seg, err := j.spare.Segment(b.first, size)
		if err != nil {
			return err
		}
		j.use(seg)
		poke(j.rotated) // the one before is full now
	}
	j.syncs.Add(1)
	err := j.seg.Append(b.buf)
	if err == nil {
		err = j.seg.InPlace()
	}
	if err != nil {
		j.giveUpSegment(err)
	}
	return err
}

// giveUpSegment leaves the last segment, which failed or was removed. The next
// batch makes a new one.
func (j *Journal) giveUpSegment(cause error) {
	if errors.As(cause, new(lockfile.Removed)) {
		j.opt.Report(fmt.Sprintf("journal: %v; it goes on with a new one", cause))
	}
	j.seg.Abandon()
	j.seg = nil
}

// use makes seg the segment that takes records.
func (j *Journal) use(seg *tail.Segment) {
	j.seg = seg
	j.owned.Go(func() {
		err := seg.FillAhead(j.closing)
		if err == nil {
			err = j.spare.Make(seg)
		}
		if err != nil {
			j.opt.Logger.Debug("journal: filling a segment ahead", "error", err) // a commit meets the same error
		}
	})
}

func (j *Journal) setState(err error) {
	j.mu.Lock()
	was := j.state.Err
	if (was == nil) != (err == nil) {
		j.state.Since = time.Now()
	}
	j.state.Err = err
	j.mu.Unlock()
	switch {
	case was == nil && err != nil:
		poke(j.rotated) // old segments may be in the way
		j.opt.Logger.Error("journal degraded", "cause", err)
	case was != nil && err == nil:
		j.opt.Logger.Info("journal writes again")
	}
}
