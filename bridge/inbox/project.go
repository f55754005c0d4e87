package inbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/bridge/journal"
)

// projector makes files of the journal's records. One goroutine runs it; a
// second one syncs a batch while the first writes the files of the next.
//
// The steps of a batch, each durable before the next begins:
//
//  1. write the files to tmp/ and sync them; this sync also makes durable what
//     the batch before did in pending/
//  2. save the checkpoint's intent, synced
//  3. rename to pending/ in the order of the journal, without overwriting: visible
//
// and when no further batch follows at once:
//
//  4. sync the folder pending/
//  5. save the checkpoint (not synced: the next intent carries it)
type projector struct {
	x       *Inbox
	visible atomic.Uint64 // every record up to here is visible or needs no file
	settled atomic.Uint64 // and up to here the name in pending/ is durable
	pos     uint64        // is visible, also in the middle of a batch
	moved   bool          // names in pending/ may not be durable
	reader  *journal.Reader
	cp      checkpointFile
	dirs    *dirs
	dirty   bool   // the last attempt failed somewhere
	limit   int    // files in the next batch: fewer after a failure, for a disk that has little room
	doubt   uint64 // records up to here may have been delivered by a lost checkpoint
}

// maxBatchBytes ends a batch early where events are large.
const maxBatchBytes = 8 << 20

// batch is what becomes visible together.
type batch struct {
	files []file
	names map[string]bool
	open  openFiles
	last  uint64 // records up to here are settled with the batch, also those without a file
	bytes int64
	late  int64 // records that expired before they were visible
	err   error // why it ends early
}

type file struct {
	name   string
	pos    uint64
	size   int64
	expire time.Time
}

// run projects until ctx ends.
func (p *projector) run(ctx context.Context) {
	for {
		err := p.project(ctx)
		if err == nil {
			return
		}
		p.x.setState(err)
		p.limit = max(1, p.limit/2)
		select {
		case <-time.After(p.x.opt.Retry):
		case <-ctx.Done():
			return
		}
	}
}

// project makes batch after batch visible until a step fails or, without an
// error, ctx ends.
func (p *projector) project(ctx context.Context) error {
	for {
		if p.dirty {
			if err := p.reset(); err != nil {
				return err
			}
		}
		if p.pos == p.x.journal.Durable() {
			p.x.setState(nil)
		}
		if err := p.x.journal.Wait(ctx, p.pos+1); err != nil {
			return nil
		}
		room, err := p.x.census.room()
		if err != nil {
			return err
		}
		p.dirty = true
		b := p.prepare(nil, nil, room)
		if b.last == p.pos && b.err == nil {
			b.err = fmt.Errorf("record %d of the journal cannot be read", p.pos+1) // until one after it can
		}
		for b != nil {
			next, err := p.deliver(ctx, b)
			if err != nil {
				return err
			}
			b = next
		}
		p.dirty = false
	}
}

// prepare writes the files of the next batch to tmp/, of what the journal has by
// now. While the batch before is synced it waits for more, until that ends.
func (p *projector) prepare(syncing context.Context, before *batch, room int) *batch {
	b := &batch{names: map[string]bool{}, last: p.pos}
	limit := min(p.limit, room)
	if before != nil {
		b.last = before.last
	}
	if b.open.keep = fewFiles; p.x.opt.NoSyncFS {
		b.open.keep = p.limit
	}
	for len(b.files) < limit && b.bytes < maxBatchBytes && b.err == nil {
		durable := p.x.journal.Durable()
		rec, err := p.reader.Next()
		switch {
		case err == nil:
			b.err = p.take(b, before, &rec)
		case !errors.Is(err, io.EOF):
			b.err = fmt.Errorf("reading the journal: %w", err)
		case syncing == nil || b.last < durable || p.x.journal.Wait(syncing, b.last+1) != nil:
			limit = 0
		}
	}
	for _, d := range p.reader.Damage {
		p.x.problem("journal: " + d.String())
	}
	p.reader.Damage = nil
	return b
}

