package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Stream takes messages to one client.
type Stream interface {
	// Send queues one whole message without a line end and does not wait. It
	// reports false where the client takes no more. It keeps msg.
	Send(msg []byte) bool
}

// MethodListen is the request that opens a stream of notifications and does not
// end by itself (2026-07-28, subscriptions/listen).
const MethodListen = "subscriptions/listen"

// AnswerTime is how long a client's user may take to answer a question.
const AnswerTime = 10 * time.Minute

// Conn keeps the open requests of one conversation, in both directions: those of
// the client, which it may cancel by their ids, and those to the client, which wait
// for its answers. It is safe for concurrent use.
type Conn struct {
	limit int

	mu      sync.Mutex
	calls   map[string]inFlight      // by the id as it was sent
	asked   map[string]chan *Message // the client's answers, by the id of the request
	nextAsk int64
	mute    bool // the client's input has ended: it answers no question
	closed  bool
}

// inFlight is a request that is being answered.
type inFlight struct {
	cancel  context.CancelCauseFunc
	listens bool // the request does not end by itself
}

// NewConn makes a Conn with at most limit open requests in each direction.
func NewConn(limit int) *Conn { return &Conn{limit: limit} }

var (
	errInUse  = &Error{Code: CodeInvalidRequest, Message: "another request with that id is being answered"}
	errClosed = &Error{Code: CodeInvalidRequest, Message: "the session is over"}
)

// gone is the fault of what ends because the client left.
func gone() *fault.Error { return fault.New(fault.Cancelled, "the client went away") }

// Begin counts a request of the client in, until End. The context ends then, or
// when the client cancels the request.
func (c *Conn) Begin(ctx context.Context, m *Message) (context.Context, *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, twice := c.calls[string(m.ID)]; {
	case c.closed:
		return nil, errClosed
	case twice:
		return nil, errInUse
	case len(c.calls) >= c.limit:
		return nil, &Error{Code: CodeBusy, Message: fmt.Sprintf("a client may make %d requests at once", c.limit)}
	case c.calls == nil:
		c.calls = map[string]inFlight{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.calls[string(m.ID)] = inFlight{cancel, m.Name() == MethodListen}
	return ctx, nil
}

// End ends a request that has begun.
func (c *Conn) End(m *Message) {
	c.mu.Lock()
	call := c.calls[string(m.ID)]
	delete(c.calls, string(m.ID))
	c.mu.Unlock()
	call.cancel(nil)
}

// Notify takes a notification or an answer of the client.
func (c *Conn) Notify(m *Message) {
	if m.Method == nil {
		c.answered(m)
		return
	}
	if m.Name() != "notifications/cancelled" || m.Members.RequestID == nil {
		return // initialized, roots/list_changed and unknown notifications change nothing here
	}
	c.mu.Lock()
	call, ok := c.calls[string(m.Members.RequestID)]
	c.mu.Unlock()
	if ok {
		reason, _ := Text(m.Members.Reason)
		call.cancel(fault.New(fault.Cancelled, "the client gave the call up: %.200s", reason))
	}
}

// answered hands an answer of the client to the request that waits for it.
func (c *Conn) answered(m *Message) {
	c.mu.Lock()
	answer := c.asked[string(m.ID)]
	delete(c.asked, string(m.ID))
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// Ask sends a request to the client on a stream and waits for its answer, an
// object, for [AnswerTime] at most. Without an answer the error says why.
func (c *Conn) Ask(ctx context.Context, out Stream, method string, params json.RawMessage) (json.RawMessage, *fault.Error) {
	id, answer, fail := c.await()
	if fail != nil {
		return nil, fail
	}
	b := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"method":`...)
	b = append(append(append(b, Quote(method)...), `,"params":`...), params...)
	if out == nil || !out.Send(append(b, '}')) {
		c.answered(&Message{ID: []byte(id)})
		return nil, fault.New(fault.InputRequired, "the client cannot be asked: it listens to no stream")
	}
	late := time.NewTimer(AnswerTime)
	defer late.Stop()
	var why *fault.Error
	select {
	case m := <-answer:
		switch {
		case m == nil:
			return nil, gone()
		case m.Problem != nil:
			message, _ := Text(jsontext.Get(m.Problem, "message"))
			return nil, fault.New(fault.InputRequired, "the client did not answer %s: %.300s", method, message)
		case !jsontext.IsObject(m.Result):
			return nil, fault.New(fault.InputRequired, "the client's answer to %s is no object", method)
		}
		return m.Result, nil
	case <-ctx.Done():
		why = fault.New(fault.Cancelled, "the call was given up while its question waited")
	case <-late.C:
		why = fault.New(fault.InputRequired, "nobody answered within %s", AnswerTime)
	}
	c.mu.Lock()
	delete(c.asked, id)
	c.mu.Unlock()
	out.Send(Notification("notifications/cancelled", append(append([]byte(`{"requestId":`), id...), `,"reason":"nobody waits for the answer any more"}`...)))
	return nil, why
}

// await gives a request to the client an id, and a channel of capacity 1 for the
// answer. The channel is closed where no answer can come any more.
func (c *Conn) await() (id string, answer chan *Message, _ *fault.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed || c.mute:
		return "", nil, gone()
	case len(c.asked) >= c.limit:
		return "", nil, fault.New(fault.Busy, "the client has too many questions to answer already")
	case c.asked == nil:
		c.asked = map[string]chan *Message{}
	}
	c.nextAsk++
	id, answer = strconv.FormatInt(c.nextAsk, 10), make(chan *Message, 1)
	c.asked[id] = answer
	return id, answer, nil
}

// Close ends the conversation: the client's requests are cancelled, and nobody
// waits for its answers any more.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, call := range c.calls {
		call.cancel(gone())
	}
	c.endQuestions()
}

// EndInput says that the client sends nothing more: its requests that only listen
// end, and so does the wait for its answers. Its other requests are still answered.
func (c *Conn) EndInput() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
	for _, call := range c.calls {
		if call.listens {
			call.cancel(nil)
		}
	}
	c.endQuestions()
}

// endQuestions ends the wait for the client's answers. The lock is held.
func (c *Conn) endQuestions() {
	for id, answer := range c.asked {
		close(answer)
		delete(c.asked, id)
	}
}
