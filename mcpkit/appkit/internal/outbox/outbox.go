// Package outbox keeps events until they are acknowledged, and sends them until
// then. An event is a JSON object with a message_id; it has one file:
//
//	00000000000000000017-01J….json    <order>-<message_id>.json
//
// The file is there, synced, before the event is first sent, and is removed once
// the event is settled. A file that comes back after power loss is a repeated
// event, which the peer knows by its message_id.
//
//	box, err := outbox.Open(dir, outbox.Options{}, log)
//	go box.Deliver(ctx, sessionHasBegun, send)
//	err = box.Put(id, params, time.Time{})
//	…
//	box.Acknowledge(params) // from the peer
//
// Sending: every event once, in order, at the session's beginning or when it is
// put; then the oldest ones again after 5, 10, 20, 40, 60, 60… seconds. A peer
// that has never acknowledged anything may not know how to, so it gets each
// event at most eight times in a session.
//
// The package knows nothing of MCP: it is given bytes and a function to send
// them with.
package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// Options bound an outbox. Zero values stand for the defaults.
type Options struct {
	Pause  time.Duration // before an event is sent again for the first time; 5 s
	Events int           // most events kept; 1000
	Bytes  int64         // most bytes kept; 8 MiB
}

// ErrFull is the error of Put when the outbox holds as much as it may.
var ErrFull = errors.New("too many events wait to be acknowledged")

// Outbox is described at the package. It is safe for concurrent use.
type Outbox struct {
	dir       string
	log       *slog.Logger
	pause     time.Duration
	maxEvents int
	maxBytes  int64

	mu      sync.Mutex
	entries []*entry // in order
	bytes   int64
	last    uint64   // order of the newest entry
	settled []*entry // taken from entries, file still there
	heard   bool     // this session has acknowledged something
	wake    chan struct{}
}

const (
	maxSilent    = 8  // how often an event is sent to a peer that has acknowledged nothing
	resendWindow = 64 // how many of the oldest events are sent again
	ackRefused   = "rejected"
)

type entry struct {
	order   uint64
	id      string
	params  json.RawMessage
	expire  time.Time
	written chan struct{} // closed when err is known
	err     error         // why it is not on disk
	durable bool          // on disk, so it may be sent
	sent    int           // times, in this session
	due     time.Time
}

func (e *entry) file() string { return fmt.Sprintf("%020d-%s.json", e.order, e.id) }

// Open reads what the folder dir holds, and makes it if there is none. A file
// that cannot be read is set aside under the ending .unreadable.
func Open(dir string, opts Options, log *slog.Logger) (*Outbox, error) {
	o := &Outbox{
		dir:       dir,
		log:       log,
		pause:     cmp.Or(opts.Pause, 5*time.Second),
		maxEvents: cmp.Or(opts.Events, 1000),
		maxBytes:  cmp.Or(opts.Bytes, 8<<20),
		wake:      make(chan struct{}, 1),
	}
	if err := durable.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	files, err := os.ReadDir(dir) // sorted by name, so by order
	if err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if strings.HasPrefix(f.Name(), durable.TempPrefix) { // an Emit that did not return
			if err := os.Remove(path); err != nil {
				log.Warn("cannot remove a leftover", "path", path, "error", err)
			}
			continue
		}
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		e, err := readEntry(path)
		if err != nil {
			log.Error("setting aside an event that cannot be read", "path", path, "error", err)
			if err := os.Rename(path, path+".unreadable"); err != nil {
				return nil, fmt.Errorf("opening the outbox: %w", err)
			}
			continue
		}
		o.entries = append(o.entries, e)
		o.bytes += int64(len(e.params))
		o.last = e.order
	}
	return o, nil
}

func readEntry(path string) (*entry, error) {
	var (
		e = &entry{durable: true}
		m struct {
			ID       string     `json:"message_id"`
			ExpireAt *time.Time `json:"expire_at"`
		}
	)
	order, id, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".json"), "-")
	if _, err := fmt.Sscanf(order, "%d", &e.order); err != nil {
		return nil, fmt.Errorf("its name holds no order: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if m.ID != id {
		return nil, fmt.Errorf("its name and its message_id %q differ", m.ID)
	}
	e.id, e.params = m.ID, text
	if m.ExpireAt != nil {
		e.expire = *m.ExpireAt
	}
	return e, nil
}

// Waiting is how many events are not settled.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.entries)
}

