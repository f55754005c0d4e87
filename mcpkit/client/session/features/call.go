package features

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/asking"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// CallRequest is one call of a tool.
type CallRequest struct {
	Server    string
	Tool      string          // the server's own name for it
	Arguments json.RawMessage // an object, sent with its digits as they are; empty or null is {}
	Checked   bool            // the caller has seen to it that Arguments is one valid JSON object
	CallID    string          // of the caller, for the log
	Timeout   time.Duration   // 0: the server's; progress grants it anew, up to the ceiling

	// Meta is an object for _meta, such as traceparent. The names that belong to
	// the session (progressToken, io.modelcontextprotocol/…) are left out.
	Meta json.RawMessage

	// InputResponses and RequestState answer an earlier result that asked for
	// input (2026-07-28, multi round-trip requests).
	InputResponses, RequestState json.RawMessage

	// Capabilities is as in With.
	Capabilities json.RawMessage

	// Ask answers what the server asks in the middle of the call, where the session
	// offers that; nil refuses. Calls of one Asker see each other's questions, where
	// the server has several of them in flight; others never do: over a pipe, which
	// does not say which call a question belongs to, they wait for their turn.
	Ask   asking.Asker
	Asker string

	// OnProgress gets the params of notifications/progress, the latest only
	// where it is slower than they come. It is called by the goroutine of Call,
	// so never after Call has returned.
	OnProgress func(params json.RawMessage)
}

// Call carries one call of a tool. It never repeats one. The error is a
// *fault.Error; its outcome is unknown where the request was sent and no answer
// came.
func (c *Client) Call(ctx context.Context, r CallRequest) (*Result, error) {
	res, err := c.call(ctx, r)
	if err != nil {
		c.o.Log.Debug("a call failed", "tool", r.Tool, "call_id", r.CallID, "code", err.Code)
		return nil, err
	}
	return &Result{Raw: res}, nil
}

func (c *Client) call(ctx context.Context, r CallRequest) (json.RawMessage, *fault.Error) {
	m := rpc.Request{Method: "tools/call", Timeout: r.Timeout, OnProgress: r.OnProgress}
	switch {
	case c.o.Agreed.Capabilities.Tools == nil:
		return nil, fault.New(fault.ToolNotFound, "server %s offers no tools", c.o.Server)
	case r.Tool == "":
		return nil, fault.New(fault.InvalidArguments, "the call names no tool")
	case r.Timeout < 0:
		return nil, fault.New(fault.InvalidArguments, "the timeout %v is negative", r.Timeout)
	}
	args := r.Arguments
	if !r.Checked {
		var err *fault.Error
		if args, err = given("arguments", args, true); err != nil {
			return nil, err
		}
	}
	m.Tool, m.Arguments = r.Tool, rpc.OneLine(args)
	w := With{Meta: r.Meta, InputResponses: r.InputResponses, RequestState: r.RequestState, Capabilities: r.Capabilities}
	if err := c.fill(&m, nil, w); err != nil {
		return nil, err
	}
	if m.OnProgress == nil {
		m.OnProgress = func(json.RawMessage) {} // it buys time all the same
	}

	select {
	case c.slots <- struct{}{}:
	default:
		t := time.NewTimer(cmp.Or(r.Timeout, c.o.CallTimeout))
		defer t.Stop()
		select {
		case c.slots <- struct{}{}:
		case <-c.o.Ended:
			return nil, fault.New(c.o.Crash, "server %s ended before the call was sent", c.o.Server).Retry()
		case <-ctx.Done():
			return nil, rpc.GaveUp(ctx, m.Method)
		case <-t.C:
			return nil, fault.New(fault.Busy, "server %s has %d calls in flight already", c.o.Server, c.o.MaxInFlight).Retry()
		}
	}
	defer func() { <-c.slots }()
	if c.o.Questions != nil {
		turn, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, c.o.CallTimeout))
		origin, leave, err := c.o.Questions.Enter(turn, r.Ask, r.Asker)
		cancel()
		switch {
		case err == nil:
			m.Origin = origin
			defer leave()
		case ctx.Err() != nil:
			return nil, rpc.GaveUp(ctx, m.Method)
		default:
			return nil, fault.New(fault.Busy, "server %s works on calls of somebody else, and may ask questions in the middle of a call: calls of several callers take turns", c.o.Server).Retry()
		}
	}
	return c.o.Conn.Do(ctx, m)
}

// InFlight is how many calls have no answer.
func (c *Client) InFlight() int { return len(c.slots) }

// Drain waits until no call is in flight, the session has ended, or ctx is done. Calls
// that come meanwhile wait behind it.
func (c *Client) Drain(ctx context.Context) {
	for range cap(c.slots) { // who has every slot knows that nobody else has one
		select {
		case c.slots <- struct{}{}:
		case <-c.o.Ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
