package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/bridge/inbox/internal/checkpoint"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// projector makes files of the journal's records. One goroutine runs it and
// writes the files of a batch, while a second one syncs the batch before, and a
// third one makes the one before that visible.
//
// The steps of a batch, each done before the next begins:
//
//  1. write the files to tmp/
//  2. sync them; this also makes durable what was visible when it began
//  3. save the checkpoint's intent, synced
//  4. rename to pending/ in the order of the journal, without overwriting: visible
//
// and when no further batch follows at once:
//
//  5. sync the folder pending/
//  6. save the checkpoint (not synced: the next intent carries it)
type projector struct {
	x       *Inbox
	visible atomic.Uint64 // every record up to here is visible or needs no file
	settled atomic.Uint64 // and up to here the name in pending/ is durable
	pos     uint64        // is visible, also in the middle of a batch
	renamed uint64        // the last of them with a file
	reader  *segment.Reader
	cp      checkpoint.File
	dirs    *folders.Dirs
	dirty   bool              // the last attempt failed somewhere
	limit   int               // files in the next batch: fewer after a failure, for a disk that has little room
	recent  []map[string]bool // the names of the last batches
	pacer   pacer
	doubt   uint64 // records up to here may have been delivered by a lost checkpoint
}

// maxBatchBytes ends a batch early where events are large.
const maxBatchBytes = 8 << 20

// batch is what becomes visible together.
type batch struct {
	files []file
	open  folders.Files
	last  uint64 // records up to here are settled with the batch, also those without a file
	bytes int64
	late  int64 // records that expired before they were visible
	err   error // why it ends early

	sync    *task           // makes the files durable, and the intent to show them
	syncing context.Context // ends with it, or with the projector's
	moved   uint64          // what was visible when it began
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
		p.pacer.begin(ctx)
		room, err := p.x.pending.room()
		if err != nil {
			return err
		}
		p.dirty = true
		b := p.prepare(nil, p.pos, room)
		if b.last == p.pos && b.err == nil {
			b.err = fmt.Errorf("record %d of the journal cannot be read", p.pos+1) // until one after it can
		}
		if err := p.pipe(ctx, b); err != nil {
			return err
		}
		p.dirty = false
	}
}

// prepare writes the files of the records after last to tmp/, as many as the
// journal has by now. With a wait for the record at a position, it goes on for as
// long as that says there is one.
func (p *projector) prepare(wait func(pos uint64) bool, last uint64, room int) *batch {
	b := &batch{last: last}
	names := map[string]bool{}
	p.recent = append(p.recent[max(0, len(p.recent)-3):], names)
	limit := min(p.limit, room)
	if b.open.Keep = folders.Few; p.x.opt.NoSyncFS {
		b.open.Keep = p.limit
	}
	durable := p.x.journal.Durable()
	for len(b.files) < limit && b.bytes < maxBatchBytes && b.err == nil {
		if b.last >= durable {
			durable = p.x.journal.Durable()
		}
		if len(b.files)%16 == 15 && p.pacer.burst() {
			break
		}
		rec, err := p.reader.Next()
		p.gap(b, &rec, err)
		switch {
		case err == nil:
			b.err = p.take(b, names, &rec)
		case !errors.Is(err, io.EOF):
			b.err = fmt.Errorf("reading the journal: %w", err)
		case wait == nil || b.last < durable || !wait(b.last+1):
			limit = 0
		}
	}
	for _, d := range p.reader.Damage {
		p.x.problem("journal: " + d.String())
	}
	p.reader.Damage = nil
	return b
}

// gap goes over records that are gone with their segment, and says so.
func (p *projector) gap(b *batch, rec *segment.Record, err error) {
	next := p.reader.Pos() + 1
	if err == nil {
		next = rec.Pos
	}
	if next > b.last+1 && len(p.reader.Damage) == 0 {
		p.x.problem(fmt.Sprintf("journal: records %d to %d were removed before they were delivered", b.last+1, next-1))
	}
	b.last = max(b.last, next-1)
}

// take makes rec part of b.
func (p *projector) take(b *batch, names map[string]bool, rec *segment.Record) error {
	wanted := rec.Kind == segment.Deliver
	if wanted && !rec.Expire.IsZero() && !rec.Expire.After(time.Now()) {
		b.late++
		wanted = false
	}
	if wanted && !p.inFlight(rec.Name) && (rec.Pos > p.doubt || !p.dirs.Contains(rec.Name)) {
		if err := p.x.opt.Fault("inbox write"); err != nil {
			return err
		}
		if err := p.dirs.Write(&b.open, rec.Name, rec.Event(), rec.Time); err != nil {
			return err
		}
		f := file{rec.Name, rec.Pos, int64(len(rec.Event())), rec.Expire}
		names[f.name] = true
		b.files, b.bytes = append(b.files, f), b.bytes+f.size
	}
	b.last = rec.Pos
	return nil
}

// inFlight reports whether the intent on disk may be about a file of that name.
// Two records share one only where the memory of ids was lost.
func (p *projector) inFlight(name string) bool {
	return slices.ContainsFunc(p.recent, func(names map[string]bool) bool { return names[name] })
}

