// Package approval keeps the questions that people are asked before a call is
// made, and their answers.
//
//	desk, err := approval.Open(ctx, db, approval.Options{Redact: redactor})
//	a, granted, err := desk.Ask(ctx, approval.Question{Call: call, Arguments: args, Reason: why})
//	err = desk.Approve(ctx, a.ID, approval.Once, "anna")
//	a, err = desk.Wait(ctx, a.ID)
//	a, err = desk.Use(ctx, a.ID, call)     // at most one caller gets here
//
// A question is bound to a server, a tool, the tool's definition, the SHA-256 of
// the canonical arguments and the reasons for asking. Its answer is good for
// exactly that call: for one, until the platform ends (session), or until it is
// revoked (always).
//
//	pending ─▶ approved ─▶ used        once
//	   │          └──────▶ revoked     session, always
//	   ├─────▶ denied                  also answers the same question until it expires
//	   └─────▶ expired                 and so does an approval that nobody used
//
// Everything is in the database before it is told: an answer survives kill -9,
// and an approval that was used once is not used again after it. Arguments are
// kept with secrets removed and cut where they are long. The package asks nobody
// itself: it tells those who look.
package approval

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// State is where a question stands.
type State string

const (
	Pending  State = "pending"
	Approved State = "approved"
	Used     State = "used"
	Denied   State = "denied"
	Expired  State = "expired"
	Revoked  State = "revoked"
)

// States are all of them.
var States = []State{Pending, Approved, Used, Denied, Expired, Revoked}

// Scope is what an approval is good for.
type Scope string

const (
	Once    Scope = "once"    // one call
	Session Scope = "session" // the same call until the platform ends
	Always  Scope = "always"  // the same call until it is revoked
)

var (
	// ErrNotFound is wrapped where there is no such approval.
	ErrNotFound = errors.New("no such approval")
	// ErrDecided is wrapped where the question is not open any more.
	ErrDecided = errors.New("the approval is not open")
	// ErrOther is wrapped where an approval is for another call.
	ErrOther = errors.New("the approval is for another call")
)

const (
	// MaxArguments is how many bytes of a call's arguments are kept to be shown.
	MaxArguments = 64 << 10
	// MaxHistory is how many closed questions are kept.
	MaxHistory = 500

	maxNote  = 1000
	forEver  = int64(1) << 62
	sweepAll = 64 // questions between two looks at the history
)

// Call is what an approval is bound to.
type Call struct {
	Server     string `json:"server"`
	Tool       string `json:"tool"`       // the server's own name
	Hash       string `json:"hash"`       // SHA-256 of the canonical arguments
	Definition string `json:"definition"` // hash of the tool's definition
	Causes     uint8  `json:"-"`          // why a person is asked, as bits
}

// Question is what a person is asked.
type Question struct {
	Call
	Arguments json.RawMessage // as the caller gave them
	Reason    string
	Risk      string
	Entrance  string
	CallID    string
}

// Approval is a question and what came of it.
type Approval struct {
	ID    string `json:"id"` // a ULID: later questions sort later
	State State  `json:"state"`
	Scope Scope  `json:"scope,omitempty"`
	Call
	// Arguments have their secrets removed and are not made safe to print. Where
	// Cut is set they were too long, and are the beginning of their text as one
	// JSON string.
	Arguments json.RawMessage `json:"arguments"`
	Cut       bool            `json:"arguments_cut,omitempty"`
	Size      int64           `json:"arguments_size"` // of the arguments as they came, bytes
	Reason    string          `json:"reason"`
	Risk      string          `json:"risk"`
	Entrance  string          `json:"entrance,omitempty"`
	CallID    string          `json:"call_id,omitempty"` // of the call that asked first
	Actor     string          `json:"actor,omitempty"`   // who answered; Somebody where no name was given
	Note      string          `json:"note,omitempty"`    // what they said
	Created   time.Time       `json:"created"`
	Expires   time.Time       `json:"expires,omitzero"` // zero where it does not
	Decided   time.Time       `json:"decided,omitzero"`
}

