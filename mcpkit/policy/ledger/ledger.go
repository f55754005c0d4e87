// Package ledger remembers what was sent, so that nothing is sent twice.
//
//	l, err := ledger.Open(ctx, db, ledger.Options{})
//	earlier, err := l.Begin(ctx, ledger.Call{Key: key, Server: s, Tool: t, Hash: h})
//	if earlier != nil { … }               // the key was used: nothing may be sent
//	answer, err := send()
//	err = l.Complete(ctx, key, ledger.Result{Raw: answer})   // or Fail
//
// Begin returns after its entry is on the disk (one fsync), before anything is
// sent. If the process then dies, or the outcome cannot be written, the entry is
// found as unknown: the call may have had its effect, and the key is never good
// for another one.
//
// An entry is kept for Options.Keep and while there are no more than
// Options.MaxEntries younger ones; after that its key is as good as new. Entries
// of calls in flight stay. The ledger decides nothing: which calls are recorded,
// and what becomes of a key that was used, is up to its caller.
package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// State is what is known of a call.
type State string

const (
	InFlight  State = "started"   // it was begun by this process and has not ended
	Completed State = "completed" // the server answered
	Failed    State = "failed"    // it certainly had no effect, or the server said that it failed
	Unknown   State = "unknown"   // it may have had its effect
)

// MaxResult is how many bytes of a result are kept in the entry; of a larger one
// the entry has hash, size and where it is kept.
const MaxResult = 64 << 10

const pruneEvery = 256 // entries between two looks at the past

// Call is a call that is about to be sent.
type Call struct {
	Key    string `json:"key"`
	CallID string `json:"call_id"`
	Server string `json:"server"`
	Tool   string `json:"tool"` // the server's own name
	Hash   string `json:"hash"` // SHA-256 of the canonical arguments
	Risk   string `json:"risk"`
}

// Same reports whether d repeats c: same server, tool and arguments.
func (c Call) Same(d Call) bool { return c.Server == d.Server && c.Tool == d.Tool && c.Hash == d.Hash }

// Result is an answer. Raw must have had its secrets removed.
type Result struct {
	Raw     json.RawMessage
	Ref     json.RawMessage // where it is kept whole, as JSON; may be nil
	IsError bool            // the tool's own word
}

// Entry is what is known of a call that was begun.
type Entry struct {
	Call
	State   State           `json:"state"`
	Started time.Time       `json:"started"`
	Ended   time.Time       `json:"ended,omitzero"`
	IsError bool            `json:"is_error,omitempty"`
	Fault   *fault.Error    `json:"fault,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"` // nil where it was too large to keep
	Ref     json.RawMessage `json:"ref,omitempty"`
	SHA256  string          `json:"sha256,omitempty"` // of the result
	Size    int64           `json:"size,omitempty"`   // of the result, bytes
}

// Options say how a Ledger works.
type Options struct {
	Keep       time.Duration    // zero is 30 days
	MaxEntries int              // zero is 100,000
	Logger     *slog.Logger     // nil discards
	Now        func() time.Time // nil is the real clock
}

// Ledger is safe for concurrent use.
type Ledger struct {
	db  *sql.DB
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	keep  time.Duration
	most  int
	begun int
	live  map[string]*flight // by key
}

// flight is a call of this process that has not ended. Until it is recorded nobody
// knows whether its key was used before.
type flight struct {
	Entry
	settled  chan struct{} // closed once it is recorded, or never will be
	recorded bool
}

// Open takes up the ledger in a database of package policy. Calls that an
// earlier process began and did not end are unknown from now on.
func Open(ctx context.Context, db *sql.DB, o Options) (*Ledger, error) {
	l := &Ledger{db: db, log: o.Logger, now: o.Now, live: map[string]*flight{}}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.now == nil {
		l.now = time.Now
	}
	l.Configure(o.Keep, o.MaxEntries)
	res, err := db.ExecContext(ctx, "UPDATE calls SET state = ?, ended = ? WHERE state = ?", Unknown, l.now().UnixMilli(), InFlight)
	if err != nil {
		return nil, fmt.Errorf("closing the calls of the last process: %w", err)
	}
	if n, _ := res.RowsAffected(); n > 0 {
		l.log.Warn("calls were in flight when the last process ended: their outcome is unknown", "calls", n)
	}
	return l, nil
}

// Configure sets Options.Keep and Options.MaxEntries.
func (l *Ledger) Configure(keep time.Duration, maxEntries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep, l.most = cmp.Or(keep, 30*24*time.Hour), cmp.Or(maxEntries, 100_000)
}

// Begin records a call before it is sent. It returns nil for a key that was not
// used, else what is known of the call that used it; then nothing is recorded
// and nothing may be sent. An error, such as a full disk, means the same.
func (l *Ledger) Begin(ctx context.Context, c Call) (earlier *Entry, err error) {
	if c.Key == "" {
		return nil, errors.New("recording a call: it has no key")
	}
	l.mu.Lock()
	if running := l.running(c.Key); running != nil {
		l.mu.Unlock()
		return running, nil
	}
	started := l.now()
	f := &flight{Entry: Entry{Call: c, State: InFlight, Started: started.UTC()}, settled: make(chan struct{})}
	l.live[c.Key] = f // before the entry: whoever finds it knows that it is ours
	l.begun++
	prune := l.begun%pruneEvery == 0
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if f.recorded = err == nil && earlier == nil; !f.recorded {
			delete(l.live, c.Key)
		}
		close(f.settled)
	}()
	if prune {
		if err := l.Prune(ctx); err != nil {
			l.log.Warn("the ledger was not pruned", "error", err)
		}
	}
	res, err := l.db.ExecContext(context.WithoutCancel(ctx), `INSERT INTO calls (key, state, call_id, server, tool, hash, risk, started)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`,
		c.Key, InFlight, c.CallID, c.Server, c.Tool, c.Hash, c.Risk, started.UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("recording a call: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return nil, err
	}
	e, err := l.entry(ctx, c.Key)
	if err != nil {
		return nil, fmt.Errorf("recording a call: %w", err)
	}
	if e.State == InFlight {
		e.State = Unknown // its end could not be written
	}
	return &e, nil
}

