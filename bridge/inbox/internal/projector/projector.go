// Package projector makes an inbox's files of its journal: it writes the files of
// a batch of records, makes them durable, and then visible in pending/. At the start
// it completes what a crash left.
//
// It does not write the journal and has no say in what is published; package inbox
// does that.
package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/bridge/inbox/internal/checkpoint"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/pending"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// Options say what files are made of, where, and how fast. All are set but
// NoSyncFS.
type Options struct {
	Inbox      string // the inbox's folder
	Journal    *journal.Journal
	JournalDir string // holds the checkpoint too
	Pending    *pending.Counter

	Batch    int           // files made visible together
	MaxLag   int           // records that may wait for their files
	Pace     time.Duration // between batches that are not full; negative for none
	MaxDefer time.Duration // how long files may be put off in a burst; negative for never
	Retry    time.Duration // pause after a step that failed
	NoSyncFS bool          // sync each file by itself, also in large batches

	Logger  *slog.Logger
	Fault   func(step string) error // called before each step on the disk; may fail it
	State   func(error)             // told of why files cannot be made, and nil once they can be
	Problem func(string)            // told of what was found wrong
	Moved   func()                  // called when Visible or Settled may have risen
	Syncs   *atomic.Int64           // counts sync calls
}

// Projector makes files of the journal's records. One goroutine runs it and
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
type Projector struct {
	opt     Options
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

	delivered, late atomic.Int64 // files made visible; records that expired before they were
}

// Visible is the position up to which every record is visible or needs no file.
func (p *Projector) Visible() uint64 { return p.visible.Load() }

// Settled is the position up to which visible files survive a power cut.
func (p *Projector) Settled() uint64 { return p.settled.Load() }

// Backlog is how many records of the journal are not visible yet.
func (p *Projector) Backlog() int64 {
	end, _ := p.opt.Journal.End()
	return int64(end) - int64(p.visible.Load())
}

// Delivered is how many files were made visible.
func (p *Projector) Delivered() int64 { return p.delivered.Load() }

// Expired is how many records expired before they were made visible.
func (p *Projector) Expired() int64 { return p.late.Load() }

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

// Run makes files until ctx ends.
func (p *Projector) Run(ctx context.Context) {
	for {
		err := p.project(ctx)
		if err == nil {
			return
		}
		p.opt.State(err)
		p.limit = max(1, p.limit/2)
		select {
		case <-time.After(p.opt.Retry):
		case <-ctx.Done():
			return
		}
	}
}

