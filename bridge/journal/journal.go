// Package journal is the append-only log behind the bus: the durable record of
// every event, their order, the memory of ids already seen, and the audit trail.
//
//	j, err := journal.Open(journal.Options{Dir: "data/journal"})
//	var pos uint64
//	err = j.Append(ctx, func(q journal.Queue) error {
//		if _, _, seen := q.Lookup(key); seen {
//			return nil
//		}
//		pos, err = q.Add(journal.Record{Kind: journal.Deliver, Key: key, Body: body})
//		return err
//	})
//	err = j.Wait(ctx, pos) // durable
//
// A directory holds segments NNN.log, each named after the position of its first
// record (package segment has their format), for each full segment a summary
// NNN.ids of the ids in it, what had to be cut from a segment as NNN-OFFSET.torn,
// and at times next.segment, made ahead.
//
// Positions are dense and rise from 1; times rise strictly, also when the clock
// is set back. One goroutine commits: all that was queued while it synced the
// last batch is written and synced as the next. Segments are allocated ahead and
// overwritten, so that a commit syncs data and no metadata.
//
// A sync that failed is never repeated on the same file, whose pages the kernel
// may have dropped: the batch is still in memory and goes to a new segment.
// While that is not possible, or the disk is nearly full, the journal is
// degraded: it takes what fits its queue, acknowledges nothing, and resumes by
// itself. It looks every two seconds, so that it also knows while nobody writes.
// A folder or segment that was removed is noticed before the next record is
// acknowledged, and made anew.
//
// Files that are made of records elsewhere have a promise of room: see
// Options.Outlet. The package knows nothing of envelopes, files for a Brain, or MCP.
package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/ids"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/recovery"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/tail"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
)

// ErrClosed says that the journal was closed before the outcome was known.
var ErrClosed = errors.New("journal is closed")

// ErrDegraded says that the journal cannot write at present. It is in the
// errors of calls whose context ended while they waited.
var ErrDegraded = errors.New("journal is degraded")

// ErrTooLarge says that a record exceeds the limits of [segment.Record].
var ErrTooLarge = errors.New("record is too large for the journal")

const lockName = "lock"

// Options say where a journal is and how much it keeps. Zero values are the
// defaults named.
type Options struct {
	Dir          string        // created 0700 when missing
	SegmentBytes int64         // size of a segment; 16 MiB, less on a small disk
	QueueBytes   int           // records waiting for the running sync; 8 MiB
	MaxIDs       int           // the memory of ids reaches back over this many records; 1,000,000
	MaxIDAge     time.Duration // and this long, whichever is less; 7 days
	KeepBytes    int64         // whole old segments beyond this are dropped; 2 GiB, a quarter of the disk where that is less
	KeepAge      time.Duration // and those older than this; 30 days
	Space        space.Reserve // when to stop before the disk is full
	// Outlet, if set, is a folder in which a file is to be made of each record of
	// kind Deliver. Its disk keeps room for the files of all that are acknowledged
	// and not yet [Journal.Delivered]: where that is short, acknowledgements wait.
	Outlet string
	Report func(problem string) // told of what people should know, such as a folder that was removed; may be nil
	Retry  time.Duration        // pause between attempts while degraded; 250 ms
	Logger *slog.Logger         // discards when nil

	queueFiles int64                                // files of the records waiting for the running sync
	look       func(dir string) (space.Disk, error) // Space.Look; tests make disks small
	lookEvery  time.Duration                        // how often the disk is looked at while nobody writes; 2 s

	// Fault, if set, is called before each step on the disk and may fail or
	// end it. Tests use it to crash at every step and to stand in for a broken disk.
	Fault func(step string) error
}

func (o *Options) defaults() {
	o.SegmentBytes = cmp.Or(o.SegmentBytes, 16<<20)
	o.QueueBytes = cmp.Or(o.QueueBytes, 8<<20)
	o.MaxIDs = cmp.Or(o.MaxIDs, 1_000_000)
	o.MaxIDAge = cmp.Or(o.MaxIDAge, 7*24*time.Hour)
	o.KeepBytes = cmp.Or(o.KeepBytes, 2<<30)
	o.KeepAge = cmp.Or(o.KeepAge, 30*24*time.Hour)
	o.Retry = cmp.Or(o.Retry, 250*time.Millisecond)
	o.lookEvery = cmp.Or(o.lookEvery, 2*time.Second)
	if o.look == nil {
		o.look = o.Space.Look
	}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fault == nil {
		o.Fault = func(string) error { return nil }
	}
}

