// Package natsbus is the bus between machines: a journal, and a JetStream stream
// that is filled from it.
//
//	b, err := natsbus.Open(ctx, natsbus.Options{
//		URLs:    []string{"nats://nats.example.org"},
//		Creds:   "platform.creds",
//		Prefix:  "aurora.kitchen", // this machine's own
//		Journal: journal.Options{Dir: "data/journal-nats"},
//	})
//	receipts, err := b.Publish(ctx, bus.Item{Envelope: e}) // durable in the journal
//	err = b.Close()                                        // and in the stream
//
// Publish gives ids and seqs, drops duplicates, and returns when the journal is
// synced, whether NATS is there or not. One goroutine, the forwarder, ships the
// journal to the stream in its order, and repeats nothing and leaves nothing out
// through any outage of NATS and any crash of the platform; docs/design/nats.md
// says how.
//
// An envelope is one message, its body the JSON of the envelope:
//
//	subject          PREFIX.TYPE, such as aurora.kitchen.message.received
//	Nats-Msg-Id      header.message_id
//	Aurora-Position  its position in the journal of the platform that sent it
//	Nats-TTL         until payload.expire_at, where it has one, in whole seconds
//
// A rejected event is a message on PREFIX.rejected; an envelope whose type is
// "rejected" has the subject PREFIX._rejected.
//
// A Brain, in any language, reads the stream with a durable pull consumer that
// acknowledges explicitly; docs/nats-consumer.md has one to copy. This package
// does not consume. It needs nats-server 2.12 or later.
package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/journal"
)

// ErrClosed says that the bus was closed.
var ErrClosed = errors.New("nats bus is closed")

// Counters count since Open, except the last two, which are what is now.
type Counters struct {
	Accepted  int64 // durable and for the Brain
	Recorded  int64 // durable and only for the journal
	Duplicate int64
	Expired   int64 // recorded, not delivered
	Rejected  int64
	Delivered int64 // messages the stream acknowledged

	Backlog int64 // records of the journal that were not forwarded yet
	IDs     int64 // ids remembered
}

// State is whether events get through.
type State struct {
	Err   error     // why not; nil when all is well
	Since time.Time // of the last change
}

// Bus is an open bus over JetStream; it is a [bus.Bus].
type Bus struct {
	opt     Options
	journal *journal.Journal
	ids     amp.IDs
	link    *link

	mu       sync.Mutex
	closed   bool
	inFlight sync.WaitGroup
	problems []string
	state    State
	progress chan struct{} // closed when the forwarder got on

	forwarder *forwarder
	stop      context.CancelCauseFunc
	closing   chan struct{}
	owned     sync.WaitGroup

	accepted, recorded, duplicate, expired, rejected, delivered atomic.Int64
}

var _ bus.Bus = (*Bus)(nil)

// Open opens or creates the journal and begins to forward. It fails for wrong
// options and a journal that cannot be opened, not for a NATS that is away:
// State says so, and it is tried again in the background. ctx is for Open alone,
// which waits for the first attempt to connect, up to 2 s for each URL.
func Open(ctx context.Context, opt Options) (_ *Bus, err error) {
	if err := opt.complete(); err != nil {
		return nil, fmt.Errorf("opening nats bus: %w", err)
	}
	j, err := journal.Open(opt.Journal)
	if err != nil {
		return nil, err
	}
	b := &Bus{opt: opt, journal: j, state: State{errConnecting, time.Now()},
		progress: make(chan struct{}), closing: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("opening nats bus: %w", err), j.Close())
		}
	}()
	for _, d := range j.Damage() {
		b.problem("journal: " + d.String())
	}
	if _, last := j.End(); !last.IsZero() {
		b.ids.After(last)
	}
	if b.forwarder, err = newForwarder(b); err != nil {
		return nil, err
	}
	if b.link, err = connect(opt, b.setState); err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		b.link.close()
		return nil, errors.Join(err, b.forwarder.close(false))
	}
	life, stop := context.WithCancelCause(context.Background())
	b.stop = stop
	b.owned.Go(func() { b.forwarder.run(life) })
	return b, nil
}