// project makes batch after batch visible until a step fails or, without an
// error, ctx ends.
func (p *Projector) project(ctx context.Context) error {
	for {
		if p.dirty {
			if err := p.reset(); err != nil {
				return err
			}
		}
		if p.pos == p.opt.Journal.Durable() {
			p.opt.State(nil)
		}
		if err := p.opt.Journal.Wait(ctx, p.pos+1); err != nil {
			return nil
		}
		p.pacer.waitToStart(ctx)
		room, err := p.room()
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

// room is how many files may be added besides those of batches that are not visible
// yet; none, with the reason, while a limit blocks.
func (p *Projector) room(coming ...*batch) (int, error) {
	var files, bytes int64
	for _, b := range coming {
		files, bytes = files+int64(len(b.files)), bytes+b.bytes
	}
	return p.opt.Pending.Room(files, bytes)
}

// prepare writes the files of the records after last to tmp/, as many as the
// journal has by now. With a wait for the record at a position, it goes on for as
// long as that says there is one.
func (p *Projector) prepare(wait func(pos uint64) bool, last uint64, room int) *batch {
	b := &batch{last: last}
	names := map[string]bool{}
	p.recent = append(p.recent[max(0, len(p.recent)-3):], names)
	limit := min(p.limit, room)
	if b.open.Keep = folders.Few; p.opt.NoSyncFS {
		b.open.Keep = p.limit
	}
	durable := p.opt.Journal.Durable()
	for len(b.files) < limit && b.bytes < maxBatchBytes && b.err == nil {
		if b.last >= durable {
			durable = p.opt.Journal.Durable()
		}
		if len(b.files)%16 == 15 && p.pacer.inBurst() {
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
		p.opt.Problem("journal: " + d.String())
	}
	p.reader.Damage = nil
	return b
}

// gap goes over records that are gone with their segment, and says so.
func (p *Projector) gap(b *batch, rec *segment.Record, err error) {
	next := p.reader.Pos() + 1
	if err == nil {
		next = rec.Pos
	}
	if next > b.last+1 && len(p.reader.Damage) == 0 {
		p.opt.Problem(fmt.Sprintf("journal: records %d to %d were removed before they were delivered", b.last+1, next-1))
	}
	b.last = max(b.last, next-1)
}

// take makes rec part of b.
func (p *Projector) take(b *batch, names map[string]bool, rec *segment.Record) error {
	wanted := rec.Kind == segment.Deliver
	if wanted && !rec.Expire.IsZero() && !rec.Expire.After(time.Now()) {
		b.late++
		wanted = false
	}
	if wanted && !p.inFlight(rec.Name) && (rec.Pos > p.doubt || !p.dirs.Contains(rec.Name)) {
		if err := p.opt.Fault("inbox write"); err != nil {
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
func (p *Projector) inFlight(name string) bool {
	return slices.ContainsFunc(p.recent, func(names map[string]bool) bool { return names[name] })
}

// pipe makes b and all batches that follow at once visible, and settles them.
// Of a batch that ended early for an error, the files before that are delivered.
func (p *Projector) pipe(ctx context.Context, b *batch) error {
	p.startSync(ctx, b)
	room, _ := p.room(b)
	var showing *task // the batch before b
	for {
		next := p.prepareWhile(ctx, b, room)
		if err := cmp.Or(b.sync.wait(), showing.wait()); err != nil {
			next.open.Close()
			return err
		}
		p.advance(b.moved)
		if showing != nil {
			p.opt.State(nil) // the one before that is settled
			p.limit = min(p.opt.Batch, 2*p.limit)
		}
		if next.last == b.last {
			if err := p.show(b); err != nil {
				return err
			}
			if b.err == nil {
				p.limit = min(p.opt.Batch, 2*p.limit)
			}
			if err := cmp.Or(b.err, next.err); err != nil || p.pos < p.opt.Journal.Durable() {
				return err
			}
			return p.settle()
		}
		p.pacer.waitToContinue(ctx)
		room, _ = p.room(b, next)
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
func (p *Projector) startSync(ctx context.Context, b *batch) {
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
		if err := p.opt.Fault("inbox sync"); err != nil {
			b.open.Close()
			return err
		}
		if err := p.dirs.Sync(&b.open, names); err != nil {
			return err
		}
		if err := p.opt.Fault("inbox intent"); err != nil {
			return err
		}
		return p.cp.Save(b.moved, b.last, true)
	})
}

// prepareWhile prepares the batch after b until b is synced, once enough records
// follow; fewer are left for a later one.
func (p *Projector) prepareWhile(ctx context.Context, b *batch, room int) *batch {
	if room <= 0 || b.err != nil || len(b.files) == 0 || ctx.Err() != nil {
		return &batch{last: b.last}
	}
	more := func(pos uint64) bool { return p.opt.Journal.Wait(b.syncing, pos) == nil }
	enough := b.last + uint64(p.opt.Batch/4)
	for durable := p.opt.Journal.Durable(); durable < enough; durable = p.opt.Journal.Durable() {
		if !more(durable + 1) {
			return &batch{last: b.last}
		}
	}
	return p.prepare(more, b.last, room)
}

// show makes the files of b visible.
func (p *Projector) show(b *batch) error {
	if len(b.files) > 0 {
		if err := p.dirs.InPlace(); err != nil {
			return err
		}
	}
	for i := range b.files {
		f := &b.files[i]
		if err := p.opt.Fault("inbox rename"); err != nil {
			return err
		}
		p.opt.Pending.Add(f.size, f.expire)
		placed, err := p.dirs.Publish(f.name)
		if !placed {
			p.opt.Pending.Undo(f.size)
		}
		if err != nil {
			return err
		}
		if !placed { // an id beyond the memory of ids, or somebody else's file
			p.opt.Logger.Warn("inbox: a file of that name is pending already and stays", "name", f.name)
		}
		p.pos, p.renamed = f.pos, f.pos
		p.delivered.Add(1)
	}
	p.pos = b.last
	p.late.Add(b.late)
	p.visible.Store(b.last)
	p.opt.Moved()
	return nil
}

// settle makes durable what is visible and says so in the checkpoint.
func (p *Projector) settle() error {
	if p.renamed > p.settled.Load() {
		if err := p.opt.Fault("inbox folder sync"); err != nil {
			return err
		}
		if err := p.dirs.SyncPending(); err != nil {
			return err
		}
	}
	if err := p.opt.Fault("inbox checkpoint"); err != nil {
		return err
	}
	if err := p.cp.Save(p.pos, 0, false); err != nil {
		return err
	}
	p.advance(p.pos)
	p.opt.Moved()
	return p.opt.Fault("inbox done")
}

// advance notes that all records up to pos are settled.
func (p *Projector) advance(pos uint64) {
	p.settled.Store(pos)
	p.opt.Journal.Delivered(pos)
}

// Close frees what the projector holds. Run has returned before.
func (p *Projector) Close() error {
	err := p.reader.Close()
	p.cp.Close()
	p.dirs.Close()
	return err
}
