// Package bridge turns what the platform observed into AMP envelopes and hands
// them to a bus: the AMPCompatibilityBridge, or EventBridge, of the protocol's
// documents. A server needs to know nothing of AMP for that; one that does may
// send aurora/event and is answered with the fate of each event.
//
//	signal → normalise → own the source → redact → artifact if large → validate → Bus.Publish → Ack
//
// Every server has a lane of its own: its signals keep their order, are
// published in batches, and hold back only their own source when the bus is
// slow. What no Brain acts on may wait some milliseconds for what follows it, and
// a busy lane publishes what has gathered once in five: to wake somebody for every
// signal would cost more than all the rest. What somebody waits for,
// and what comes after a silence, goes out at once. The bridge knows nothing of
// processes and sessions.
package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/internal/large"
	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// PlatformApp is the source of envelopes that speak of no single server.
const PlatformApp = "aurora.platform"

const (
	defaultLane    = 1024      // signals waiting per server
	defaultBatch   = 256       // signals published at once
	defaultMaxData = 256 << 10 // bytes of payload.data
	retryPause     = 500 * time.Millisecond
)

// Options say how a Bridge works. Bus is required.
type Options struct {
	Bus    bus.Bus
	Logger *slog.Logger // nil discards
	// Redact takes secrets out of a JSON value and keeps it JSON. nil keeps all.
	Redact func([]byte) []byte
	// RedactText does the same for plain text. nil does it by way of Redact.
	RedactText func(string) string
	// Store keeps data that is too large for an envelope. An envelope is published
	// only once the store has its data; until then Put is tried again, unless its
	// error is artifact.ErrTooLarge, which cuts the data. nil cuts all.
	Store Store
	// MaxData is the largest payload.data in bytes; larger data becomes a
	// preview and an artifact. Zero means 256 KiB.
	MaxData int
	// Routes overrides, by payload type or by a prefix that ends in ".*",
	// whether an envelope reaches the Brain or only the journal.
	Routes map[string]bus.Route
	// LaneSize is how many signals of one server may wait. Zero means 1024.
	LaneSize int
}

// Store keeps large data; *artifact.Store behind an adapter is one.
type Store = large.Store

// Counts are totals since the bridge was made.
type Counts struct {
	Accepted, Duplicate, Rejected, Expired int64
	Waiting                                int64 // signals in lanes now
}

// Bridge is a signal.Sink that publishes envelopes. Make it with New.
type Bridge struct {
	o      Options
	ctx    context.Context // ends when Close gives up
	cancel context.CancelFunc
	large  *large.Keeper

	mu     sync.Mutex
	lanes  map[string]*lane
	closed bool
	work   sync.WaitGroup // goroutines of lanes

	accepted, duplicate, rejected, expired, waiting atomic.Int64
}

// New makes a Bridge.
func New(o Options) *Bridge {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Redact == nil && o.RedactText == nil:
		o.RedactText = func(s string) string { return s }
	case o.RedactText == nil:
		o.RedactText = byWayOf(o.Redact)
	}
	if o.Redact == nil {
		o.Redact = func(b []byte) []byte { return b }
	}
	if o.MaxData <= 0 {
		o.MaxData = defaultMaxData
	}
	if o.LaneSize <= 0 {
		o.LaneSize = defaultLane
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Bridge{o: o, ctx: ctx, cancel: cancel, large: large.New(o.MaxData, o.Store, o.Logger), lanes: make(map[string]*lane)}
}

// ErrClosed is what Observe returns after Close.
var ErrClosed = errors.New("the bridge is closed")

// byWayOf is text redacted as a JSON string.
func byWayOf(redact func([]byte) []byte) func(string) string {
	return func(s string) string {
		var clean string
		if err := json.Unmarshal(redact(jsontext.Quote(s)), &clean); err != nil {
			return ""
		}
		return clean
	}
}

// origin is who is told of an envelope's fate.
type origin struct {
	ack func(signal.Ack)
	id  string // as the app gave it
}

// publish turns a batch into envelopes and sees them through the bus. It gives
// up only when the bridge is closed for good.
func (b *Bridge) publish(batch []signal.Signal) {
	var items []bus.Item
	var origins []origin
	for i := range batch {
		items, origins = b.add(items, origins, &batch[i])
	}
	if err := b.ctx.Err(); err != nil { // large data of an envelope may not be in the store
		b.o.Logger.Error("closing with unpublished envelopes", "count", len(items), "error", err)
		return
	}
	for len(items) > 0 {
		receipts, err := b.o.Bus.Publish(b.ctx, items...)
		for i, r := range receipts {
			b.settle(&origins[i], r, len(items[i].Before))
		}
		items, origins = items[len(receipts):], origins[len(receipts):]
		if err == nil && len(items) > 0 {
			err = fmt.Errorf("the bus answered %d of %d envelopes", len(receipts), len(receipts)+len(items))
		}
		if err == nil {
			continue
		}
		if b.ctx.Err() != nil {
			b.o.Logger.Error("closing with unpublished envelopes", "count", len(items), "error", err)
			return
		}
		b.o.Logger.Error("publishing failed, trying again", "error", err, "count", len(items))
		select {
		case <-time.After(retryPause):
		case <-b.ctx.Done():
		}
	}
}

