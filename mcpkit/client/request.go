package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
	"github.com/aurorabot-dev/platform/mcpkit/jsoncheck"
)

// Requests of ours have the ids from firstID to lastID, over and over; the SDK
// counts from 1. All fit into 32 bits, for the servers that need that.
const (
	firstID = 1 << 30
	lastID  = math.MaxInt32
	keptIDs = 1024 // abandoned requests whose late answers are known as such
)

// pending is a request that was sent and is not answered.
type pending struct {
	answer   chan answer          // capacity 1: each request gets one
	progress chan json.RawMessage // capacity 1, the latest; nil where nobody asked
	call     *inFlight            // that the server may ask about; nil where it may not
}

// answer is what became of a request: a result, a JSON-RPC error object, or why
// there is neither.
type answer struct {
	result, problem json.RawMessage
	err             *fault.Error
}

// requests is the table of pending requests. It is safe for concurrent use.
type requests struct {
	mu      sync.Mutex
	next    int64
	pending map[int64]*pending
	late    map[int64]bool // given up, not answered yet
	order   []int64        // the keys of late and of earlier late ones, a ring
	at      int
	closed  *fault.Error // why there are no more; nil while there are
}

func (t *requests) add(p *pending) (int64, *fault.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		e := *t.closed
		return 0, &e
	}
	if t.pending == nil {
		t.pending = map[int64]*pending{}
	}
	for {
		if t.next < firstID || t.next > lastID {
			t.next = firstID
		}
		id := t.next
		t.next++
		if t.pending[id] == nil {
			t.pending[id] = p
			return id, nil
		}
	}
}

func (t *requests) get(id int64) *pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending[id]
}

// take is get, and the request is no longer pending. It also reports whether
// the id is that of one that was given up.
func (t *requests) take(id int64) (p *pending, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, late = t.pending[id], t.late[id]
	delete(t.pending, id)
	delete(t.late, id)
	return p, late
}

// abandon forgets a request of which an answer may still come. It reports
// false where that has happened.
func (t *requests) abandon(id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[id] == nil {
		return false
	}
	delete(t.pending, id)
	if t.late == nil {
		t.late = map[int64]bool{}
	}
	if len(t.order) < keptIDs {
		t.order = append(t.order, id)
	} else {
		delete(t.late, t.order[t.at])
		t.order[t.at] = id
		t.at = (t.at + 1) % keptIDs
	}
	t.late[id] = true
	return true
}

// close fails all requests, those to come too, and returns the ids that were
// pending. Only the first cause counts.
func (t *requests) close(cause *fault.Error) (ids []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed == nil {
		t.closed = cause
	}
	for id, p := range t.pending {
		e := *cause
		p.answer <- answer{err: e.Unknown()}
		ids = append(ids, id)
	}
	t.pending = nil
	return ids
}

// message is a request in the making.
type message struct {
	method string
	params []byte // members of params, without braces and without _meta; after a tool led by a comma

	tool      string // of a call, with its arguments, on one line: params begin with them
	arguments []byte

	meta []byte // members of _meta, without braces
	caps []byte // of a client further away, an object; may be nil

	timeout    time.Duration // 0: the session's
	forever    bool          // no deadline at all
	sent       chan<- int64  // capacity 1, gets the id once it is sent; may be nil
	onProgress func(json.RawMessage)
	call       *inFlight // that the server may ask about; may be nil
}

// request sends a request and waits for its result.
func (s *Session) request(ctx context.Context, m message) (json.RawMessage, *fault.Error) {
	if err := ctx.Err(); err != nil {
		return nil, gaveUp(ctx, m.method)
	}
	p := &pending{answer: make(chan answer, 1), call: m.call}
	if m.onProgress != nil {
		p.progress = make(chan json.RawMessage, 1)
	}
	timeout := m.timeout
	if timeout <= 0 {
		timeout = s.cfg.CallTimeout
	}
	var deadline <-chan time.Time
	var timer *time.Timer
	ceiling := time.Now().Add(max(timeout, s.cfg.MaxCallTime))
	if !m.forever {
		timer = time.NewTimer(timeout)
		defer timer.Stop()
		deadline = timer.C
	}

	id, closed := s.requests.add(p)
	if closed != nil {
		return nil, closed
	}
	if err := s.send(ctx, m, id, timeout); err != nil {
		if !s.requests.abandon(id) { // the session ended meanwhile, and says why
			if e := (<-p.answer).err; e != nil {
				e.Outcome = fault.OutcomeFailed
				return nil, e
			}
		}
		s.requests.take(id) // nothing was sent: no answer can be late
		switch {
		case errors.Is(err, io.ErrClosedPipe):
			return nil, fault.New(s.crashCode(), "server %s takes no more requests", s.server).Retry()
		case ctx.Err() != nil:
			return nil, gaveUp(ctx, m.method)
		}
		return nil, fault.New(fault.Timeout, "server %s did not take %s within %v", s.server, m.method, timeout).Retry()
	}
	if m.sent != nil {
		m.sent <- id
	}

	for {
		select {
		case a := <-p.answer:
			return s.outcome(m.method, a)
		case params := <-p.progress:
			// Progress buys time, up to the ceiling (2025-11-25, basic/lifecycle: timeouts).
			if timer != nil {
				timer.Reset(min(timeout, time.Until(ceiling)))
			}
			m.onProgress(params)
			continue
		case <-ctx.Done():
			if s.giveUp(id, context.Cause(ctx).Error()) {
				return nil, gaveUp(ctx, m.method).Unknown()
			}
		case <-deadline:
			if quiet := s.asking.quiet(); quiet < timeout { // the server waited for somebody here
				timer.Reset(timeout - quiet)
				continue
			}
			e := fault.New(fault.Timeout, "server %s did not answer %s in time (%v)", s.server, m.method, timeout)
			if s.giveUp(id, "the request timed out") {
				return nil, e.Unknown()
			}
		}
		return s.outcome(m.method, <-p.answer) // it came at the last moment
	}
}

