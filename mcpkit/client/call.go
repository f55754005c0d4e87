package client

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// CallRequest is one call of a tool.
type CallRequest struct {
	Server    string
	Tool      string          // the server's own name for it
	Arguments json.RawMessage // an object, sent with its digits as they are; empty or null is {}
	CallID    string          // of the caller, for the log
	Timeout   time.Duration   // 0: the server's; progress grants it anew, up to the ceiling

	// Meta is an object for _meta, such as traceparent. The names that belong to
	// the session (progressToken, io.modelcontextprotocol/…) are left out.
	Meta json.RawMessage

	// InputResponses and RequestState answer an earlier result that asked for
	// input (2026-07-28, multi round-trip requests).
	InputResponses, RequestState json.RawMessage

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
func (r *Result) IsError() bool { return string(jsonline.Get(r.Raw, "isError")) == "true" }

// NeedsInput reports whether the call is not over: the server wants answers to
// the inputRequests in the result.
func (r *Result) NeedsInput() bool {
	return string(jsonline.Get(r.Raw, "resultType")) == `"input_required"`
}

// Member is the raw value of a member of the result, such as
// structuredContent; nil where there is none.
func (r *Result) Member(name string) json.RawMessage { return jsonline.Get(r.Raw, name) }

// Text is the content of all text parts, joined by line ends.
func (r *Result) Text() string {
	var parts []string
	jsonline.Elements(jsonline.Get(r.Raw, "content"), func(v []byte) {
		var part struct{ Type, Text string }
		if json.Unmarshal(v, &part) == nil && part.Type == "text" {
			parts = append(parts, part.Text)
		}
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
	m := message{method: "tools/call", timeout: r.Timeout, onProgress: r.OnProgress}
	switch {
	case !s.lists.offers(tools):
		return nil, fault.New(fault.ToolNotFound, "server %s offers no tools", s.server)
	case r.Tool == "":
		return nil, fault.New(fault.InvalidArguments, "the call names no tool")
	case r.Timeout < 0:
		return nil, fault.New(fault.InvalidArguments, "the timeout %v is negative", r.Timeout)
	}
	b := append(make([]byte, 0, 64+len(r.Tool)+len(r.Arguments)), `"name":`...)
	b = append(b, quote(r.Tool)...)
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		must bool // be there
	}{
		{"arguments", r.Arguments, true},
		{"inputResponses", r.InputResponses, false},
		{"requestState", r.RequestState, false},
	} {
		raw := bytes.TrimSpace(part.raw)
		switch {
		case len(raw) == 0 || string(raw) == "null":
			if !part.must {
				continue
			}
			raw = []byte("{}")
		case part.name == "requestState":
			if !jsonline.Valid(raw) {
				return nil, fault.New(fault.InvalidArguments, "%s is no valid JSON", part.name)
			}
		case !jsonline.IsObject(raw):
			return nil, fault.New(fault.InvalidArguments, "%s is no JSON object", part.name)
		}
		b = append(append(append(append(b, `,"`...), part.name...), `":`...), oneLine(raw)...)
	}
	m.params = b
	if meta := bytes.TrimSpace(r.Meta); len(meta) > 0 && string(meta) != "null" {
		var ok bool
		if m.meta, ok = inner(meta, ownMeta); !ok {
			return nil, fault.New(fault.InvalidArguments, "_meta is no JSON object")
		}
	}
	if m.onProgress == nil {
		m.onProgress = func(json.RawMessage) {} // it buys time all the same
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
			return nil, fault.New(s.crashCode(), "server %s ended before the call was sent", s.server).Retry()
		case <-ctx.Done():
			return nil, gaveUp(ctx, m.method)
		case <-t.C:
			return nil, fault.New(fault.Busy, "server %s has %d calls in flight already", s.server, s.cfg.MaxInFlight).Retry()
		}
	}
	defer func() { <-s.slots }()
	return s.request(ctx, m)
}

// ownMeta reports whether only the session may write that member of _meta.
func ownMeta(name []byte) bool {
	return string(name) == "progressToken" || bytes.HasPrefix(name, []byte("io.modelcontextprotocol/"))
}

// ListResources is every resource of the server as raw objects.
func (s *Session) ListResources(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, resources, "resources/list", "resources")
}

// ListResourceTemplates is every resource template of the server as raw objects.
func (s *Session) ListResourceTemplates(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, resources, "resources/templates/list", "resourceTemplates")
}

// ReadResource is the raw result of resources/read.
func (s *Session) ReadResource(ctx context.Context, uri string) (json.RawMessage, error) {
	return s.get(ctx, resources, "resources/read", `"uri":`+quote(uri))
}

// ListPrompts is every prompt of the server as raw objects.
func (s *Session) ListPrompts(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, prompts, "prompts/list", "prompts")
}

// GetPrompt is the raw result of prompts/get.
func (s *Session) GetPrompt(ctx context.Context, name string, arguments map[string]string) (json.RawMessage, error) {
	args, err := json.Marshal(arguments)
	if err != nil || arguments == nil {
		args = []byte("{}")
	}
	return s.get(ctx, prompts, "prompts/get", `"name":`+quote(name)+`,"arguments":`+string(args))
}

func (s *Session) list(ctx context.Context, i int, method, member string) ([]json.RawMessage, error) {
	if !s.lists.offers(i) {
		return nil, s.notOffered(i)
	}
	return s.walk(ctx, method, member)
}

func (s *Session) get(ctx context.Context, i int, method, params string) (json.RawMessage, error) {
	if !s.lists.offers(i) {
		return nil, s.notOffered(i)
	}
	res, err := s.request(ctx, message{method: method, params: []byte(params)})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (s *Session) notOffered(i int) error {
	return fault.New(fault.Protocol, "server %s offers no %s", s.server, allLists[i].name)
}