// Journal is an open journal. It is safe for concurrent use. One process at a
// time has a directory's journal open; a [segment.Reader] may read meanwhile.
type Journal struct {
	opt  Options
	lock *os.File

	mu      sync.Mutex
	mem     recovery.Memory // of all records, also of those not synced
	durable uint64          // highest synced position
	pending *batch          // takes records
	syncing *batch          // is being written; nil between batches
	room    chan struct{}
	state   State
	free    []byte // the memory of a batch that is over, for the next one

	seg       *tail.Segment // the committer's own
	spare     *tail.Spare
	kick      chan struct{} // records are queued
	closing   chan struct{}
	closeOnce sync.Once
	owned     sync.WaitGroup // committer and keeper
	rotated   chan struct{}  // wakes the keeper
	gotRoom   chan struct{}  // files were made: the committer may have room again
	delivered atomic.Uint64
	syncs     atomic.Int64
}

// batch is what one sync makes durable.
type batch struct {
	buf         []byte
	first, last uint64
	files       space.Need    // room for the files of its records
	done        chan struct{} // closed when the outcome is known
	err         error
}

func newBatch(buf []byte) *batch { return &batch{buf: buf[:0], done: make(chan struct{})} }

// State is whether the journal can write.
type State struct {
	Err   error     // why it is degraded; nil when all is well
	Since time.Time // of the last change
}

// Open opens or creates a journal, completes what a crash left (see
// [Journal.Damage]), and loads the memory of ids.
func Open(opt Options) (_ *Journal, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("opening journal %s: %w", opt.Dir, err)
		}
	}()
	opt.defaults()
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockfile.Lock(filepath.Join(opt.Dir, lockName))
	if err != nil {
		return nil, err
	}
	opt.fitQueue()
	if err := os.Remove(filepath.Join(opt.Dir, tail.SpareName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		lock.Close()
		return nil, err
	}
	j := &Journal{
		opt: opt, lock: lock, mem: recovery.Memory{Index: ids.NewIndex(opt.MaxIDs, opt.MaxIDAge)},
		pending: newBatch(nil), room: make(chan struct{}),
		kick: make(chan struct{}, 1), closing: make(chan struct{}), rotated: make(chan struct{}, 1), gotRoom: make(chan struct{}, 1),
		state: State{Since: time.Now()},
	}
	j.spare = &tail.Spare{Dir: opt.Dir, Size: opt.SegmentBytes, Room: j.roomForSpare, Stop: j.closing, Fault: opt.Fault,
		Debug: func(msg string, err error) { opt.Logger.Debug(msg, "error", err) }}
	if err := j.load(); err != nil {
		lock.Close()
		return nil, err
	}
	j.durable = j.mem.Next - 1
	j.owned.Go(j.commitAll)
	j.owned.Go(j.keep)
	return j, nil
}

// load reads the files, and goes on with the last segment where it has room.
func (j *Journal) load() error {
	m := &j.mem
	if err := recovery.Load(j.opt.Dir, m, j.filesOf, j.opt.Logger); err != nil {
		return err
	}
	if m.Tail == 0 || m.TailEnd >= j.opt.SegmentBytes/2 {
		return nil // the first batch makes a segment
	}
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return err
	}
	size := min(j.opt.SegmentBytes, d.Spare(m.Files.Total())/8)
	seg, err := tail.Resume(j.opt.Dir, m.Tail, m.TailEnd, max(size, m.TailEnd), j.opt.Fault)
	if err != nil {
		return err
	}
	j.use(seg)
	return nil
}

// Queue is the end of the journal while it is held for one caller of Append.
type Queue struct{ j *Journal }

// Lookup finds the record with the key k, synced or not, and who the key belongs
// to. A record before the horizon of ids is not found.
func (q Queue) Lookup(k segment.Key) (pos uint64, owner uint16, seen bool) {
	return q.j.mem.Index.Lookup(k)
}

// Seq is the highest seq a record of source was added with; 0 for a new source.
func (q Queue) Seq(source string) uint64 { return q.j.mem.Sources[source].Seq }