// settle counts a receipt, which is for so many envelopes before it too, and tells
// the app.
func (b *Bridge) settle(o *origin, r bus.Receipt, before int) {
	status := signal.AckAccepted
	if r.Status != bus.Duplicate {
		b.accepted.Add(int64(before))
	}
	switch r.Status {
	case bus.Accepted:
		b.accepted.Add(1)
	case bus.Duplicate:
		b.duplicate.Add(1)
		status = signal.AckDuplicate
	case bus.Expired:
		b.expired.Add(1)
	}
	if o.ack != nil {
		o.ack(signal.Ack{ID: o.id, Status: status})
	}
}

// add makes the item of a signal. What was observed before it is part of that item
// as far as it is only recorded; what the operator wants delivered is an item of its
// own, ahead of it, with what came before that.
func (b *Bridge) add(items []bus.Item, origins []origin, s *signal.Signal) ([]bus.Item, []origin) {
	var before []*amp.Envelope
	for i := range s.Before {
		step := &s.Before[i]
		env, _, err := b.normalise(step)
		if err != nil { // it is no app's event, so it has no such fault
			b.o.Logger.Error("a signal that came before another is none", "server", step.Server, "kind", string(step.Kind), "error", err)
			continue
		}
		if route := b.route(env, step); route != bus.Journal {
			items, origins = append(items, bus.Item{Envelope: env, Before: before, Route: route}), append(origins, origin{})
			before = nil
			continue
		}
		before = append(before, env)
	}
	o := origin{ack: s.Ack}
	env, id, err := b.normalise(s)
	if o.id = id; err != nil {
		env = b.reject(s, id, err)
		o = origin{} // the app has its answer already
	}
	item := bus.Item{Envelope: env, Before: before, Route: b.route(env, s)}
	if s.ID != "" && s.Kind != signal.AppEvent {
		item.Owner = PlatformApp
	}
	return append(items, item), append(origins, o)
}

// reject keeps what is no event beside the queue, tells the app, and returns
// the envelope that announces it.
func (b *Bridge) reject(s *signal.Signal, id string, cause error) *amp.Envelope {
	b.rejected.Add(1)
	reason := b.o.RedactText(oneLine(cause)) // which may repeat the app's words
	name, err := b.o.Bus.Reject(b.ctx, bus.Rejected{
		Source: b.source(s), Method: s.Method, Reason: reason, Raw: rawJSON(b.o.Redact(s.Params)),
	})
	if err != nil {
		b.o.Logger.Error("keeping a rejected event failed", "server", s.Server, "reason", reason, "error", err)
	}
	b.o.Logger.Warn("event rejected", "server", s.Server, "reason", reason, "kept", name)
	if s.Ack != nil {
		s.Ack(signal.Ack{ID: id, Status: signal.AckRejected, Reason: reason})
	}
	return b.envelope(s, amp.MethodError, string(signal.Problem), "an event of "+s.Server+" was rejected: "+reason,
		rejection{Code: "event_rejected", Reason: reason, Kept: name, MessageID: id})
}

// oneLine is an error as one sentence, also one that joins several.
func oneLine(err error) string {
	var many *multierror.Error
	if !errors.As(err, &many) {
		return err.Error()
	}
	parts := make([]string, len(many.Errors))
	for i, e := range many.Errors {
		parts[i] = e.Error()
	}
	return strings.Join(parts, "; ")
}

// rejection is the data of the mcp.error that announces a rejected event.
type rejection struct {
	Code      string `json:"code"`
	Reason    string `json:"reason"`
	Kept      string `json:"kept,omitempty"` // the file's name under rejected/
	MessageID string `json:"message_id,omitempty"`
}

// Held says why events wait before they come to the bus: their large data cannot be
// kept, as on a full disk. It is nil where none does.
func (b *Bridge) Held() error { return b.large.Held() }

// Counts returns the totals so far.
func (b *Bridge) Counts() Counts {
	return Counts{b.accepted.Load(), b.duplicate.Load(), b.rejected.Load(), b.expired.Load(), b.waiting.Load()}
}

// Close takes no more signals and waits until those in the lanes are published
// or ctx ends. It does not close the bus.
func (b *Bridge) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	for _, l := range b.lanes {
		l.look()
	}
	b.mu.Unlock()
	done := make(chan struct{})
	go func() { b.work.Wait(); close(done) }()
	defer b.cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		b.cancel()
		<-done
		return fmt.Errorf("closing the bridge: %d signals were not published: %w", b.waiting.Load(), ctx.Err())
	}
}