// take makes rec part of b.
func (p *projector) take(b, before *batch, rec *journal.Record) error {
	wanted := rec.Kind == journal.Deliver
	if wanted && !rec.Expire.IsZero() && !rec.Expire.After(time.Now()) {
		b.late++
		wanted = false
	}
	// Two records in flight share a name only where the memory of ids was lost.
	if wanted && !b.names[rec.Name] && (before == nil || !before.names[rec.Name]) &&
		(rec.Pos > p.doubt || !p.dirs.holds(rec.Name)) {
		if err := p.x.opt.Fault("inbox write"); err != nil {
			return err
		}
		if err := p.dirs.write(&b.open, rec.Name, rec.Body, rec.Time); err != nil {
			return err
		}
		f := file{rec.Name, rec.Pos, int64(len(rec.Body)), rec.Expire}
		b.files, b.names[f.name], b.bytes = append(b.files, f), true, b.bytes+f.size
	}
	b.last = rec.Pos
	return nil
}

// deliver makes b visible. It returns the batch after it where one was prepared
// meanwhile, and settles b where not. Of a batch that ended early for an error
// all files before that are delivered.
func (p *projector) deliver(ctx context.Context, b *batch) (next *batch, err error) {
	if len(b.files) > 0 {
		if next, err = p.sync(ctx, b); err == nil {
			err = p.show(b)
		}
		if err != nil {
			if next != nil {
				next.open.close()
			}
			return nil, err
		}
	}
	p.pos = b.last
	p.x.expired.Add(b.late)
	p.visible.Store(b.last)
	p.x.announce()
	if next != nil && next.last > b.last {
		return next, nil
	}
	if err := p.settle(); err != nil {
		return nil, err
	}
	if next != nil && b.err == nil {
		b.err = next.err
	}
	if b.err == nil {
		p.limit = min(p.x.opt.Batch, 2*p.limit)
	}
	return nil, b.err
}

// sync makes the files of b durable and prepares the next batch meanwhile.
func (p *projector) sync(ctx context.Context, b *batch) (next *batch, err error) {
	if err := p.x.opt.Fault("inbox sync"); err != nil {
		b.open.close()
		return nil, err
	}
	syncing, end := context.WithCancel(ctx)
	result := make(chan error)
	go func(moved bool) {
		err := p.dirs.sync(&b.open, moved)
		end()
		result <- err
	}(p.moved)
	if room, _ := p.x.census.room(); room > len(b.files) && b.err == nil && ctx.Err() == nil {
		next = p.prepare(syncing, b, room-len(b.files))
	}
	if err := <-result; err != nil {
		return next, err
	}
	p.moved = false
	p.advance(p.pos)
	return next, nil
}

// show makes the files of b visible.
func (p *projector) show(b *batch) error {
	if err := p.x.opt.Fault("inbox intent"); err != nil {
		return err
	}
	if err := p.cp.save(p.pos, b.last, true); err != nil {
		return err
	}
	p.moved = true
	for i := range b.files {
		f := &b.files[i]
		if err := p.x.opt.Fault("inbox rename"); err != nil {
			return err
		}
		p.x.census.add(f)
		placed, err := p.dirs.publish(f.name)
		if !placed {
			p.x.census.undo(f)
		}
		if err != nil {
			return err
		}
		if !placed { // an id beyond the memory of ids, or somebody else's file
			p.x.opt.Logger.Warn("inbox: a file of that name is pending already and stays", "name", f.name)
		}
		p.pos = f.pos
		p.x.delivered.Add(1)
	}
	return nil
}

// settle makes durable what is visible and says so in the checkpoint.
func (p *projector) settle() error {
	if p.moved {
		if err := p.x.opt.Fault("inbox folder sync"); err != nil {
			return err
		}
		if err := p.dirs.syncPending(); err != nil {
			return err
		}
		p.moved = false
	}
	if err := p.x.opt.Fault("inbox checkpoint"); err != nil {
		return err
	}
	if err := p.cp.save(p.pos, 0, false); err != nil {
		return err
	}
	p.advance(p.pos)
	p.x.announce()
	return p.x.opt.Fault("inbox done")
}

// advance notes that all records up to pos are settled.
func (p *projector) advance(pos uint64) {
	p.settled.Store(pos)
	p.x.journal.Delivered(pos)
}

func (p *projector) close() error {
	err := p.reader.Close()
	p.cp.close()
	p.dirs.close()
	return err
}
