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
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/admit"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/natsbus/internal/stream"
)

// ErrClosed says that the bus was closed.
var ErrClosed = errors.New("nats bus is closed")

// PositionHeader is the header of each message that holds its position in the
// journal of the platform that sent it. It rises along each platform's messages.
const PositionHeader = stream.PositionHeader

var errConnecting = errors.New("connecting to NATS")

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
type State = admit.State

// Bus is an open bus over JetStream; it is a [bus.Bus].
type Bus struct {
	opt     Options
	journal *journal.Journal
	desk    *admit.Desk
	door    *admit.Door
	link    *stream.Link

	health   *admit.Health
	progress admit.Progress // of the forwarder

	forwarder *forwarder
	stop      context.CancelCauseFunc
	owned     sync.WaitGroup

	late, rejected, delivered atomic.Int64 // late: expired before they were sent
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
	b := &Bus{opt: opt, journal: j, health: admit.NewHealth(errConnecting),
		desk: admit.NewDesk(j, opt.MaxMessage, stream.RecordName), door: admit.NewDoor()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("opening nats bus: %w", err), j.Close())
		}
	}()
	for _, d := range j.Damage() {
		b.problem("journal: " + d.String())
	}
	if b.forwarder, err = newForwarder(b); err != nil {
		return nil, err
	}
	if b.link, err = stream.Connect(opt.stream(), b.setState); err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		b.link.Close(ErrClosed)
		return nil, errors.Join(err, b.forwarder.close(false))
	}
	life, stop := context.WithCancelCause(context.Background())
	b.stop = stop
	b.owned.Go(func() { b.forwarder.run(life) })
	return b, nil
}

// Publish makes items durable; see [bus.Bus] and [admit.Desk.Admit]. An envelope
// larger than MaxMessage is refused with [journal.ErrTooLarge]. While MaxLag
// records wait for NATS, it blocks.
func (b *Bus) Publish(ctx context.Context, items ...bus.Item) ([]bus.Receipt, error) {
	drafts, err := b.desk.Check(items)
	if err != nil {
		return nil, err
	}
	if !b.door.Enter() {
		return nil, ErrClosed
	}
	defer b.door.Leave()
	if drafts.ToBrain {
		if err := b.waitForRoom(ctx); err != nil {
			return nil, err
		}
	}
	receipts, err := b.desk.Admit(ctx, drafts)
	return receipts, b.explain(err)
}

// maxRaw bounds what is kept of one rejected event; more is cut. As a JSON
// string it grows to six times its size at most.
const maxRaw = 128 << 10

// Reject keeps r: it is durable in the journal when Reject returns, and goes to
// the subject PREFIX.rejected of the stream. The name is its Nats-Msg-Id.
func (b *Bus) Reject(ctx context.Context, r bus.Rejected) (string, error) {
	if !b.door.Enter() {
		return "", ErrClosed
	}
	defer b.door.Leave()
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
	var pos uint64
	err = b.journal.Append(ctx, func(q journal.Queue) (err error) {
		name = b.desk.NewID()
		pos, err = q.Add(segment.Record{Kind: segment.Deliver, Key: segment.KeyOf(name), Name: stream.Rejected + " " + name, Body: body})
		return err
	})
	if err == nil {
		err = b.journal.Wait(ctx, pos)
	}
	if err != nil {
		return "", b.explain(err)
	}
	b.rejected.Add(1)
	return name, nil
}

// waitForRoom holds a publisher back while too many records wait for NATS.
func (b *Bus) waitForRoom(ctx context.Context) error {
	room := func() bool { return b.backlog() < int64(b.opt.MaxLag) }
	switch {
	case room() || b.progress.Wait(ctx, b.door.Closing(), room):
		return nil
	case ctx.Err() != nil:
		return b.explain(context.Cause(ctx))
	}
	return ErrClosed
}

// advanced tells everyone that the forwarder got to pos.
func (b *Bus) advanced(pos uint64) {
	b.journal.Delivered(pos)
	b.progress.Announce()
}

func (b *Bus) backlog() int64 {
	end, _ := b.journal.End()
	return int64(end) - int64(b.forwarder.forwarded.Load())
}

// explain adds why nothing moves to the error of a call that gave up waiting.
func (b *Bus) explain(err error) error { return b.State().Explain(err, "nats bus", ErrClosed) }

// State is whether events are made durable and reach the stream. While only
// NATS is away, Publish goes on until MaxLag records wait. It resumes by itself.
func (b *Bus) State() State { return b.health.State(b.journal) }

func (b *Bus) setState(err error) {
	was := b.health.Set(err)
	switch {
	case (was == nil || was == errConnecting) && err != nil:
		b.opt.Logger.Error("nats bus degraded", "cause", err, "backlog", b.backlog())
	case was != nil && err == nil:
		b.opt.Logger.Info("nats bus delivers", "server", b.link.Server(), "backlog", b.backlog())
	}
}

// Problems lists what was found wrong with the journal, the checkpoint and the
// stream, and put right where that was possible. It is for people.
func (b *Bus) Problems() []string { return b.health.Problems() }

func (b *Bus) problem(text string) {
	b.opt.Logger.Warn("nats bus", "problem", text)
	b.health.Note(text)
}

// Counters counts what became of events.
func (b *Bus) Counters() Counters {
	ids, _ := b.journal.IDs()
	admitted := b.desk.Counts()
	return Counters{Accepted: admitted.Accepted, Recorded: admitted.Recorded, Duplicate: admitted.Duplicate,
		Expired: admitted.Expired + b.late.Load(), Rejected: b.rejected.Load(), Delivered: b.delivered.Load(),
		Backlog: b.backlog(), IDs: int64(ids)}
}

// Journal is the journal of the bus, for readers.
func (b *Bus) Journal() *journal.Journal { return b.journal }

// Close is Shutdown within CloseTimeout.
func (b *Bus) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), b.opt.CloseTimeout)
	defer cancel()
	return b.Shutdown(ctx)
}

// Shutdown waits until the stream has what was accepted, then frees everything.
// What it does not have when ctx ends is a [bus.Backlog]: it is in the journal and
// is sent after the next Open.
func (b *Bus) Shutdown(ctx context.Context) error {
	if !b.door.Close() {
		return nil
	}
	left := b.door.Left() // with the journal at the latest
	select {
	case <-left:
	case <-ctx.Done():
	}
	b.progress.Wait(ctx, nil, func() bool { return b.backlog() == 0 })
	unsent, cause := b.backlog(), b.State().Err
	b.stop(ErrClosed)
	b.owned.Wait()
	b.link.Close(ErrClosed)
	err := errors.Join(b.forwarder.close(unsent == 0), b.journal.Close())
	<-left
	if unsent > 0 {
		err = (&bus.Backlog{Records: unsent, Cause: cause}).With(err)
	}
	return err
}
