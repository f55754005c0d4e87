package session

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
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
	// the server has several of them in flight; others never do.
	Ask   asking.Asker
	Asker string

	// OnProgress gets the params of notifications/progress, the latest only
	// where it is slower than they come. It is called by the goroutine of Call,
	// so never after Call has returned.
	OnProgress func(params json.RawMessage)
}

// Result is the answer to a call.
type Result struct {
	Raw json.RawMessage // the JSON-RPC result, byte for byte but for invalid UTF-8
}

// IsError reports whether the tool itself says that it failed.
func (r *Result) IsError() bool { return string(jsontext.Get(r.Raw, "isError")) == "true" }

// NeedsInput reports whether the call is not over: the server wants answers to
// the inputRequests in the result.
func (r *Result) NeedsInput() bool {
	return string(jsontext.Get(r.Raw, "resultType")) == `"input_required"`
}

// Member is the raw value of a member of the result, such as
// structuredContent; nil where there is none.
func (r *Result) Member(name string) json.RawMessage { return jsontext.Get(r.Raw, name) }

// Text is the content of all text parts, joined by line ends.
func (r *Result) Text() string {
	var parts []string
	jsontext.Elements(jsontext.Get(r.Raw, "content"), func(v []byte) bool {
		var part struct{ Type, Text string }
		if json.Unmarshal(v, &part) == nil && part.Type == "text" {
			parts = append(parts, part.Text)
		}
		return true
	})
	return strings.Join(parts, "\n")
}

// Call carries one call of a tool. It never repeats one. The error is a
// *fault.Error; its outcome is unknown where the request was sent and no answer
// came.
func (s *Session) Call(ctx context.Context, r CallRequest) (*Result, error) {
	res, err := s.call(ctx, r)
	if err != nil {
		s.log.Debug("a call failed", "tool", r.Tool, "call_id", r.CallID, "code", err.Code)
		return nil, err
	}
	return &Result{Raw: res}, nil
}

func (s *Session) call(ctx context.Context, r CallRequest) (json.RawMessage, *fault.Error) {
	m := rpc.Request{Method: "tools/call", Timeout: r.Timeout, OnProgress: r.OnProgress}
	switch {
	case s.agreed.Capabilities.Tools == nil:
		return nil, fault.New(fault.ToolNotFound, "server %s offers no tools", s.server)
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
	if err := s.fill(&m, nil, w); err != nil {
		return nil, err
	}
	if m.OnProgress == nil {
		m.OnProgress = func(json.RawMessage) {} // it buys time all the same
	}

	select {
	case s.slots <- struct{}{}:
	default:
		timeout := r.Timeout
		if timeout == 0 {
			timeout = s.cfg.CallTimeout
		}
		t := time.NewTimer(timeout)
		defer t.Stop()
		select {
		case s.slots <- struct{}{}:
		case <-s.ended:
			return nil, fault.New(s.crashCode, "server %s ended before the call was sent", s.server).Retry()
		case <-ctx.Done():
			return nil, rpc.GaveUp(ctx, m.Method)
		case <-t.C:
			return nil, fault.New(fault.Busy, "server %s has %d calls in flight already", s.server, s.cfg.MaxInFlight).Retry()
		}
	}
	defer func() { <-s.slots }()
	if s.cfg.Elicit || s.cfg.Sampling {
		var leave func()
		m.Origin, leave = s.asking.Enter(r.Ask, r.Asker)
		defer leave()
	}
	return s.conn.Do(ctx, m)
}
