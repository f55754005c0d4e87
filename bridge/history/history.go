// Package history answers what happened: it keeps an index of the journal, which says
// for each call who asked for it, what the policy said, who approved it and how it
// ended, and has every other event.
//
//	x := history.Start(history.Options{Path: "data/state/history.db", Bus: "inbox", Journal: j})
//	page, err := x.List(ctx, store.Filter{Text: "删除"}, store.Page{Limit: 50})
//	err = x.Close(ctx)
//
// One goroutine follows the journal after its commits, so that no event waits for the
// index, and rests as long as it worked while the journal grows. What the journal
// drops, the index drops too. An index that is damaged, of an older version or of
// another journal is made again of the journal, meanwhile it is incomplete; one of a
// newer version is left alone, and questions are refused, until [Index.Rebuild].
//
// Package entry makes entries of records, words splits their texts, and store is the
// file. How any of it is shown is in the verbs of the command line.
package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Codes of the failures of questions.
const (
	Unavailable  = "history_unavailable" // the index cannot be read at present
	CallNotFound = "call_not_found"      // the history has no call of that id
)

const (
	batch     = 500         // entries that are stored in one transaction
	retry     = time.Minute // after a failure, and between looks at what the journal dropped
	pruneSize = 2000        // entries that are removed in one transaction
	closing   = 2 * time.Second
)

// Options say which journal is followed and where its index is. Path and Journal are
// required.
type Options struct {
	Path    string
	Bus     string // a word for the journal; the index of another one is made again
	Journal *journal.Journal
	Logger  *slog.Logger // discards when nil
}

// Index is a followed journal's index. It is safe for concurrent use.
type Index struct {
	o      Options
	stop   context.CancelFunc
	done   chan struct{}
	opened chan struct{} // closed after the first attempt to open the file
	again  chan struct{} // asks for a rebuild

	mu    sync.RWMutex // held by questions; exclusively to change store
	store *store.Store // nil while there is none
	why   error        // of that
	at    uint64       // position up to which the journal is indexed
	begun int          // how often the file was begun anew, or could not be
	grown chan struct{}
}

// Start begins to follow a journal. It does not fail: what is wrong with the index is
// logged, and in the answers to questions.
func Start(o Options) *Index {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	x := &Index{
		o: o, stop: stop, done: make(chan struct{}), opened: make(chan struct{}), again: make(chan struct{}, 1),
		why: fault.New(Unavailable, "the history is being opened").Retry(), grown: make(chan struct{}),
	}
	go x.run(ctx)
	return x
}

// Close gives the index a moment for what is durable by then, as long as ctx lasts,
// and frees the file. The next start goes on from there.
func (x *Index) Close(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, closing)
	defer cancel()
	if err := x.Wait(short, x.o.Journal.Durable()); err != nil {
		x.o.Logger.Debug("the history lacks the last events until the next start", "error", err)
	}
	x.stop()
	<-x.done
	x.mu.Lock()
	defer x.mu.Unlock()
	x.why = fault.New(Unavailable, "the platform is shutting down")
	if x.store == nil {
		return nil
	}
	s := x.store
	x.store = nil
	return s.Close()
}

