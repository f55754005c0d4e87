package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// maxAsked is how many requests of a server may wait for the client's answer.
const maxAsked = 64

// Asker answers a request of the server that comes in the middle of a call, in
// the eras in which it is a request of its own (2025-11-25, client/elicitation and
// client/sampling). The result is what the method's specification says. Of an
// error that is a *fault.Error the server is told the message, with -32602 where
// the code is invalid_arguments. ctx ends when the server gives the request up, and
// with the call.
type Asker func(ctx context.Context, method string, params json.RawMessage) (result json.RawMessage, err error)

// asking is what the server asks and waits for.
type asking struct {
	mu     sync.Mutex
	open   map[string]*asked // by raw id
	calls  []*inFlight       // that can answer, the oldest first
	last   time.Time         // when the last answer was given
	closed bool
}

// inFlight is a call that can be asked about.
type inFlight struct {
	ask   Asker
	whose string
}

// asked is one request that waits.
type asked struct {
	call   *inFlight
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// errGivenUp is the cause where the server does not wait for the answer any more.
var errGivenUp = errors.New("the server gave its request up")

// enter notes a call that can answer until the function it returns is called.
func (a *asking) enter(r *CallRequest) (c *inFlight, leave func()) {
	c = &inFlight{r.Ask, r.Asker}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, c)
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls = slices.DeleteFunc(a.calls, func(x *inFlight) bool { return x == c })
		for _, q := range a.open {
			if q.call == c {
				q.cancel(errors.New("the call is over"))
			}
		}
	}
}

// begin finds the call that a request belongs to. Over HTTP that is the call in
// whose answer the request came, if it came in one. Nothing on a pipe says which
// one it is, so of several calls the newest answers if they are all the same
// asker's, and else none: one asker must not see another's question.
func (a *asking) begin(parent context.Context, id string, in *inFlight) (*asked, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.calls) == 0 {
		return nil, errors.New("no call is in flight that this could belong to")
	}
	call := a.calls[len(a.calls)-1]
	if slices.Contains(a.calls, in) {
		call = in
	} else if slices.ContainsFunc(a.calls, func(c *inFlight) bool { return c.whose != call.whose }) {
		return nil, errors.New("several calls are in flight, and nothing says which of them asks")
	}
	switch {
	case call.ask == nil:
		return nil, errors.New("the call that is in flight answers no questions")
	case a.closed || len(a.open) >= maxAsked || a.open[id] != nil:
		return nil, errors.New("too many requests wait for an answer, or the id is in use")
	}
	if a.open == nil {
		a.open = map[string]*asked{}
	}
	q := &asked{call: call}
	q.ctx, q.cancel = context.WithCancelCause(parent)
	a.open[id] = q
	return q, nil
}

func (a *asking) end(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[id].cancel(nil)
	delete(a.open, id)
	a.last = time.Now()
}

// cancel ends the wait for a request that the server gave up.
func (a *asking) cancel(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.open[id]; q != nil {
		q.cancel(errGivenUp)
	}
}

func (a *asking) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, q := range a.open {
		q.cancel(errGivenUp)
	}
}

// quiet is for how long the server has not waited for the client: its time to
// answer a call begins anew with each answer that it gets.
func (a *asking) quiet() time.Duration {
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

// asked answers a request of the server. Nothing is left unanswered, and what
// was not offered is refused (2025-11-25, basic/lifecycle: only negotiated
// capabilities). It runs on the read loop and does not wait.
func (s *Session) asked(method string, m jsonline.Message, in *inFlight) {
	switch {
	case method == "ping":
		s.conn.Reply(m.ID, `"result":{}`)
	case method == handshake.MethodRoots && len(s.cfg.Roots) > 0:
		s.conn.Reply(m.ID, `"result":`+string(s.RootsResult()))
	case method == handshake.MethodSampling && s.cfg.Sampling, method == handshake.MethodElicit && s.cfg.Elicit:
		s.ask(method, m, in)
	default:
		s.conn.Reply(m.ID, problemReply(-32601, "this client does not offer "+method))
		s.Report(problemUninvited, "a request that the client did not offer to answer", []byte(method))
	}
}

// ask has the call that the request belongs to answer it. in is the call in whose
// answer it came, or nil.
func (s *Session) ask(method string, m jsonline.Message, in *inFlight) {
	id := string(m.ID)
	q, err := s.asking.begin(s.ctx, id, in)
	if err != nil {
		s.conn.Reply(m.ID, problemReply(-32000, err.Error()))
		s.Report(problemUninvited, err.Error(), []byte(method))
		return
	}
	params := bytes.Clone(m.Params)
	s.work.Go(func() { // the read loop is still there, so nobody has waited for the others yet
		defer s.asking.end(id)
		result, err := q.call.ask(q.ctx, method, params)
		if cause := context.Cause(q.ctx); cause != nil {
			if errors.Is(cause, errGivenUp) {
				return
			}
			err = cause
		}
		switch {
		case err == nil && jsontext.IsObject(result):
			s.conn.Reply([]byte(id), `"result":`+string(rpc.OneLine(result)))
		case err == nil:
			s.conn.Reply([]byte(id), problemReply(-32603, "the client has no valid answer"))
		default:
			f, code := fault.From(err), -32000
			if f.Code == fault.InvalidArguments {
				code = -32602
			}
			s.conn.Reply([]byte(id), problemReply(code, f.Message))
		}
	})
}

// RootsResult is the answer to roots/list.
func (s *Session) RootsResult() json.RawMessage {
	b, err := json.Marshal(map[string]any{"roots": s.cfg.Roots})
	if err != nil { // _meta that is no JSON
		return json.RawMessage(`{"roots":[]}`)
	}
	return b
}

// Relays says whether the server may make requests of a method of clients further
// away, see [Config].Relay.
func (s *Session) Relays(method string) bool { return s.cfg.Relay.Has(method) }

// Offers says whether the client offered to answer requests of a method, such as
// handshake.MethodElicit.
func (s *Session) Offers(method string) bool { return s.cfg.features().Has(method) }

func problemReply(code int, message string) string {
	return fmt.Sprintf(`"error":{"code":%d,"message":%s}`, code, rpc.Quote(message))
}