// Add queues a record and returns its position. Pos and Time are set by the
// journal. The error is [ErrTooLarge], and nothing was queued.
func (q Queue) Add(r segment.Record) (uint64, error) {
	if len(r.Body) > segment.MaxBody || max(len(r.Source), len(r.Name)) > math.MaxUint16 {
		return 0, ErrTooLarge
	}
	j := q.j
	r.Pos = j.mem.Next
	r.Time = time.Now().Round(0)
	if !r.Time.After(j.mem.Last) {
		r.Time = j.mem.Last.Add(1)
	}
	j.mem.Remember(&r)
	b := j.pending
	if len(b.buf) == 0 {
		b.first = r.Pos
	}
	b.last = r.Pos
	b.buf = r.Append(b.buf)
	b.files.Add(j.filesOf(&r))
	return r.Pos, nil
}

// Append calls build once with the queue's end, as soon as there is room. The
// order of these calls is the order of records. What was added is durable when
// [Journal.Wait] says so. An error is build's, or says that ctx ended or the
// journal was closed before build was called.
func (j *Journal) Append(ctx context.Context, build func(Queue) error) error {
	for {
		j.mu.Lock()
		if j.isClosing() {
			j.mu.Unlock()
			return ErrClosed
		}
		if len(j.pending.buf) < j.opt.QueueBytes && j.pending.files.Files < j.opt.queueFiles {
			err := build(Queue{j})
			queued := len(j.pending.buf) > 0
			j.mu.Unlock()
			if queued {
				poke(j.kick)
			}
			return err
		}
		room := j.room
		j.mu.Unlock()
		select {
		case <-room:
		case <-j.closing:
		case <-ctx.Done():
			return j.ended(ctx)
		}
	}
}

// Wait returns when the record at pos is durable. When ctx ends first the
// outcome is open.
func (j *Journal) Wait(ctx context.Context, pos uint64) error {
	j.mu.Lock()
	if pos <= j.durable {
		j.mu.Unlock()
		return nil
	}
	b := j.pending
	if j.syncing != nil && pos <= j.syncing.last {
		b = j.syncing
	}
	j.mu.Unlock()
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return j.ended(ctx)
	}
}

func (j *Journal) ended(ctx context.Context) error {
	if s := j.State(); s.Err != nil {
		return fmt.Errorf("%w: %w: %w", context.Cause(ctx), ErrDegraded, s.Err)
	}
	return context.Cause(ctx)
}

func (j *Journal) isClosing() bool {
	select {
	case <-j.closing:
		return true
	default:
		return false
	}
}

// Durable is the highest position that is synced; 0 for an empty journal.
func (j *Journal) Durable() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.durable
}

// End is the highest position that is queued or synced, and the time of that record.
func (j *Journal) End() (pos uint64, last time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mem.Next - 1, j.mem.Last
}

// State is whether the journal can write.
func (j *Journal) State() State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state
}

// Syncs counts the syncs of segments since Open.
func (j *Journal) Syncs() int64 { return j.syncs.Load() }

// IDs is how many ids are remembered and the position from which on all are.
func (j *Journal) IDs() (count int, horizon uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mem.Index.Len(), j.mem.Index.Horizon()
}

// Undelivered is how many records of kind Deliver are synced and not delivered,
// to the nearest hundred, and the size of their bodies; 0 without an Outlet.
func (j *Journal) Undelivered() (records, bytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	files := j.mem.Files.Total()
	return files.Files, files.Bytes
}

// Reader reads j from the position from on, as far as it is durable. Damage that
// the reader meets is kept aside.
func (j *Journal) Reader(from uint64) *segment.Reader {
	return segment.NewReader(j.opt.Dir, from, j.Durable, func(d *segment.Damage) {
		if err := d.Keep(j.opt.Dir); err != nil {
			j.opt.Logger.Warn("journal: keeping damaged bytes aside", "what", d.String(), "error", err)
		}
	})
}

// Damage is what Open found broken and kept aside.
func (j *Journal) Damage() []segment.Damage { return j.mem.Damage }

// Close commits what is queued and frees everything. While the journal is
// degraded it does not wait: what is queued is lost, and the error says so.
func (j *Journal) Close() error {
	var err error
	j.closeOnce.Do(func() {
		j.mu.Lock()
		close(j.closing)
		j.mu.Unlock()
		j.owned.Wait()
		j.spare.Drop()
		if j.seg != nil {
			err = j.seg.Seal()
		}
		if lost := j.pending; lost.err != nil {
			err = errors.Join(err, fmt.Errorf("%d records were not written: %w", j.mem.Next-1-j.durable, lost.err))
		}
		err = errors.Join(err, j.lock.Close())
	})
	return err
}

// poke wakes whoever waits for c, which has room for one wake-up.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
