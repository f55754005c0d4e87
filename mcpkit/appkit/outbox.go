package appkit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// outbox keeps the events that nobody has acknowledged yet, one file each:
//
//	outbox/00000000000000000017-01J….json    <order>-<message_id>.json
//
// A file is the event's JSON as it goes over the wire. It is there, synced,
// before the event is first sent, and is removed once the event is settled. A
// file that comes back after power loss is a repeated event, which the peer
// knows by its message_id.
//
// Sending: every event once, in order, at the session's beginning or when it is
// emitted; then the oldest ones again after 5, 10, 20, 40, 60, 60… seconds. A
// peer that has never acknowledged anything may not know how to, so it gets each
// event at most maxSilent times in a session.
type outbox struct {
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
	maxSilent    = 8
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

func openOutbox(dir string, opts Options, log *slog.Logger) (*outbox, error) {
	o := &outbox{
		dir:       dir,
		log:       log,
		pause:     cmp.Or(opts.ResendAfter, 5*time.Second),
		maxEvents: cmp.Or(opts.OutboxEvents, 1000),
		maxBytes:  cmp.Or(opts.OutboxBytes, 8<<20),
		wake:      make(chan struct{}, 1),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	files, err := os.ReadDir(dir) // sorted by name, so by order
	if err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if strings.HasPrefix(f.Name(), ".tmp-") { // an Emit that did not return
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
		m wireEvent
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

// waiting is how many events are not settled.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.entries)
}

// put makes an event durable and has it sent. An event that is in the outbox
// already is not put twice.
func (o *outbox) put(id string, params json.RawMessage, expire time.Time) error {
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
		return ErrOutboxFull
	}
	o.last++
	e := &entry{order: o.last, id: id, params: params, expire: expire, written: make(chan struct{})}
	o.entries = append(o.entries, e)
	o.bytes += size
	o.mu.Unlock()

	// Concurrent Emits write side by side; their order is fixed already.
	e.err = WriteFile(filepath.Join(o.dir, e.file()), params)
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

// acknowledge settles the event that the params of an aurora/ack name. It runs on
// the read loop, so it leaves the file to deliver.
func (o *outbox) acknowledge(params json.RawMessage) {
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
func (o *outbox) take(e *entry) {
	o.entries = slices.DeleteFunc(o.entries, func(x *entry) bool { return x == e })
	o.bytes -= int64(len(e.params))
}

// dropExpired settles what is not worth delivering any more. The caller holds mu.
func (o *outbox) dropExpired(now time.Time) {
	for _, e := range slices.Clone(o.entries) {
		if e.durable && !e.expire.IsZero() && now.After(e.expire) {
			o.log.Info("event expired before it was acknowledged", "message_id", e.id)
			o.take(e)
			o.settled = append(o.settled, e)
		}
	}
}

// poke has deliver look again. The caller need not hold mu.
func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// deliver sends events to the session until ctx ends or the connection breaks.
func (o *outbox) deliver(ctx context.Context, t *tap) {
	select {
	case <-t.ready:
	case <-ctx.Done():
		return
	}
	defer o.sweep()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, pause := o.next(time.Now())
		o.sweep()
		for _, e := range batch {
			if err := t.send(ctx, e.params); err != nil {
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
func (o *outbox) sweep() {
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
func (o *outbox) next(now time.Time) (batch []*entry, pause time.Duration) {
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