// pipe makes b and all batches that follow at once visible, and settles them.
// Of a batch that ended early for an error, the files before that are delivered.
func (p *projector) pipe(ctx context.Context, b *batch) error {
	p.startSync(ctx, b)
	room, _ := p.x.pending.room(b)
	var showing *task // the batch before b
	for {
		next := p.prepareWhile(ctx, b, room)
		if err := cmp.Or(b.sync.wait(), showing.wait()); err != nil {
			next.open.Close()
			return err
		}
		p.advance(b.moved)
		if showing != nil {
			p.x.setState(nil) // the one before that is settled
			p.limit = min(p.x.opt.Batch, 2*p.limit)
		}
		if next.last == b.last {
			if err := p.show(b); err != nil {
				return err
			}
			if b.err == nil {
				p.limit = min(p.x.opt.Batch, 2*p.limit)
			}
			if err := cmp.Or(b.err, next.err); err != nil || p.pos < p.x.journal.Durable() {
				return err
			}
			return p.settle()
		}
		p.pacer.between(ctx)
		room, _ = p.x.pending.room(b, next)
		p.startSync(ctx, next)
		ready := b
		showing = start(func() error { return p.show(ready) })
		b = next
	}
}

// task is a step that runs beside the others. The nil task is done.
type task struct {
	done chan struct{}
	err  error
}

// start runs step; whoever called it waits for the task.
func start(step func() error) *task {
	t := &task{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.err = step()
	}()
	return t
}

func (t *task) wait() error {
	if t == nil {
		return nil
	}
	<-t.done
	return t.err
}

// startSync makes the files of b durable, and then the intent to show them.
func (p *projector) startSync(ctx context.Context, b *batch) {
	ctx, end := context.WithCancel(ctx)
	b.syncing, b.moved = ctx, p.pos // what is shown from now on may not be in it
	if len(b.files) == 0 {
		b.moved = p.settled.Load()
		end()
		return
	}
	names := p.renamed > p.settled.Load()
	b.sync = start(func() error {
		defer end()
		if err := p.x.opt.Fault("inbox sync"); err != nil {
			b.open.Close()
			return err
		}
		if err := p.dirs.Sync(&b.open, names); err != nil {
			return err
		}
		if err := p.x.opt.Fault("inbox intent"); err != nil {
			return err
		}
		return p.cp.Save(b.moved, b.last, true)
	})
}

// prepareWhile prepares the batch after b until b is synced, once enough records
// follow; fewer are left for a later one.
func (p *projector) prepareWhile(ctx context.Context, b *batch, room int) *batch {
	if room <= 0 || b.err != nil || len(b.files) == 0 || ctx.Err() != nil {
		return &batch{last: b.last}
	}
	more := func(pos uint64) bool { return p.x.journal.Wait(b.syncing, pos) == nil }
	enough := b.last + uint64(p.x.opt.Batch/4)
	for durable := p.x.journal.Durable(); durable < enough; durable = p.x.journal.Durable() {
		if !more(durable + 1) {
			return &batch{last: b.last}
		}
	}
	return p.prepare(more, b.last, room)
}

// show makes the files of b visible.
func (p *projector) show(b *batch) error {
	if len(b.files) > 0 {
		if err := p.dirs.InPlace(); err != nil {
			return err
		}
	}
	for i := range b.files {
		f := &b.files[i]
		if err := p.x.opt.Fault("inbox rename"); err != nil {
			return err
		}
		p.x.pending.add(f)
		placed, err := p.dirs.Publish(f.name)
		if !placed {
			p.x.pending.undo(f)
		}
		if err != nil {
			return err
		}
		if !placed { // an id beyond the memory of ids, or somebody else's file
			p.x.opt.Logger.Warn("inbox: a file of that name is pending already and stays", "name", f.name)
		}
		p.pos, p.renamed = f.pos, f.pos
		p.x.delivered.Add(1)
	}
	p.pos = b.last
	p.x.late.Add(b.late)
	p.visible.Store(b.last)
	p.x.progress.Announce()
	return nil
}

// settle makes durable what is visible and says so in the checkpoint.
func (p *projector) settle() error {
	if p.renamed > p.settled.Load() {
		if err := p.x.opt.Fault("inbox folder sync"); err != nil {
			return err
		}
		if err := p.dirs.SyncPending(); err != nil {
			return err
		}
	}
	if err := p.x.opt.Fault("inbox checkpoint"); err != nil {
		return err
	}
	if err := p.cp.Save(p.pos, 0, false); err != nil {
		return err
	}
	p.advance(p.pos)
	p.x.progress.Announce()
	return p.x.opt.Fault("inbox done")
}

// advance notes that all records up to pos are settled.
func (p *projector) advance(pos uint64) {
	p.settled.Store(pos)
	p.x.journal.Delivered(pos)
}

func (p *projector) close() error {
	err := p.reader.Close()
	p.cp.Close()
	p.dirs.Close()
	return err
}