// Wait returns when the journal is indexed up to position, or why it is not going to
// be at present.
func (x *Index) Wait(ctx context.Context, position uint64) error {
	for {
		x.mu.RLock()
		at, why, grown, open := x.at, x.why, x.grown, x.store != nil
		x.mu.RUnlock()
		switch {
		case open && at >= position:
			return nil
		case !open && !fault.From(why).Retryable:
			return why
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Rebuild has the index made again of the journal, whatever is wrong with it, and
// returns when that has begun, or cannot.
func (x *Index) Rebuild(ctx context.Context) error {
	x.mu.RLock()
	before := x.begun
	x.mu.RUnlock()
	x.poke()
	for {
		x.mu.RLock()
		begun, why, grown, open := x.begun, x.why, x.grown, x.store != nil
		x.mu.RUnlock()
		switch {
		case begun > before && open:
			return nil
		case begun > before && !fault.From(why).Retryable:
			return why
		}
		select {
		case <-grown:
		case <-x.done:
			return fault.New(Unavailable, "the platform is shutting down")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// poke asks for a rebuild.
func (x *Index) poke() {
	select {
	case x.again <- struct{}{}:
	default: // one is due already
	}
}

// Problems are why questions are refused for longer; none where all is well.
func (x *Index) Problems() []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if f := fault.From(x.why); x.store == nil && !f.Retryable {
		return []string{"history: " + f.Message}
	}
	return nil
}

// Behind is how many records of the journal are not indexed yet.
func (x *Index) Behind() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if end := x.o.Journal.Durable(); end > x.at {
		return end - x.at
	}
	return 0
}

// run keeps an index until ctx ends.
func (x *Index) run(ctx context.Context) {
	defer close(x.done)
	anew := false
	var damaged time.Time // when the index was last found damaged
	for ctx.Err() == nil {
		err := x.follow(ctx, anew)
		anew = false
		again := errors.Is(err, errAgain)
		if errors.Is(err, store.ErrDamaged) {
			again = time.Since(damaged) > retry // at once, but not again and again
			damaged = time.Now()
		}
		var pause <-chan time.Time
		switch {
		case ctx.Err() != nil:
			return
		case again:
			x.o.Logger.Info("the history is made again of the journal", "cause", err)
			x.set(nil, fault.New(Unavailable, "the history is being made again of the journal").Retry())
			anew = true
			continue
		case errors.Is(err, store.ErrNewer):
			err = fault.New(Unavailable, "%v; \"platform history rebuild\" makes it again of the journal", err)
		default:
			pause = time.After(retry)
		}
		x.o.Logger.Warn("there is no history", "error", err)
		x.set(nil, fault.New(Unavailable, "%v", err))
		select {
		case <-x.again:
			x.set(nil, fault.New(Unavailable, "the history is being made again of the journal").Retry())
			anew = true
		case <-pause:
			anew = errors.Is(err, store.ErrDamaged)
		case <-ctx.Done():
		}
	}
}

// errAgain ends a following after which the index is made again.
var errAgain = errors.New("it was asked for")

// set changes the file that answers questions; an old one is closed.
func (x *Index) set(s *store.Store, why error) {
	x.mu.Lock()
	old := x.store
	x.store, x.why, x.at = s, why, 0
	close(x.grown)
	x.grown = make(chan struct{})
	x.mu.Unlock()
	select {
	case <-x.opened:
	default:
		close(x.opened)
	}
	if old != nil {
		old.Close()
	}
}

// reached says up to which position the journal is indexed.
func (x *Index) reached(at uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = at
	close(x.grown)
	x.grown = make(chan struct{})
}

// follow opens the index, or begins it anew, and keeps it up with the journal. It
// returns an error.
func (x *Index) follow(ctx context.Context, anew bool) error {
	if anew {
		x.mu.Lock()
		x.begun++
		x.mu.Unlock()
		if err := store.Remove(x.o.Path); err != nil {
			return err
		}
	}
	s, fresh, err := store.Open(x.o.Path, x.o.Bus)
	if err != nil {
		return err
	}
	if fresh != "" {
		x.o.Logger.Info("the history is made again of the journal", "cause", fresh)
	}
	folder, from, err := x.resume(ctx, s)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	x.set(s, nil)
	x.reached(from)
	r := x.o.Journal.Reader(from + 1)
	defer r.Close()
	var pruned time.Time
	for {
		began, end := time.Now(), x.o.Journal.Durable()
		more, err := x.advance(ctx, s, folder, r)
		if err != nil {
			return err
		}
		if more {
			pause := time.Since(began)
			if x.o.Journal.Durable() == end { // nobody else wants the processor for events
				pause = 0
			}
			if err := x.rest(ctx, pause); err != nil {
				return err
			}
			continue
		}
		if time.Since(pruned) > retry {
			if err := x.prune(ctx, s); err != nil {
				return err
			}
			pruned = time.Now()
		}
		if err := x.nextCommit(ctx); err != nil {
			return err
		}
	}
}

// resume finds out how far the journal is indexed, and which calls are open there.
func (x *Index) resume(ctx context.Context, s *store.Store) (*entry.Folder, uint64, error) {
	folder := entry.NewFolder()
	_, from, at, err := s.State(ctx)
	if err != nil || from == 0 {
		return folder, 0, err
	}
	last, err := x.record(from)
	switch {
	case errors.Is(err, io.EOF) && from > x.o.Journal.Durable():
		return nil, 0, fmt.Errorf("%w: it is of a longer journal", store.ErrDamaged)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, 0, err
	case err == nil && last.Pos == from && !last.Time.Equal(at):
		return nil, 0, fmt.Errorf("%w: it is of another journal", store.ErrDamaged)
	}
	open, err := s.Open(ctx, maxResumed)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range open {
		var records []segment.Record
		for _, pos := range e.Records {
			if rec, err := x.record(pos); err == nil && rec.Pos == pos {
				records = append(records, rec)
			}
		}
		folder.Restore(e, records)
	}
	return folder, from, nil
}

// maxResumed is how many open calls are read again at a start: calls of a platform that
// was killed stay open for good.
const maxResumed = 100

// record is the record at pos, or the first one after it.
func (x *Index) record(pos uint64) (segment.Record, error) {
	return next(x.o.Journal.Reader(pos))
}

// advance stores one batch, and reports whether there may be more.
func (x *Index) advance(ctx context.Context, s *store.Store, folder *entry.Folder, r *segment.Reader) (more bool, err error) {
	last, more, err := index(ctx, s, folder, r, x.o.Logger)
	if err == nil && last > 0 {
		x.reached(last)
	}
	return more, err
}

// index stores one batch and returns the position of its last record, 0 for none.
func index(ctx context.Context, s *store.Store, folder *entry.Folder, r *segment.Reader, log *slog.Logger) (pos uint64, more bool, err error) {
	var last segment.Record
	read := 0
	for more = true; more && folder.Pending() < batch && read < batch; read++ {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			more = false
			break
		}
		if err != nil {
			return 0, false, fmt.Errorf("reading the journal: %w", err)
		}
		if err := folder.Add(&rec); err != nil {
			log.Debug("the history lacks an event", "error", err)
		}
		last = rec
	}
	if read == 0 {
		return 0, false, nil
	}
	if err := s.Write(ctx, folder.Take(), last.Pos, last.Time); err != nil {
		return 0, false, fmt.Errorf("storing the history: %w", err)
	}
	return last.Pos, more, nil
}

// Build makes the index at path again of a journal that no platform has open, and
// returns the position of its last record.
func Build(ctx context.Context, path, bus, journal string) (last uint64, err error) {
	if err := store.Remove(path); err != nil {
		return 0, err
	}
	s, _, err := store.Open(path, bus)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r := segment.NewReader(journal, 1, nil, nil)
	defer r.Close()
	folder := entry.NewFolder()
	for more := true; more; {
		var pos uint64
		if pos, more, err = index(ctx, s, folder, r, slog.New(slog.DiscardHandler)); err != nil {
			return last, err
		}
		last = max(last, pos)
	}
	return last, nil
}

// rest leaves the processor to others for as long as a batch took.
func (x *Index) rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-x.again:
		return errAgain
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gather is how long commits are gathered before they are indexed together.
const gather = 200 * time.Millisecond

// nextCommit waits until the journal grew.
func (x *Index) nextCommit(ctx context.Context) error {
	x.mu.RLock()
	next := x.at + 1
	x.mu.RUnlock()
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	grown := make(chan error, 1)
	go func() { grown <- x.o.Journal.Wait(wait, next) }()
	select {
	case <-x.again:
		cancel()
		<-grown
		return errAgain
	case err := <-grown:
		if err != nil {
			return err
		}
		return x.rest(ctx, gather)
	}
}

// prune removes what the journal dropped.
func (x *Index) prune(ctx context.Context, s *store.Store) error {
	first, err := x.record(1)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	for {
		done, err := s.Prune(ctx, first.Pos, pruneSize)
		if done || err != nil {
			return err
		}
	}
}

// ask answers a question from the file, as soon as it was opened.
func (x *Index) ask(ctx context.Context, do func(*store.Store) error) error {
	select {
	case <-x.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.store == nil {
		return x.why
	}
	err := do(x.store)
	if errors.Is(err, store.ErrDamaged) {
		x.o.Logger.Warn("the history is damaged", "error", err)
		x.poke()
		return fault.New(Unavailable, "the history is damaged, and is being made again of the journal").Retry()
	}
	return err
}
