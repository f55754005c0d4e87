package journal

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
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
			j.durable, j.spare = b.last, b.buf
			j.debts.note(b.last, b.owes)
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
			j.pending, j.syncing, j.spare = newBatch(j.spare), b, nil
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
		case <-time.After(lookEvery):
			j.look()
		}
	}
}

// lookEvery is how often the disk is looked at while nobody writes.
const lookEvery = 2 * time.Second

// look notices what happened to the disk and the folder, without a record.
func (j *Journal) look() {
	err := j.inPlace()
	if err == nil {
		err = j.hasRoom()
	}
	if errSpace(err) && j.dropSpare() {
		err = j.hasRoom()
	}
	j.setState(err)
	if err != nil {
		poke(j.rotated)
	}
}

func (j *Journal) hasRoom() error {
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return err
	}
	return d.holds(times(j.State().Err != nil), debt{}, 0)
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
		size, err := j.admit(b)
		if errors.Is(err, os.ErrNotExist) { // the folder is gone
			if err = j.renew(errRemoved{j.opt.Dir}); err == nil {
				size, err = j.admit(b)
			}
		}
		if err == nil {
			err = j.write(b, size)
		}
		if err == nil {
			j.committed.Store(time.Now().UnixNano())
			j.setState(nil)
			return nil
		}
		if errSpace(err) && j.dropSpare() {
			continue
		}
		if attempt == 0 && j.seg == nil && j.State().Err == nil && !errSpace(err) {
			j.opt.Logger.Error("journal: writing failed, trying a new segment", "error", err)
			continue // a new file may do
		}
		if !errors.As(err, new(errOwed)) { // else the files that are being made give room
			j.setState(err)
		}
		if errSpace(err) && time.Since(tidied) > j.opt.Retry {
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
	if j.seg != nil && !j.seg.fits(len(b.buf)) {
		err := j.seg.seal()
		j.seg = nil
		if err != nil {
			j.opt.Logger.Warn("journal: closing a full segment", "error", err) // its records are synced
		}
	}
	if j.seg == nil {
		if err := j.heal(); err != nil {
			return err
		}
		seg, err := j.nextSegment(b.first, size)
		if err != nil {
			return err
		}
		j.use(seg)
		poke(j.rotated) // the one before is full now
	}
	j.syncs.Add(1)
	err := j.seg.append(b.buf)
	if err == nil {
		err = j.seg.inPlace()
	}
	if err != nil {
		j.lost(err)
	}
	return err
}

// lost gives up the last segment, for which a new one comes.
func (j *Journal) lost(cause error) {
	if errors.As(cause, new(errRemoved)) {
		j.opt.Report(fmt.Sprintf("journal: %v; it goes on with a new one", cause))
	}
	j.seg.abandon()
	j.seg = nil
}

// use makes seg the one that takes records.
func (j *Journal) use(seg *segment) {
	j.seg = seg
	j.owned.Go(func() {
		err := seg.fillAhead(j.closing)
		if err == nil {
			err = j.makeSpare(seg)
		}
		if err != nil {
			j.opt.Logger.Debug("journal: filling a segment ahead", "error", err) // commits will meet it
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
