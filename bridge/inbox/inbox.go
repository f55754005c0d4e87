// Package inbox is the bus of one machine: a journal, and a folder of files for
// the Brain that is made from it.
//
//	in, err := inbox.Open(inbox.Options{
//		Dir:     "data/kernel/inbox",
//		Journal: journal.Options{Dir: "data/journal"},
//	})
//	receipts, err := in.Publish(ctx, bus.Item{Envelope: e}) // durable
//	err = in.Close()                                        // and visible
//
// Publish gives ids and seqs, drops duplicates, and returns when the journal is
// synced. One goroutine, the projector, makes files of the journal, in its
// order: it writes up to 256 to tmp/, syncs them, and renames them to pending/.
// So a file that is visible is whole and durable. What a crash or a power cut
// leaves undone is completed from the journal at the next start, and nothing the
// Brain already took comes back; docs/design/journal-and-inbox.md says how each
// of the two is known.
//
// A file's modification time is the time of its record. It rises strictly in
// the order of publication, so sorting by it is the order of events; header.seq
// counts within a source.
//
// The folder can be read and consumed without this package, see
// bridge/inbox/queue. This package never lists the folder to publish, and never
// touches a file once it is visible.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/admit"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/pending"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/projector"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// ErrClosed says that the inbox was closed.
var ErrClosed = errors.New("inbox is closed")

// Options say where an inbox is. Zero values are the defaults named.
type Options struct {
	Dir     string          // the folder of folders; made when missing
	Journal journal.Options // Logger, Retry and Fault are set from these options where empty

	Batch         int           // files made visible together; 256
	MaxLag        int           // records that may wait for their files before Publish blocks; 32,768
	MaxLagBytes   int64         // and the size of their files; 256 MiB
	Pace          time.Duration // between batches that are not full; 10 ms, negative for none
	MaxDefer      time.Duration // how long files may be put off in a burst, so that acknowledgements are fast; 1 s, negative for never
	Soft          Limit         // of pending/; 800,000 files, Spill
	Hard          Limit         // and where delivery stops; 1,000,000 files, Block
	MaxRejected   int           // rejected events kept; 10,000
	RejectedBytes int64         // and their size; 64 MiB
	Retry         time.Duration // pause between attempts while degraded; 250 ms
	CloseTimeout  time.Duration // how long Close waits for a disk that fails; 10 s
	Logger        *slog.Logger  // discards when nil
	NoSyncFS      bool          // sync each file by itself, also in large batches

	// Fault, if set, is called before each step on the disk and may fail or
	// end it. Tests use it to crash at every step and to stand in for a broken disk.
	Fault func(step string) error
}

// Limit says how much may be in pending/, and what is done beyond.
type Limit = pending.Limit

// What is done beyond a limit; see package pending.
const (
	Block = pending.Block
	Spill = pending.Spill
)

func (o *Options) defaults() {
	set(&o.Batch, 256)
	set(&o.MaxLag, 32_768)
	set(&o.MaxLagBytes, 256<<20)
	set(&o.Pace, 10*time.Millisecond)
	set(&o.MaxDefer, time.Second)
	set(&o.Soft, Limit{Files: 800_000, Do: Spill})
	set(&o.Hard, Limit{Files: 1_000_000, Do: Block})
	set(&o.MaxRejected, 10_000)
	set(&o.RejectedBytes, 64<<20)
	set(&o.Retry, 250*time.Millisecond)
	set(&o.CloseTimeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Journal.Logger == nil {
		o.Journal.Logger = o.Logger
	}
	set(&o.Journal.Retry, o.Retry)
	set(&o.Journal.Outlet, o.Dir)
	if o.Fault == nil {
		o.Fault = func(string) error { return nil }
	}
	if o.Journal.Fault == nil {
		o.Journal.Fault = o.Fault
	}
}

func set[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}

// Counters count since Open, except the last four, which are what is now.
type Counters struct {
	Accepted  int64 // durable and for the Brain
	Recorded  int64 // durable and only for the journal
	Duplicate int64
	Expired   int64 // recorded, not delivered
	Rejected  int64
	Delivered int64 // files made visible
	Spilled   int64 // expired events moved from pending/ to done/, see [Spill]
	Syncs     int64 // sync calls, of the journal and for files

	Backlog      int64 // records whose files are not visible yet
	Pending      int64 // files in pending/
	PendingBytes int64 // about how large they are
	IDs          int64 // ids remembered
}

// State is whether events get through.
type State = admit.State

// Inbox is an open inbox; it is a [bus.Bus].
type Inbox struct {
	opt     Options
	lock    *os.File
	journal *journal.Journal
	desk    *admit.Desk
	door    *admit.Door
	rejects *rejects

	health   *admit.Health
	progress admit.Progress // of the projector

	projector *projector.Projector
	pending   *pending.Counter
	stop      context.CancelCauseFunc
	owned     sync.WaitGroup

	rejected, syncs atomic.Int64
}

var _ bus.Bus = (*Inbox)(nil)

// Open opens or creates an inbox and completes what a crash left. One process
// at a time can have it open; the error of others names that process.
func Open(opt Options) (_ *Inbox, err error) {
	opt.defaults()
	_, err = os.Stat(filepath.Join(opt.Dir, queue.Tmp))
	tmpGone := errors.Is(err, os.ErrNotExist)
	problems, err := queue.Prepare(opt.Dir)
	if err != nil {
		return nil, err
	}
	lock, err := lockfile.Lock(filepath.Join(opt.Dir, "writer.lock"))
	if err != nil {
		return nil, fmt.Errorf("opening inbox: %w", err)
	}
	x := &Inbox{opt: opt, lock: lock, door: admit.NewDoor(), health: admit.NewHealth(nil, problems...)}
	opt.Journal.Report = x.problem
	j, err := journal.Open(opt.Journal)
	if err != nil {
		lock.Close()
		return nil, err
	}
	x.journal, x.desk = j, admit.NewDesk(j, segment.MaxBody/2, amp.FileName)
	x.pending = pending.New(pending.Options{Dir: opt.Dir, Soft: opt.Soft, Hard: opt.Hard, Retry: opt.Retry, Logger: opt.Logger})
	for _, d := range j.Damage() {
		x.problem("journal: " + d.String())
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("opening inbox %s: %w", opt.Dir, err), j.Close(), lock.Close())
		}
	}()
	if x.rejects, err = openRejects(opt); err != nil {
		return nil, err
	}
	x.projector, err = projector.Open(projector.Options{
		Inbox: opt.Dir, Journal: j, JournalDir: opt.Journal.Dir, Pending: x.pending,
		Batch: opt.Batch, MaxLag: opt.MaxLag, Pace: opt.Pace, MaxDefer: opt.MaxDefer, Retry: opt.Retry, NoSyncFS: opt.NoSyncFS,
		Logger: opt.Logger, Fault: opt.Fault, State: x.setState, Problem: x.problem, Moved: x.progress.Announce, Syncs: &x.syncs,
	}, tmpGone)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(context.Background())
	x.stop = stop
	x.owned.Go(func() { x.projector.Run(ctx) })
	x.owned.Go(func() { x.pending.Run(ctx) })
	x.owned.Go(func() { x.pending.SpillExpired(ctx) })
	return x, nil
}

