// Package asking answers what a server asks of its client: a sign of life, the roots,
// and in the middle of a call the answer of a model or of a person (2025-11-25,
// client/roots, client/sampling and client/elicitation). It finds the call that a
// question belongs to, refuses what the client did not offer, and leaves nothing
// unanswered. It has no answers of its own but the roots: whoever makes the call has
// them, as an [Asker].
//
//	q := asking.New(ctx, options)
//	call, leave, err := q.Enter(ctx, ask, "me")
//	defer leave()
package asking

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// ProblemUninvited is the code of a request that the client did not offer to answer,
// for [Options].Report.
const ProblemUninvited = "uninvited_request"

// maxOpen is how many questions of a server may wait for the client's answer.
const maxOpen = 64

// Asker answers a request of the server that comes in the middle of a call, in
// the eras in which it is a request of its own (2025-11-25, client/elicitation and
// client/sampling). The result is what the method's specification says. Of an
// error that is a *fault.Error the server is told the message, with -32602 where
// the code is invalid_arguments. ctx ends when the server gives the request up, and
// with the call.
type Asker func(ctx context.Context, method string, params json.RawMessage) (result json.RawMessage, err error)

// Options configure Questions. Roots may be empty; all other fields are required.
type Options struct {
	Features handshake.Features // what the client offered to answer
	Roots    []*mcp.Root        // the answer to roots/list
	// Turns has the calls of different askers in flight one after the other: over a
	// pipe nothing says which call a question belongs to.
	Turns bool
	// Reply answers the request with a raw id; outcome is the member result or error.
	Reply func(id []byte, outcome string)
	// Report is told what the server does wrong: a code, what it is in words, and
	// the beginning of what it sent.
	Report func(code, detail string, sample []byte)
	// Go runs f in a goroutine that the owner waits for.
	Go func(f func())
}

// Questions are what one server asks and waits for. They are safe for concurrent use.
type Questions struct {
	o   Options
	ctx context.Context // of the answers

	mu     sync.Mutex
	open   map[string]*question // by raw id
	calls  []*Call              // that can answer, the oldest first
	queue  []*Call              // that wait for their asker's turn, the oldest first
	last   time.Time            // when the last answer was given
	closed bool
}

// Call is a call in flight that a question may belong to.
type Call struct {
	ask   Asker
	asker string
	turn  chan struct{} // closed when the call may go
}

// question is one request that waits for its answer.
type question struct {
	call   *Call
	sure   bool // that it belongs to the call, and not to another of the same asker
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// New makes Questions. ctx bounds the time for all answers.
func New(ctx context.Context, o Options) *Questions { return &Questions{o: o, ctx: ctx} }

// errGivenUp is the cause where the server does not wait for the answer any more.
var errGivenUp = errors.New("the server gave its request up")

// Enter notes a call until leave is called: ask answers the questions that belong to
// it, and nil refuses them. Calls of the same asker see each other's questions. Where
// askers take turns, Enter waits for this one's, and its error is that of ctx.
func (a *Questions) Enter(ctx context.Context, ask Asker, asker string) (c *Call, leave func(), err error) {
	c = &Call{ask, asker, make(chan struct{})}
	a.mu.Lock()
	a.queue = append(a.queue, c)
	a.admit()
	a.mu.Unlock()
	select {
	case <-c.turn:
		return c, func() { a.leave(c) }, nil
	case <-ctx.Done():
		a.leave(c)
		return nil, nil, ctx.Err()
	}
}

// least is the call of an asker that fewest questions are assigned to, the oldest of
// several; nil where none is in flight.
func (a *Questions) least(asker string) (call *Call) {
	fewest := 0
	for _, c := range a.calls {
		n := 0
		for _, q := range a.open {
			if q.call == c {
				n++
			}
		}
		if c.asker == asker && (call == nil || n < fewest) {
			call, fewest = c, n
		}
	}
	return call
}

// admit lets go who may of those that wait, in order, so that nobody waits for ever.
func (a *Questions) admit() {
	for len(a.queue) > 0 {
		next := a.queue[0]
		if a.o.Turns && slices.ContainsFunc(a.calls, func(c *Call) bool { return c.asker != next.asker }) {
			return
		}
		a.queue = a.queue[1:]
		a.calls = append(a.calls, next)
		close(next.turn)
	}
}

// leave takes a call out, whether it waited or was let go.
func (a *Questions) leave(c *Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	this := func(x *Call) bool { return x == c }
	a.calls, a.queue = slices.DeleteFunc(a.calls, this), slices.DeleteFunc(a.queue, this)
	for _, q := range a.open {
		if q.call != c {
			continue
		}
		// What nothing assigned to this call may be another's that is still in flight.
		if q.call = a.least(c.asker); q.call == nil || q.sure {
			q.call = c
			q.cancel(errors.New("the call is over"))
		}
	}
	a.admit()
}

// begin finds the call that a question belongs to. Over HTTP that is the call in
// whose answer the question came, if it came in one. Elsewhere nothing says which
// call it is, so of several calls one answers that is asked least, if all of them are
// the same asker's, and else none: one asker must not see another's question.
func (a *Questions) begin(id string, in *Call) (*question, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.calls) == 0 {
		return nil, errors.New("no call is in flight that this could belong to")
	}
	call := a.least(a.calls[0].asker)
	sure := slices.Contains(a.calls, in)
	if sure {
		call = in
	} else if slices.ContainsFunc(a.calls, func(c *Call) bool { return c.asker != call.asker }) {
		return nil, errors.New("several calls are in flight, and nothing says which of them asks")
	}
	switch {
	case call.ask == nil:
		return nil, errors.New("the call that is in flight answers no questions")
	case a.closed || len(a.open) >= maxOpen || a.open[id] != nil:
		return nil, errors.New("too many requests wait for an answer, or the id is in use")
	}
	if a.open == nil {
		a.open = map[string]*question{}
	}
	q := &question{call: call, sure: sure}
	q.ctx, q.cancel = context.WithCancelCause(a.ctx)
	a.open[id] = q
	return q, nil
}

