package inbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
)

// projector makes files of the journal's records. One goroutine runs it.
//
// The steps of a batch, each durable before the next begins:
//
//  1. write the files to tmp/ and sync them
//  2. save the checkpoint's intent, synced
//  3. rename to pending/ in the order of the journal, without overwriting
//  4. sync the folder pending/
//  5. save the checkpoint (not synced: the next intent carries it)
type projector struct {
	x       *Inbox
	settled atomic.Uint64 // every record up to here is visible, durably, or needs no file
	pos     uint64        // and up to here visible, but its folder may not be synced
	reader  *journal.Reader
	cp      checkpointFile
	dirs    *dirs
	dirty   bool   // the last attempt failed somewhere
	limit   int    // files in the next batch: fewer after a failure, for a disk that has little room
	doubt   uint64 // records up to here may have been delivered by a lost checkpoint
	batch   []journal.Record
	names   map[string]bool // of the batch
	late    int64           // records read with the batch that expired before they were visible
}

// maxBatchBytes ends a batch early where events are large, which bounds memory.
const maxBatchBytes = 8 << 20

// recoverProjection completes what the last process left. tmpGone says that
// tmp/ was not there, so that it cannot tell what was visible.
func recoverProjection(x *Inbox, tmpGone bool) (_ *projector, err error) {
	p := &projector{x: x, limit: x.opt.Batch, names: map[string]bool{}}
	dir := x.opt.Journal.Dir
	cp, turn, err := readCheckpoint(dir)
	if err != nil {
		return nil, err
	}
	p.cp.turn = turn
	if p.dirs, err = openDirs(x.opt.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.dirs.close()
			p.cp.close()
		}
	}()
	p.settled.Store(cp.Projected)
	end, _ := x.journal.End()
	switch {
	case turn == 0 && end > 0:
		x.problem("the checkpoint of the journal is missing: events that are in no folder are delivered, perhaps again")
		p.doubt = end
	case cp.Projected > end:
		x.problem(fmt.Sprintf("the journal ends at %d, but files were made up to %d: parts of it are gone", end, cp.Projected))
		p.settled.Store(end)
	case cp.Intent > cp.Projected && tmpGone:
		x.problem("the folder tmp was removed: events that are in no folder are delivered, perhaps again")
		p.doubt = cp.Intent
	case cp.Intent > cp.Projected:
		if err := p.finish(min(cp.Intent, end)); err != nil {
			return nil, err
		}
		x.opt.Logger.Info("inbox: completed what the last process left", "to", p.settled.Load(), "restarted", cp.Boot != bootID())
	}
	if err := p.dirs.clear(""); err != nil {
		return nil, err
	}
	p.pos = p.settled.Load()
	if err := p.cp.replace(dir, p.pos); err != nil {
		return nil, err
	}
	x.journal.Delivered(p.pos)
	p.reader = x.journal.Reader(p.pos + 1)
	return p, nil
}

// finish renames the files of an intent that are still in tmp/. Those that are
// not there have been visible.
func (p *projector) finish(intent uint64) error {
	r := p.x.journal.Reader(p.settled.Load() + 1)
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) || err == nil && rec.Pos > intent {
			break
		}
		if err != nil {
			return err
		}
		if rec.Kind != journal.Deliver {
			continue
		}
		if _, err := p.dirs.publish(rec.Name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := p.dirs.syncPending(); err != nil {
		return err
	}
	p.settled.Store(intent)
	return nil
}

// run projects until ctx ends.
func (p *projector) run(ctx context.Context) {
	for {
		if !p.dirty {
			if err := p.x.journal.Wait(ctx, p.pos+1); err != nil {
				return
			}
		}
		err := p.full()
		if err == nil {
			err = p.step()
		}
		p.x.setState(err)
		if err == nil {
			continue
		}
		p.limit = max(1, p.limit/2)
		select {
		case <-time.After(p.x.opt.Retry):
		case <-ctx.Done():
			return
		}
	}
}

// full is an error while pending/ holds too many files; it takes no more until
// a tenth of them is gone.
func (p *projector) full() error {
	limit := int64(p.x.opt.MaxPending)
	if p.x.State().Err != nil {
		limit -= limit / 10
	}
	if n := p.x.pending.Load(); n >= limit {
		return fmt.Errorf("pending holds %d files, the limit is %d: nobody takes them", n, p.x.opt.MaxPending)
	}
	return nil
}

// step makes the next batch visible.
func (p *projector) step() error {
	if p.dirty {
		if err := p.settle(); err != nil {
			return err
		}
		p.dirty = false
		p.advance(p.pos)
	}
	if p.pos == p.x.journal.Durable() {
		return nil
	}
	p.dirty = true
	p.batch = p.batch[:0]
	clear(p.names)
	p.late = 0
	last, size := p.pos, 0
	for len(p.batch) < p.limit && size < maxBatchBytes {
		rec, err := p.reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the journal: %w", err)
		}
		last = rec.Pos
		if p.wanted(&rec) {
			p.batch = append(p.batch, rec)
			size += len(rec.Body)
		}
	}
	for _, d := range p.reader.Damage {
		p.x.problem("journal: " + d.String())
	}
	p.reader.Damage = nil
	if last == p.pos {
		return fmt.Errorf("record %d of the journal cannot be read", last+1) // until one after it can
	}
	if err := p.deliver(last); err != nil {
		return err
	}
	p.dirty, p.limit = false, min(p.x.opt.Batch, 2*p.limit)
	p.x.expired.Add(p.late)
	return nil
}