// Put makes an event durable and has it sent; params is its JSON, with id as its
// message_id, and it is dropped after expire, unless that is zero. An event that
// is in the outbox already is not put twice. Put does not wait for room: it
// returns ErrFull.
func (o *Outbox) Put(id string, params json.RawMessage, expire time.Time) error {
	size := int64(len(params))
	o.mu.Lock()
	o.dropExpired(time.Now())
	if i := slices.IndexFunc(o.entries, func(e *entry) bool { return e.id == id }); i >= 0 {
		e := o.entries[i]
		o.mu.Unlock()
		if e.written != nil { // perhaps another Emit is writing it right now
			<-e.written
		}
		return e.err
	}
	if len(o.entries) >= o.maxEvents || o.bytes+size > o.maxBytes {
		o.mu.Unlock()
		return ErrFull
	}
	o.last++
	e := &entry{order: o.last, id: id, params: params, expire: expire, written: make(chan struct{})}
	o.entries = append(o.entries, e)
	o.bytes += size
	o.mu.Unlock()

	// Concurrent Emits write side by side; their order is fixed already.
	path := filepath.Join(o.dir, e.file())
	if e.err = durable.WriteFile(path, params); e.err != nil {
		_ = os.Remove(path) // the file may be whole and only its folder not synced
	}
	close(e.written)

	o.mu.Lock()
	defer o.mu.Unlock()
	if e.err != nil {
		o.take(e)
		return e.err
	}
	e.durable = true
	o.poke()
	return nil
}

// Acknowledge settles an event. Params are {"message_id", "status", "reason"?} with
// the status accepted, duplicate or rejected; others are logged and ignored. It
// touches no disk, so a read loop may call it.
func (o *Outbox) Acknowledge(params json.RawMessage) {
	var ack struct {
		ID     string `json:"message_id"`
		Status string `json:"status"`
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(params, &ack); err != nil {
		o.log.Warn("unreadable acknowledgement", "error", err)
		return
	}
	if !slices.Contains([]string{"accepted", "duplicate", ackRefused}, ack.Status) {
		o.log.Warn("acknowledgement with an unknown status", "message_id", ack.ID, "status", ack.Status)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.poke()
	o.heard = true
	i := slices.IndexFunc(o.entries, func(e *entry) bool { return e.id == ack.ID && e.durable })
	if i < 0 {
		return // acknowledged before: we had sent it twice
	}
	e := o.entries[i]
	o.take(e)
	o.settled = append(o.settled, e)
	if ack.Status == ackRefused {
		o.log.Error("event refused", "message_id", ack.ID, "reason", ack.Reason)
	}
}

// take removes e from the entries. The caller holds mu.
func (o *Outbox) take(e *entry) {
	o.entries = slices.DeleteFunc(o.entries, func(x *entry) bool { return x == e })
	o.bytes -= int64(len(e.params))
}

// dropExpired settles what is not worth delivering any more. The caller holds mu.
func (o *Outbox) dropExpired(now time.Time) {
	for _, e := range slices.Clone(o.entries) {
		if e.durable && !e.expire.IsZero() && now.After(e.expire) {
			o.log.Info("event expired before it was acknowledged", "message_id", e.id)
			o.take(e)
			o.settled = append(o.settled, e)
		}
	}
}

// poke has Deliver look again. The caller need not hold mu.
func (o *Outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Deliver sends events to one session with send, until ctx ends or send fails;
// nothing is sent before ready is closed. It is called once.
func (o *Outbox) Deliver(ctx context.Context, ready <-chan struct{}, send func(context.Context, json.RawMessage) error) {
	defer o.sweep()
	select {
	case <-ready:
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, pause := o.next(time.Now())
		o.sweep()
		for _, e := range batch {
			if err := send(ctx, e.params); err != nil {
				o.log.Debug("session ended while events were sent", "error", err)
				return
			}
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		case <-timer.C:
		}
	}
}

// sweep removes the files of settled events. It does not sync: should a file
// come back, so does an event that the peer knows.
func (o *Outbox) sweep() {
	o.mu.Lock()
	settled := o.settled
	o.settled = nil
	o.mu.Unlock()
	for _, e := range settled {
		if err := os.Remove(filepath.Join(o.dir, e.file())); err != nil {
			o.log.Warn("cannot remove a settled event", "message_id", e.id, "error", err)
		}
	}
}

// next returns what is to be sent now and when to look again.
func (o *Outbox) next(now time.Time) (batch []*entry, pause time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropExpired(now)
	pause = 12 * o.pause
	for i, e := range o.entries {
		switch {
		case !e.durable:
			continue
		case e.sent > 0 && i >= resendWindow:
			continue // its turn comes when older ones are settled
		case e.sent >= maxSilent && !o.heard:
			continue
		case e.sent > 0 && now.Before(e.due):
			pause = min(pause, e.due.Sub(now))
			continue
		}
		wait := min(o.pause<<min(e.sent, 10), 12*o.pause)
		e.sent++
		e.due = now.Add(wait)
		pause = min(pause, wait)
		batch = append(batch, e)
	}
	return batch, pause
}