// Options say how a Desk works.
type Options struct {
	// Redact takes secrets out of a JSON value and keeps it JSON. nil keeps all.
	Redact func(json.RawMessage) json.RawMessage
	// Expire is how long a question waits, and how long an unused answer is
	// good for. Zero is ten minutes.
	Expire time.Duration
	// MaxPending bounds the open questions; more are refused. Zero is 256.
	MaxPending int
	Logger     *slog.Logger     // nil discards
	Now        func() time.Time // nil is the real clock
}

// Desk is where questions lie. It is safe for concurrent use.
type Desk struct {
	db     *sql.DB
	redact func(json.RawMessage) json.RawMessage
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	expire  time.Duration
	pending int
	asked   int
	waiters map[string]*waiter
}

// waiter wakes those who wait for one answer. It lives while there are some.
type waiter struct {
	changed chan struct{} // closed and replaced at every change
	count   int
}

// Open takes up the questions of a database of package policy. Approvals for the
// session of an earlier process expire.
func Open(ctx context.Context, db *sql.DB, o Options) (*Desk, error) {
	d := &Desk{db: db, redact: o.Redact, log: o.Logger, now: o.Now, waiters: map[string]*waiter{}}
	if d.redact == nil {
		d.redact = func(b json.RawMessage) json.RawMessage { return b }
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.now == nil {
		d.now = time.Now
	}
	d.Configure(o.Expire, o.MaxPending)
	_, err := db.ExecContext(ctx, "UPDATE approvals SET state = ?, decided = ? WHERE state = ? AND scope = ?", Expired, d.now().UnixMilli(), Approved, Session)
	if err != nil {
		return nil, fmt.Errorf("ending the approvals of the last session: %w", err)
	}
	return d, nil
}

// Configure sets Options.Expire and Options.MaxPending for questions to come.
func (d *Desk) Configure(expire time.Duration, maxPending int) {
	if expire <= 0 {
		expire = 10 * time.Minute
	}
	if maxPending <= 0 {
		maxPending = 256
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire, d.pending = expire, maxPending
}

// Ask finds the answer to a question, or lays it open. granted reports that the
// call may be made now; an approval for one call was then used by this. Else the
// approval is pending, or it is a denial that still holds. The same question is
// open only once, however many callers ask it. A full desk is a fault.Busy.
func (d *Desk) Ask(ctx context.Context, q Question) (a Approval, granted bool, err error) {
	err = d.change(ctx, "asking for an approval", func(t *tx) error {
		standing, err := t.find(q.Call)
		if err != nil {
			return err
		}
		if standing != nil {
			a = *standing
			granted, err = t.take(&a)
			return err
		}
		a, err = t.insert(q, d)
		return err
	})
	return a, granted && err == nil, err
}

// Grant answers a question with yes in the moment it is asked, for one call that is
// made by who may approve it: actor. The answer is used by that, and kept as any.
// An answer that stands comes first: an approval is used, a denial holds. The same
// question where it is open stays so, for whoever waits for its answer.
func (d *Desk) Grant(ctx context.Context, q Question, actor string) (a Approval, granted bool, err error) {
	err = d.change(ctx, "approving a call", func(t *tx) error {
		standing, err := t.find(q.Call)
		if err != nil {
			return err
		}
		if standing != nil && standing.State != Pending {
			a = *standing
			granted, err = t.take(&a)
			return err
		}
		if a, err = t.add(q, d); err != nil {
			return err
		}
		granted = true
		a.State, a.Scope, a.Actor, a.Decided = Used, Once, who(actor), t.at
		return t.update(&a)
	})
	return a, granted && err == nil, err
}

// Use takes the approval id for a call. It is the only way to use one, and it
// succeeds once where the scope is once. It fails with ErrOther where anything
// of the call is not what was asked about, and with ErrDecided where the
// approval is in any other state; the approval is returned all the same.
func (d *Desk) Use(ctx context.Context, id string, c Call) (a Approval, err error) {
	err = d.change(ctx, "using an approval", func(t *tx) error {
		if a, err = t.get(id); err != nil {
			return err
		}
		if !a.covers(c) {
			return fmt.Errorf("%s: %w", id, ErrOther)
		}
		granted, err := t.take(&a)
		if err == nil && !granted {
			err = fmt.Errorf("%s is %s: %w", id, a.State, ErrDecided)
		}
		return err
	})
	return a, err
}

// covers reports whether an answer to a is one to a question about c.
func (a *Approval) covers(c Call) bool {
	asked := a.Call
	if c.Causes&^asked.Causes != 0 {
		return false // there is a reason to ask that the person was not told
	}
	asked.Causes = c.Causes
	return asked == c
}

// Wait returns when the approval is not pending any more, or with ctx's error
// and the approval as it is when ctx ends.
func (d *Desk) Wait(ctx context.Context, id string) (Approval, error) {
	d.mu.Lock()
	w := d.waiters[id]
	if w == nil {
		w = &waiter{changed: make(chan struct{})}
		d.waiters[id] = w
	}
	w.count++
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if w.count--; w.count == 0 {
			delete(d.waiters, id)
		}
	}()
	for {
		d.mu.Lock()
		changed := w.changed
		d.mu.Unlock()
		a, err := d.Show(context.WithoutCancel(ctx), id)
		if err != nil || a.State != Pending {
			return a, err
		}
		timer := time.NewTimer(a.Expires.Sub(d.now()) + time.Millisecond)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a, ctx.Err()
		}
		timer.Stop()
	}
}