// Publish makes items durable; see [bus.Bus]. An id that another app's event
// has already is replaced by the UUIDv5 of the app and that id ([amp.Remint]),
// and an id is put in its canonical form ([amp.CanonicalID]). The receipt of a
// duplicate has no seq. An envelope larger than MaxMessage is refused with
// [journal.ErrTooLarge]. While MaxLag records wait for NATS, Publish blocks.
func (b *Bus) Publish(ctx context.Context, items ...bus.Item) ([]bus.Receipt, error) {
	drafts, toBrain := make([]draft, len(items)), false
	for i, item := range items {
		d, err := newDraft(item, b.opt.MaxMessage)
		if err != nil {
			return nil, err
		}
		drafts[i] = d
		toBrain = toBrain || item.Route == bus.Inbox
	}
	if !b.enter() {
		return nil, ErrClosed
	}
	defer b.inFlight.Done()
	if toBrain {
		if err := b.waitForRoom(ctx); err != nil {
			return nil, err
		}
	}
	err := b.append(ctx, func(q journal.Queue) (last uint64, err error) {
		for i := range drafts {
			if err := drafts[i].enqueue(q, &b.ids); err != nil {
				return 0, err
			}
			last = max(last, drafts[i].pos)
		}
		return last, nil
	})
	if err != nil {
		return nil, err
	}
	receipts := make([]bus.Receipt, len(drafts))
	for i := range drafts {
		receipts[i] = drafts[i].receipt
		b.count(&drafts[i])
	}
	return receipts, nil
}

// append adds to the journal what build says, and waits until it is durable.
func (b *Bus) append(ctx context.Context, build func(journal.Queue) (last uint64, err error)) error {
	var last uint64
	err := b.journal.Append(ctx, func(q journal.Queue) (err error) {
		last, err = build(q)
		return err
	})
	if err == nil {
		err = b.journal.Wait(ctx, last)
	}
	return b.explain(err)
}

func (b *Bus) count(d *draft) {
	switch {
	case d.receipt.Status == bus.Duplicate:
		b.duplicate.Add(1)
	case d.receipt.Status == bus.Expired:
		b.expired.Add(1)
	case d.route == bus.Journal:
		b.recorded.Add(1)
	default:
		b.accepted.Add(1)
	}
}

// maxRaw bounds what is kept of one rejected event; more is cut. As a JSON
// string it grows to six times its size at most.
const maxRaw = 128 << 10

// Reject keeps r: it is durable in the journal when Reject returns, and goes to
// the subject PREFIX.rejected of the stream. The name is its Nats-Msg-Id.
func (b *Bus) Reject(ctx context.Context, r bus.Rejected) (string, error) {
	if !b.enter() {
		return "", ErrClosed
	}
	defer b.inFlight.Done()
	if limit := min(maxRaw, b.opt.MaxMessage/8); len(r.Raw) > limit || !json.Valid(r.Raw) || !utf8.Valid(r.Raw) {
		text := string(r.Raw[:min(len(r.Raw), limit)])
		if len(r.Raw) > limit {
			text += "… (cut)"
		}
		r.Raw, _ = json.Marshal(strings.ToValidUTF8(text, "\uFFFD")) // a string always marshals
	}
	body, err := json.Marshal(struct {
		Time amp.Timestamp `json:"time"`
		bus.Rejected
	}{amp.Now(), r})
	if err != nil {
		return "", err
	}
	if len(body) > b.opt.MaxMessage {
		return "", fmt.Errorf("rejecting an event of %.60q: %w", r.Source.App, journal.ErrTooLarge)
	}
	if err := b.waitForRoom(ctx); err != nil {
		return "", err
	}
	var name string
	err = b.append(ctx, func(q journal.Queue) (uint64, error) {
		name = b.ids.New()
		return q.Add(journal.Record{Kind: journal.Deliver, Key: journal.KeyOf(name), Name: rejectedToken + " " + name, Body: body})
	})
	if err != nil {
		return "", err
	}
	b.rejected.Add(1)
	return name, nil
}

// enter counts a call in, unless the bus is closed.
func (b *Bus) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.inFlight.Add(1)
	}
	return !b.closed
}