// giveUp abandons a request and tells the server (2025-11-25,
// basic/utilities/cancellation). It reports false where the answer has come.
func (s *Session) giveUp(id int64, reason string) bool {
	if !s.requests.abandon(id) {
		return false
	}
	s.wire.TrySend(cancelled(id, reason))
	return true
}

func cancelled(id int64, reason string) []byte {
	r, _ := json.Marshal(reason) // a string always marshals
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), strconv.FormatInt(id, 10)...)
	return append(append(append(b, `,"reason":`...), r...), "}}"...)
}

var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// eager is a wire that can write a message at once, instead of with others that
// gather: better for the only call there is, and for no more.
type eager interface{ TrySendNow(msg []byte) bool }

// send writes the request, and waits no longer than timeout for room.
func (s *Session) send(ctx context.Context, m message, id int64, timeout time.Duration) error {
	buf := scratch.Get().(*[]byte)
	b := appendRequest((*buf)[:0], m, id, s.tripleFor(m.caps))
	defer func() {
		if cap(b) <= 64<<10 {
			*buf = b
			scratch.Put(buf)
		}
	}()
	trySend := s.wire.TrySend
	if w, ok := s.wire.(eager); ok && len(s.slots) <= 1 {
		trySend = w.TrySendNow
	}
	if trySend(b) { // the usual case needs no context of its own
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.wire.Send(ctx, b)
}

// appendRequest appends the JSON of a request. Under the stateless protocol
// triple says in each request who asks (2026-07-28, SEP-2575).
func appendRequest(b []byte, m message, id int64, triple []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":"`...)
	b = append(b, m.method...) // our own constants: nothing to escape
	b = append(b, '"')
	if m.tool == "" && len(m.params) == 0 && len(m.meta) == 0 && len(triple) == 0 && m.onProgress == nil {
		return append(b, '}')
	}
	b = append(b, `,"params":{`...)
	if m.tool != "" {
		b = jsoncheck.AppendString(append(b, `"name":`...), m.tool)
		b = append(append(b, `,"arguments":`...), m.arguments...)
	}
	b = append(b, m.params...)
	if len(m.meta) > 0 || len(triple) > 0 || m.onProgress != nil {
		if m.tool != "" || len(m.params) > 0 {
			b = append(b, ',')
		}
		b = append(b, `"_meta":{`...)
		sep := ""
		for _, part := range [][]byte{m.meta, triple} {
			if len(part) > 0 {
				b = append(append(b, sep...), part...)
				sep = ","
			}
		}
		if m.onProgress != nil {
			b = append(append(b, sep...), `"progressToken":`...)
			b = strconv.AppendInt(b, id, 10)
		}
		b = append(b, '}')
	}
	return append(b, "}}"...)
}

// outcome turns an answer into what the caller sees.
func (s *Session) outcome(method string, a answer) (json.RawMessage, *fault.Error) {
	switch {
	case a.err != nil:
		return nil, a.err
	case a.problem == nil:
		return a.result, nil
	}
	var e struct {
		Code    json.Number `json:"code"`
		Message string      `json:"message"`
	}
	json.Unmarshal(a.problem, &e) // what does not decode is in Data
	f := fault.New(fault.Protocol, "server %s answered %s with error %s: %s", s.server, method, e.Code, e.Message)
	f.Data = a.problem
	return nil, f
}

func gaveUp(ctx context.Context, method string) *fault.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "the caller's time for %s was up", method)
	}
	var f *fault.Error
	if errors.As(context.Cause(ctx), &f) {
		e := *f
		return &e
	}
	return fault.New(fault.Cancelled, "the caller gave %s up", method)
}

// isMethodMissing reports whether the server said that it knows no such method.
func isMethodMissing(e *fault.Error) bool {
	return e.Code == fault.Protocol && string(jsonline.Get(e.Data, "code")) == "-32601"
}

// integer is the id that raw stands for. Servers that keep all numbers as
// floating point may send it back as one.
func integer(raw []byte) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	if len(raw) == 0 || raw[0] == '"' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// inner is the members of the object raw, without braces and line ends, except
// those that drop names. It reports false where raw is no object.
func inner(raw []byte, drop func(name []byte) bool) ([]byte, bool) {
	var out []byte
	ok := jsonline.Members(raw, func(name, value []byte) bool {
		if drop == nil || !drop(name) {
			if len(out) > 0 {
				out = append(out, ',')
			}
			n, _ := json.Marshal(string(name))
			out = append(append(append(out, n...), ':'), oneLine(value)...)
		}
		return true
	})
	return out, ok
}

// oneLine drops line ends, which valid JSON has only between tokens.
func oneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}
