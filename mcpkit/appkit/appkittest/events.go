package appkittest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Event is an aurora/event as the client received it.
type Event struct {
	ID        string          `json:"message_id"`
	Key       string          `json:"idempotency_key"`
	Type      string          `json:"type"`
	SessionID string          `json:"session_id"`
	Summary   string          `json:"summary"`
	Data      json.RawMessage `json:"data"`
	ExpireAt  *time.Time      `json:"expire_at"`
}

// Decode decodes the event's data into v.
func (e Event) Decode(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(e.Data, v); err != nil {
		t.Fatalf("decoding the data of %s: %v", e.Type, err)
	}
}

// Recorder keeps everything that the app sent unasked.
type Recorder struct {
	mu      sync.Mutex
	events  []Event
	waited  map[string]int // how many events of a type Wait has handed out
	updates map[string]int // how often a resource was reported as updated
	change  chan struct{}  // closed and replaced at every change
}

func newRecorder() *Recorder {
	return &Recorder{waited: map[string]int{}, updates: map[string]int{}, change: make(chan struct{})}
}

// All returns the events so far, repeated ones included, in order of arrival.
func (r *Recorder) All() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Wait returns the next event of a type that Wait has not returned yet. Events
// sent again under a message_id that was there before do not count.
func (r *Recorder) Wait(t testing.TB, eventType string) Event {
	t.Helper()
	var found Event
	r.until(t, "event "+eventType, func() bool {
		seen := map[string]bool{}
		n := 0
		for _, e := range r.events {
			if e.Type != eventType || seen[e.ID] {
				continue
			}
			seen[e.ID] = true
			if n == r.waited[eventType] {
				r.waited[eventType]++
				found = e
				return true
			}
			n++
		}
		return false
	})
	return found
}

// WaitCount waits until at least n events have arrived, repeated ones included,
// and returns all.
func (r *Recorder) WaitCount(t testing.TB, n int) []Event {
	t.Helper()
	r.until(t, "more events", func() bool { return len(r.events) >= n })
	return r.All()
}

// WaitUpdated waits until the app has reported n updates of a resource that the
// test subscribed to.
func (r *Recorder) WaitUpdated(t testing.TB, uri string, n int) {
	t.Helper()
	r.until(t, "an update of "+uri, func() bool { return r.updates[uri] >= n })
}

// until waits for ok, which it calls with mu held.
func (r *Recorder) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		done, change := ok(), r.change
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-change:
		case <-deadline.C:
			t.Fatalf("no %s within %s; there were %v", what, patience, r.All())
		}
	}
}

func (r *Recorder) record(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.change)
	r.change = make(chan struct{})
}

func (r *Recorder) updated(uri string) { r.record(func() { r.updates[uri]++ }) }

// Ack sends aurora/ack for an event: status accepted, duplicate or rejected.
func (s *Session) Ack(t testing.TB, messageID, status, reason string) {
	t.Helper()
	if err := s.conn.acknowledge(context.Background(), messageID, status, reason); err != nil {
		t.Fatalf("acknowledging %s: %v", messageID, err)
	}
}

// clientTap is the host's side of appkit's event transport.
type clientTap struct {
	mcp.Transport
	session *Session
	ack     bool
}

func (t *clientTap) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	t.session.conn = &clientConn{conn, t}
	return t.session.conn, err
}

type clientConn struct {
	mcp.Connection
	tap *clientTap
}

func (c *clientConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		req, ok := m.(*jsonrpc.Request)
		if !ok || req.IsCall() || req.Method != "aurora/event" {
			return m, nil
		}
		var e Event
		if err := json.Unmarshal(req.Params, &e); err != nil {
			return nil, errors.New("an aurora/event that is not an event: " + string(req.Params))
		}
		r := c.tap.session.Events
		r.record(func() { r.events = append(r.events, e) })
		if c.tap.ack {
			// In memory a write waits for the app to read, which never waits for us.
			if err := c.acknowledge(ctx, e.ID, "accepted", ""); err != nil {
				return nil, err
			}
		}
	}
}

func (c *clientConn) acknowledge(ctx context.Context, id, status, reason string) error {
	params, err := json.Marshal(map[string]string{"message_id": id, "status": status, "reason": reason})
	if err != nil {
		return err
	}
	return c.Write(ctx, &jsonrpc.Request{Method: "aurora/ack", Params: params})
}

func asWire(err error) *jsonrpc.Error {
	var wire *jsonrpc.Error
	errors.As(err, &wire)
	return wire
}