// running is what is in flight under a key, or nil; a call that is just being
// recorded is waited for. The caller holds mu, which is let go meanwhile.
func (l *Ledger) running(key string) *Entry {
	for {
		f := l.live[key]
		switch {
		case f == nil:
			return nil
		case f.recorded:
			e := f.Entry
			return &e
		}
		l.mu.Unlock()
		<-f.settled
		l.mu.Lock()
	}
}

// landed notes that nothing is in flight under a key any more.
func (l *Ledger) landed(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, key)
}

// Complete records an answer. Where that fails the entry is unknown.
func (l *Ledger) Complete(ctx context.Context, key string, r Result) error {
	sum := sha256.Sum256(r.Raw)
	kept := []byte(r.Raw)
	if len(kept) > MaxResult {
		kept = nil
	}
	return l.end(ctx, key, `UPDATE calls SET state = ?, ended = ?, is_error = ?, result = ?, ref = ?, sha256 = ?, size = ? WHERE key = ? AND state = ?`,
		Completed, l.now().UnixMilli(), r.IsError, kept, []byte(r.Ref), hex.EncodeToString(sum[:]), len(r.Raw), key, InFlight)
}

// Fail records a failure: failed or unknown, as the fault's outcome says.
func (l *Ledger) Fail(ctx context.Context, key string, f *fault.Error) error {
	state := Failed
	if f.Outcome == fault.OutcomeUnknown {
		state = Unknown
	}
	b, err := json.Marshal(f)
	if err != nil {
		b = nil // the state is worth more than the words
	}
	return l.end(ctx, key, "UPDATE calls SET state = ?, ended = ?, fault = ? WHERE key = ? AND state = ?",
		state, l.now().UnixMilli(), b, key, InFlight)
}

// Release forgets a call that was begun and certainly not sent: its key is as
// good as new.
func (l *Ledger) Release(ctx context.Context, key string) error {
	return l.end(ctx, key, "DELETE FROM calls WHERE key = ? AND state = ?", key, InFlight)
}

func (l *Ledger) end(ctx context.Context, key, query string, args ...any) error {
	defer l.landed(key)
	res, err := l.db.ExecContext(context.WithoutCancel(ctx), query, args...)
	if err != nil {
		return fmt.Errorf("recording a call's end: %w", err)
	}
	if n, err := res.RowsAffected(); err == nil && n != 1 {
		return fmt.Errorf("recording a call's end: none is in flight under that key")
	}
	return nil
}

// Find is the entry of a key, or nil.
func (l *Ledger) Find(ctx context.Context, key string) (*Entry, error) {
	l.mu.Lock()
	running := l.running(key)
	l.mu.Unlock()
	if running != nil {
		return running, nil
	}
	e, err := l.entry(ctx, key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking up a call: %w", err)
	case e.State == InFlight:
		e.State = Unknown // its end could not be written
	}
	return &e, nil
}

func (l *Ledger) entry(ctx context.Context, key string) (Entry, error) {
	var e Entry
	var started, ended int64
	var failure, result, ref []byte // may be NULL
	err := l.db.QueryRowContext(ctx, `SELECT key, state, call_id, server, tool, hash, risk, started, ended, is_error, fault, result, ref, sha256, size
		FROM calls WHERE key = ?`, key).Scan(&e.Key, &e.State, &e.CallID, &e.Server, &e.Tool, &e.Hash, &e.Risk,
		&started, &ended, &e.IsError, &failure, &result, &ref, &e.SHA256, &e.Size)
	if err != nil {
		return e, err
	}
	e.Started = time.UnixMilli(started).UTC()
	if ended > 0 {
		e.Ended = time.UnixMilli(ended).UTC()
	}
	if len(result) > 0 {
		e.Result = result
	}
	if len(ref) > 0 {
		e.Ref = ref
	}
	if len(failure) > 0 {
		if err := json.Unmarshal(failure, &e.Fault); err != nil {
			return e, fmt.Errorf("reading the fault of %s: %w", key, err)
		}
	}
	return e, nil
}

// Prune forgets what is older than Options.Keep, and the oldest beyond
// Options.MaxEntries. It also runs by itself from time to time.
func (l *Ledger) Prune(ctx context.Context) error {
	l.mu.Lock()
	keep, most := l.keep, l.most
	l.mu.Unlock()
	_, err := l.db.ExecContext(context.WithoutCancel(ctx), `DELETE FROM calls WHERE state <> ?1 AND (started < ?2 OR key IN
		(SELECT key FROM calls ORDER BY started DESC, rowid DESC LIMIT -1 OFFSET ?3))`,
		InFlight, l.now().Add(-keep).UnixMilli(), most)
	if err != nil {
		return fmt.Errorf("pruning the ledger: %w", err)
	}
	return nil
}
