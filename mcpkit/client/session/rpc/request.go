package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Request is a request in the making.
type Request struct {
	Method string
	Params []byte // members of params, without braces and without _meta; after a tool led by a comma

	Tool      string // of a call, with its arguments, on one line: params begin with them
	Arguments []byte

	Meta  []byte // members of _meta, without braces
	Asker []byte // further members of _meta: under the stateless protocol, who asks

	Timeout    time.Duration // 0: that of the Conn
	Forever    bool          // no deadline at all
	Sent       chan<- int64  // capacity 1, gets the id once it is sent; may be nil
	OnProgress func(params json.RawMessage)
	Origin     any // for requests that the server makes in the answer; see Peer.Asked
}

// Do sends a request and waits for its result.
func (c *Conn) Do(ctx context.Context, r Request) (json.RawMessage, *fault.Error) {
	if err := ctx.Err(); err != nil {
		return nil, GaveUp(ctx, r.Method)
	}
	p := &pending{answer: make(chan answer, 1), origin: r.Origin}
	if r.OnProgress != nil {
		p.progress = make(chan json.RawMessage, 1)
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = c.o.Timeout
	}
	var deadline <-chan time.Time
	var timer *time.Timer
	ceiling := time.Now().Add(max(timeout, c.o.MaxTime))
	if !r.Forever {
		timer = time.NewTimer(timeout)
		defer timer.Stop()
		deadline = timer.C
	}

	id, closed := c.requests.add(p)
	if closed != nil {
		return nil, closed
	}
	if err := c.send(ctx, r, id, timeout); err != nil {
		if !c.requests.abandon(id) { // the session ended meanwhile, and says why
			if e := (<-p.answer).err; e != nil {
				e.Outcome = fault.OutcomeFailed
				return nil, e
			}
		}
		c.requests.take(id) // nothing was sent: no answer can be late
		switch {
		case errors.Is(err, io.ErrClosedPipe):
			return nil, fault.New(c.o.Ended, "server %s takes no more requests", c.o.Server).Retry()
		case ctx.Err() != nil:
			return nil, GaveUp(ctx, r.Method)
		}
		return nil, fault.New(fault.Timeout, "server %s did not take %s within %v", c.o.Server, r.Method, timeout).Retry()
	}
	if r.Sent != nil {
		r.Sent <- id
	}

	for {
		select {
		case a := <-p.answer:
			return c.outcome(r.Method, a)
		case params := <-p.progress:
			// Progress buys time, up to the ceiling (2025-11-25, basic/lifecycle: timeouts).
			if timer != nil {
				timer.Reset(min(timeout, time.Until(ceiling)))
			}
			r.OnProgress(params)
			continue
		case <-ctx.Done():
			if c.giveUp(id, context.Cause(ctx).Error()) {
				return nil, GaveUp(ctx, r.Method).Unknown()
			}
		case <-deadline:
			if quiet := c.o.Peer.Quiet(); quiet < timeout { // the server waited for somebody here
				timer.Reset(timeout - quiet)
				continue
			}
			e := fault.New(fault.Timeout, "server %s did not answer %s in time (%v)", c.o.Server, r.Method, timeout)
			if c.giveUp(id, "the request timed out") {
				return nil, e.Unknown()
			}
		}
		return c.outcome(r.Method, <-p.answer) // it came at the last moment
	}
}

// giveUp abandons a request and tells the server (2025-11-25,
// basic/utilities/cancellation). It reports false where the answer has come.
func (c *Conn) giveUp(id int64, reason string) bool {
	if !c.requests.abandon(id) {
		return false
	}
	c.Cancel(id, reason)
	return true
}

func cancelled(id int64, reason string) []byte {
	r, _ := json.Marshal(reason) // a string always marshals
	b := append([]byte(`{"jsonrpc":"2.0","method":"`+MethodCancelled+`","params":{"requestId":`), strconv.FormatInt(id, 10)...)
	return append(append(append(b, `,"reason":`...), r...), "}}"...)
}

var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// send writes the request, and waits no longer than timeout for room.
func (c *Conn) send(ctx context.Context, r Request, id int64, timeout time.Duration) error {
	buf := scratch.Get().(*[]byte)
	room := 256 + len(r.Arguments) + len(r.Params) + len(r.Meta) + len(r.Asker)
	b := appendRequest(slices.Grow((*buf)[:0], room), r, id)
	defer func() {
		if cap(b) <= 64<<10 {
			*buf = b
			scratch.Put(buf)
		}
	}()
	if c.wire.TrySend(b) { // the usual case needs no context of its own
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.wire.Send(ctx, b)
}

// appendRequest appends the JSON of a request.
func appendRequest(b []byte, r Request, id int64) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":"`...)
	b = append(b, r.Method...) // our own constants: nothing to escape
	b = append(b, '"')
	if r.Tool == "" && len(r.Params) == 0 && len(r.Meta) == 0 && len(r.Asker) == 0 && r.OnProgress == nil {
		return append(b, '}')
	}
	b = append(b, `,"params":{`...)
	if r.Tool != "" {
		b = jsontext.AppendQuote(append(b, `"name":`...), r.Tool)
		b = append(append(b, `,"arguments":`...), r.Arguments...)
	}
	b = append(b, r.Params...)
	if len(r.Meta) > 0 || len(r.Asker) > 0 || r.OnProgress != nil {
		if r.Tool != "" || len(r.Params) > 0 {
			b = append(b, ',')
		}
		b = append(b, `"_meta":{`...)
		sep := ""
		for _, part := range [][]byte{r.Meta, r.Asker} {
			if len(part) > 0 {
				b = append(append(b, sep...), part...)
				sep = ","
			}
		}
		if r.OnProgress != nil {
			b = append(append(b, sep...), `"progressToken":`...)
			b = strconv.AppendInt(b, id, 10)
		}
		b = append(b, '}')
	}
	return append(b, "}}"...)
}

// outcome turns an answer into what the caller sees.
func (c *Conn) outcome(method string, a answer) (json.RawMessage, *fault.Error) {
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
	f := fault.New(fault.Protocol, "server %s answered %s with error %s: %s", c.o.Server, method, e.Code, e.Message)
	f.Data = a.problem
	return nil, f
}

// GaveUp is the failure of a request whose caller does not wait any more: the time
// of ctx is up, or ctx was cancelled, and its cause says why.
func GaveUp(ctx context.Context, method string) *fault.Error {
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

// IsMethodMissing reports whether the server said that it knows no such method.
func IsMethodMissing(e *fault.Error) bool {
	return e.Code == fault.Protocol && string(jsontext.Get(e.Data, "code")) == "-32601"
}