// waitForRoom holds a publisher back while too many records wait for NATS.
func (b *Bus) waitForRoom(ctx context.Context) error {
	for {
		progress := b.watch()
		if b.backlog() < int64(b.opt.MaxLag) {
			return nil
		}
		select {
		case <-progress:
		case <-b.closing:
			return ErrClosed
		case <-ctx.Done():
			return b.explain(context.Cause(ctx))
		}
	}
}

func (b *Bus) watch() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.progress
}

// advanced tells everyone that the forwarder got to pos.
func (b *Bus) advanced(pos uint64) {
	b.journal.Delivered(pos)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.progress)
	b.progress = make(chan struct{})
}

func (b *Bus) backlog() int64 {
	end, _ := b.journal.End()
	return int64(end) - int64(b.forwarder.forwarded.Load())
}

// explain adds why nothing moves to the error of a call that gave up waiting.
func (b *Bus) explain(err error) error {
	if err == nil {
		return nil
	}
	switch s := b.State(); {
	case errors.Is(err, journal.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case s.Err != nil && !errors.Is(err, journal.ErrDegraded):
		return fmt.Errorf("%w: nats bus is degraded: %w", err, s.Err)
	}
	return err
}

// State is whether events are made durable and reach the stream. While only
// NATS is away, Publish goes on until MaxLag records wait. It resumes by itself.
func (b *Bus) State() State {
	if s := b.journal.State(); s.Err != nil {
		return State{fmt.Errorf("journal: %w", s.Err), s.Since}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

func (b *Bus) setState(err error) {
	b.mu.Lock()
	was := b.state.Err
	if (was == nil) != (err == nil) {
		b.state.Since = time.Now()
	}
	b.state.Err = err
	b.mu.Unlock()
	switch {
	case (was == nil || was == errConnecting) && err != nil:
		b.opt.Logger.Error("nats bus degraded", "cause", err, "backlog", b.backlog())
	case was != nil && err == nil:
		b.opt.Logger.Info("nats bus delivers", "server", b.link.server(), "backlog", b.backlog())
	}
}

// Problems lists what was found wrong with the journal, the checkpoint and the
// stream, and put right where that was possible. It is for people.
func (b *Bus) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.problems...)
}

const maxProblems = 100

func (b *Bus) problem(text string) {
	b.opt.Logger.Warn("nats bus", "problem", text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) < maxProblems {
		b.problems = append(b.problems, text)
	}
}

// Counters counts what became of events.
func (b *Bus) Counters() Counters {
	ids, _ := b.journal.IDs()
	return Counters{Accepted: b.accepted.Load(), Recorded: b.recorded.Load(), Duplicate: b.duplicate.Load(),
		Expired: b.expired.Load(), Rejected: b.rejected.Load(), Delivered: b.delivered.Load(),
		Backlog: b.backlog(), IDs: int64(ids)}
}

// Journal is the journal of the bus, for readers.
func (b *Bus) Journal() *journal.Journal { return b.journal }

// Close waits until the stream has what was accepted, then frees everything.
// When NATS does not allow that within CloseTimeout, the error says how much is
// left: it is in the journal and is sent after the next Open.
func (b *Bus) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	close(b.closing)
	b.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), b.opt.CloseTimeout)
	defer cancel()
	drained := make(chan struct{})
	go func() { // ends with the journal at the latest
		b.inFlight.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-ctx.Done():
	}
	left, state := b.drain(ctx), b.State().Err
	b.stop(ErrClosed)
	b.owned.Wait()
	b.link.close()
	err := errors.Join(b.forwarder.close(left == 0), b.journal.Close())
	<-drained
	if left > 0 {
		err = errors.Join(fmt.Errorf("closing nats bus: %d records are in the journal and are sent after the next start", left), state, err)
	}
	return err
}

// drain waits until everything in the journal is forwarded, and returns how much is not.
func (b *Bus) drain(ctx context.Context) int64 {
	for {
		progress := b.watch()
		left := b.backlog()
		if left == 0 {
			return 0
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return left
		}
	}
}