// wanted reports whether a record needs a file. Two records of one batch share a
// name only where the memory of ids was lost.
func (p *projector) wanted(rec *journal.Record) bool {
	if rec.Kind != journal.Deliver {
		return false
	}
	if !rec.Expire.IsZero() && !rec.Expire.After(time.Now()) {
		p.late++
		return false
	}
	if p.names[rec.Name] || rec.Pos <= p.doubt && p.dirs.holds(rec.Name) {
		return false
	}
	p.names[rec.Name] = true
	return true
}

// deliver makes the batch visible; last is the position it settles.
func (p *projector) deliver(last uint64) error {
	if len(p.batch) > 0 {
		if err := p.writeFiles(); err != nil {
			return err
		}
		if err := p.x.opt.Fault("inbox intent"); err != nil {
			return err
		}
		if err := p.cp.save(p.pos, last, true); err != nil {
			return err
		}
		for i := range p.batch {
			if err := p.x.opt.Fault("inbox rename"); err != nil {
				return err
			}
			placed, err := p.dirs.publish(p.batch[i].Name)
			if err != nil {
				return err
			}
			if !placed { // an id beyond the memory of ids, or somebody else's file
				p.x.opt.Logger.Warn("inbox: a file of that name is pending already and stays", "name", p.batch[i].Name)
			}
			p.pos = p.batch[i].Pos
			p.x.delivered.Add(1)
			p.x.pending.Add(1)
		}
		if err := p.x.opt.Fault("inbox folder sync"); err != nil {
			return err
		}
		if err := p.dirs.syncPending(); err != nil {
			return err
		}
	}
	if err := p.x.opt.Fault("inbox checkpoint"); err != nil {
		return err
	}
	if err := p.cp.save(last, 0, false); err != nil {
		return err
	}
	p.pos = last
	p.advance(last)
	return p.x.opt.Fault("inbox done")
}

// advance tells everyone that all records up to pos are settled.
func (p *projector) advance(pos uint64) {
	p.settled.Store(pos)
	p.x.journal.Delivered(pos)
	p.x.mu.Lock()
	close(p.x.progress)
	p.x.progress = make(chan struct{})
	p.x.mu.Unlock()
}

// writeFiles makes the batch's files in tmp/, durable.
func (p *projector) writeFiles() error {
	each := p.x.opt.NoSyncFS || len(p.batch) <= fewFiles
	for i := range p.batch {
		if err := p.x.opt.Fault("inbox write"); err != nil {
			return err
		}
		rec := &p.batch[i]
		if err := p.dirs.write(rec.Name, rec.Body, rec.Time, each); err != nil {
			return err
		}
	}
	if err := p.x.opt.Fault("inbox sync"); err != nil {
		return err
	}
	return p.dirs.syncTmp(each)
}

// settle gets back to a known state after a failed attempt: the folders are
// there, what is visible is durable, the checkpoint says so without an intent,
// and tmp/ is empty. The files that are not visible are then made anew, since
// one whose sync failed must not be trusted.
func (p *projector) settle() error {
	problems, err := queue.Prepare(p.x.opt.Dir)
	if err != nil {
		return err
	}
	for _, text := range problems {
		p.x.problem(text)
	}
	fresh, err := openDirs(p.x.opt.Dir)
	if err != nil {
		return err
	}
	p.dirs.close()
	p.dirs = fresh
	if err := p.dirs.syncPending(); err != nil {
		return err
	}
	if err := p.cp.renew(p.x.opt.Journal.Dir, p.pos); err != nil {
		return err
	}
	if err := p.dirs.clear(eventPrefix); err != nil {
		return err
	}
	p.reader.Close()
	p.reader = p.x.journal.Reader(p.pos + 1)
	return nil
}

func (p *projector) close() error {
	err := p.reader.Close()
	p.cp.close()
	p.dirs.close()
	return err
}

// countPending recounts pending/ in the background, so that the limit holds
// whoever takes files away. It spends a fiftieth of the time on it at most.
func (x *Inbox) countPending(ctx context.Context) {
	for {
		start := time.Now()
		before := x.delivered.Load()
		if n, err := countNames(filepath.Join(x.opt.Dir, queue.Pending)); err == nil {
			x.pending.Store(n + x.delivered.Load() - before)
		}
		select {
		case <-time.After(max(8*x.opt.Retry, 50*time.Since(start))):
		case <-ctx.Done():
			return
		}
	}
}

func countNames(dir string) (n int64, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(4096)
		n += int64(len(names))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// namesIn lists the names in dir that begin with prefix.
func namesIn(dir, prefix string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(n string) bool { return len(n) < len(prefix) || n[:len(prefix)] != prefix }), nil
}