func (a *Questions) end(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[id].cancel(nil)
	delete(a.open, id)
	a.last = time.Now()
}

// Cancel ends the wait for the answer to a question that the server gave up; id is
// its raw id.
func (a *Questions) Cancel(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.open[id]; q != nil {
		q.cancel(errGivenUp)
	}
}

// Close ends all waits for answers, and refuses the questions that still come.
func (a *Questions) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, q := range a.open {
		q.cancel(errGivenUp)
	}
}

// Quiet is for how long the server has not waited for the client: the server's time
// to answer a call begins anew with each answer that it gets.
func (a *Questions) Quiet() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.open) > 0:
		return 0
	case a.last.IsZero():
		return 1<<63 - 1
	}
	return time.Since(a.last)
}

// Asked answers a request of the server, of a method other than a notification's.
// Nothing is left unanswered, and what was not offered is refused (2025-11-25,
// basic/lifecycle: only negotiated capabilities). in is the call in whose answer the
// request came, or nil. Asked does not wait.
func (a *Questions) Asked(method string, m jsonline.Message, in *Call) {
	switch {
	case method == "ping":
		a.o.Reply(m.ID, `"result":{}`)
	case !a.o.Features.Has(method):
		a.o.Reply(m.ID, problemReply(-32601, "this client does not offer "+method))
		a.o.Report(ProblemUninvited, "a request that the client did not offer to answer", []byte(method))
	case method == handshake.MethodRoots:
		a.o.Reply(m.ID, `"result":`+string(RootsResult(a.o.Roots)))
	default:
		a.ask(method, m, in)
	}
}

// ask has the call that the request belongs to answer it.
func (a *Questions) ask(method string, m jsonline.Message, in *Call) {
	id := string(m.ID)
	q, err := a.begin(id, in)
	if err != nil {
		a.o.Reply(m.ID, problemReply(-32000, err.Error()))
		a.o.Report(ProblemUninvited, err.Error(), []byte(method))
		return
	}
	params := bytes.Clone(m.Params)
	a.o.Go(func() {
		defer a.end(id)
		result, err := q.call.ask(q.ctx, method, params)
		if cause := context.Cause(q.ctx); cause != nil {
			if errors.Is(cause, errGivenUp) {
				return
			}
			err = cause
		}
		switch {
		case err == nil && jsontext.IsObject(result):
			a.o.Reply([]byte(id), `"result":`+string(rpc.OneLine(result)))
		case err == nil:
			a.o.Reply([]byte(id), problemReply(-32603, "the client has no valid answer"))
		default:
			f, code := fault.From(err), -32000
			if f.Code == fault.InvalidArguments {
				code = -32602
			}
			a.o.Reply([]byte(id), problemReply(code, f.Message))
		}
	})
}

// RootsResult is the answer to roots/list.
func RootsResult(roots []*mcp.Root) json.RawMessage {
	b, err := json.Marshal(map[string]any{"roots": roots})
	if err != nil { // _meta that is no JSON
		return json.RawMessage(`{"roots":[]}`)
	}
	return b
}

// problemReply is the member error of an answer.
func problemReply(code int, message string) string {
	return fmt.Sprintf(`"error":{"code":%d,"message":%s}`, code, rpc.Quote(message))
}