func (d *Desk) wake(ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if w := d.waiters[id]; w != nil {
			close(w.changed)
			w.changed = make(chan struct{})
		}
	}
}

// Approve answers a pending question with yes.
func (d *Desk) Approve(ctx context.Context, id string, scope Scope, actor string) (Approval, error) {
	if scope != Once && scope != Session && scope != Always {
		return Approval{}, fault.New(fault.InvalidArguments, "an approval is for once, session or always, not for %.20q", string(scope))
	}
	return d.decide(ctx, id, Approved, scope, actor, "")
}

// Deny answers a pending question with no. Until the question would have
// expired the same one is denied without asking again.
func (d *Desk) Deny(ctx context.Context, id, actor, reason string) (Approval, error) {
	return d.decide(ctx, id, Denied, "", actor, reason)
}

func (d *Desk) decide(ctx context.Context, id string, state State, scope Scope, actor, note string) (a Approval, err error) {
	err = d.change(ctx, "answering an approval", func(t *tx) error {
		if a, err = t.get(id); err != nil {
			return err
		}
		if a.State != Pending {
			return fmt.Errorf("%s is %s: %w", id, a.State, ErrDecided)
		}
		a.State, a.Scope, a.Actor, a.Note, a.Decided = state, scope, who(actor), clip(note), t.at
		switch scope {
		case Session, Always:
			a.Expires = time.Time{}
		default:
			a.Expires = t.at.Add(t.expire)
		}
		return t.update(&a)
	})
	if err == nil {
		d.log.Info("an approval was answered", "approval", id, "state", a.State, "scope", a.Scope, "server", a.Server, "tool", a.Tool, "actor", a.Actor)
	}
	return a, err
}

// Revoke takes an answer back: an approval is not good any more, a denial does
// not hold any more, an open question is closed.
func (d *Desk) Revoke(ctx context.Context, id, actor string) (a Approval, err error) {
	err = d.change(ctx, "revoking an approval", func(t *tx) error {
		if a, err = t.get(id); err != nil {
			return err
		}
		if a.State != Pending && a.State != Approved && a.State != Denied {
			return fmt.Errorf("%s is %s: %w", id, a.State, ErrDecided)
		}
		a.State, a.Actor, a.Decided = Revoked, who(actor), t.at
		return t.update(&a)
	})
	if err == nil {
		d.log.Info("an approval was revoked", "approval", id, "server", a.Server, "tool", a.Tool, "actor", a.Actor)
	}
	return a, err
}

// Show is one approval.
func (d *Desk) Show(ctx context.Context, id string) (a Approval, err error) {
	err = d.change(ctx, "showing an approval", func(t *tx) error {
		a, err = t.get(id)
		return err
	})
	return a, err
}

// List is the approvals in any of the given states, or all, the latest first.
func (d *Desk) List(ctx context.Context, states ...State) (list []Approval, err error) {
	err = d.change(ctx, "listing approvals", func(t *tx) error {
		list, err = t.list(states)
		return err
	})
	return list, err
}

// Somebody is the actor who gave no name.
const Somebody = "somebody"

func who(actor string) string { return cmp.Or(clip(actor), Somebody) }

func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxNote)], "")
}

func newID(at time.Time) string {
	return ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String()
}