// Publish makes items durable; see [bus.Bus] and [admit.Desk.Admit]. While MaxLag
// records wait for their files, it blocks.
func (x *Inbox) Publish(ctx context.Context, items ...bus.Item) ([]bus.Receipt, error) {
	drafts, err := x.desk.Check(items)
	if err != nil {
		return nil, err
	}
	if !x.door.Enter() {
		return nil, ErrClosed
	}
	defer x.door.Leave()
	if drafts.ToBrain {
		if err := x.waitForFiles(ctx); err != nil {
			return nil, err
		}
	}
	receipts, err := x.desk.Admit(ctx, drafts)
	return receipts, x.explain(err)
}

// waitForFiles holds a publisher back while too many records wait for their files.
func (x *Inbox) waitForFiles(ctx context.Context) error {
	room := func() bool { return !x.lags() }
	switch {
	case room() || x.progress.Wait(ctx, x.door.Closing(), room):
		return nil
	case ctx.Err() != nil:
		return x.explain(context.Cause(ctx))
	}
	return ErrClosed
}

func (x *Inbox) lags() bool {
	if x.projector.Backlog() >= int64(x.opt.MaxLag) {
		return true
	}
	_, bytes := x.journal.Undelivered()
	return bytes >= x.opt.MaxLagBytes
}

// explain adds why nothing moves to the error of a call that gave up waiting.
func (x *Inbox) explain(err error) error { return x.State().Explain(err, "inbox", ErrClosed) }

// State is whether events are made durable and visible. While it is not so,
// publishers wait, and it resumes by itself.
func (x *Inbox) State() State { return x.health.State(x.journal) }

func (x *Inbox) setState(err error) {
	was := x.health.Set(err)
	switch {
	case was == nil && err != nil:
		x.opt.Logger.Error("inbox degraded", "cause", err)
	case was != nil && err == nil:
		x.opt.Logger.Info("inbox delivers again")
	}
}

// Problems lists what was found wrong with the folders and the journal, and put
// right where that was possible. It is for people.
func (x *Inbox) Problems() []string { return x.health.Problems() }

func (x *Inbox) problem(text string) {
	x.opt.Logger.Warn("inbox", "problem", text)
	x.health.Note(text)
}

// Counters counts what became of events.
func (x *Inbox) Counters() Counters {
	ids, _ := x.journal.IDs()
	pending, bytes := x.pending.Now()
	admitted := x.desk.Counts()
	return Counters{Accepted: admitted.Accepted, Recorded: admitted.Recorded, Duplicate: admitted.Duplicate,
		Expired: admitted.Expired + x.projector.Expired(), Rejected: x.rejected.Load(), Delivered: x.projector.Delivered(),
		Spilled: x.pending.Spilled(), Syncs: x.syncs.Load() + x.journal.Syncs(),
		Backlog: x.projector.Backlog(), Pending: pending, PendingBytes: bytes, IDs: int64(ids)}
}

// Journal is the journal of the inbox, for readers.
func (x *Inbox) Journal() *journal.Journal { return x.journal }
