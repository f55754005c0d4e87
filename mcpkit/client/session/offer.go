package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// With is what a request may carry beside its own parameters. The zero value
// carries nothing.
type With struct {
	// Meta is an object for _meta, such as traceparent. The names that belong to
	// the session (progressToken, io.modelcontextprotocol/…) are left out.
	Meta json.RawMessage
	// InputResponses and RequestState answer an earlier result that asked for
	// input (2026-07-28, multi round-trip requests).
	InputResponses, RequestState json.RawMessage
	// Capabilities is the ClientCapabilities object of a client further away, for
	// whom the request is made. Under the stateless protocol it stands in for the
	// session's own, as far as [Config].Relay lets it.
	Capabilities json.RawMessage
	// Anew asks the server also where an earlier answer is still fresh.
	Anew bool
}

// fill completes a request whose own parameters are params.
func (s *Session) fill(m *rpc.Request, params []byte, w With) *fault.Error {
	responses, err := object("inputResponses", w.InputResponses, false)
	if err != nil {
		return err
	}
	params = append(params, responses...)
	if state := bytes.TrimSpace(w.RequestState); len(state) > 0 && string(state) != "null" {
		if !jsontext.Valid(state) {
			return fault.New(fault.InvalidArguments, "requestState is no valid JSON")
		}
		params = append(append(params, `,"requestState":`...), rpc.OneLine(state)...)
	}
	m.Params = params
	if meta := bytes.TrimSpace(w.Meta); len(meta) > 0 && string(meta) != "null" {
		var ok bool
		if m.Meta, ok = rpc.Members(meta, rpc.ReservedMeta); !ok {
			return fault.New(fault.InvalidArguments, "_meta is no JSON object")
		}
	}
	m.Asker = s.agreed.Metadata.MembersFor(w.Capabilities)
	return nil
}

// object is the member name with the object raw, led by a comma; {} stands in
// for what is absent where it must be there.
func object(name string, raw json.RawMessage, must bool) ([]byte, *fault.Error) {
	raw, err := given(name, raw, must)
	if raw == nil {
		return nil, err
	}
	b := make([]byte, 0, len(name)+4+len(raw))
	return append(append(append(append(b, `,"`...), name...), `":`...), rpc.OneLine(raw)...), nil
}

// given is the object raw, checked; {} stands in for what is absent where it must
// be there, else nothing does.
func given(name string, raw json.RawMessage, must bool) (json.RawMessage, *fault.Error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		if !must {
			return nil, nil
		}
		return json.RawMessage("{}"), nil
	case !jsontext.IsObject(raw):
		return nil, fault.New(fault.InvalidArguments, "%s is no JSON object", name)
	}
	return raw, nil
}

// ListResources is every resource of the server as raw objects. Lists and
// resources that the server says are fresh for a while (2026-07-28, ttlMs) are
// not asked for again until then, or until it says that they changed.
func (s *Session) ListResources(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, s.agreed.Capabilities.Resources != nil, "resources/list", "resources")
}

// ListResourceTemplates is every resource template of the server as raw objects.
func (s *Session) ListResourceTemplates(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, s.agreed.Capabilities.Resources != nil, methodTemplates, "resourceTemplates")
}

// ListPrompts is every prompt of the server as raw objects.
func (s *Session) ListPrompts(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, s.agreed.Capabilities.Prompts != nil, "prompts/list", "prompts")
}

// ReadResource is the result of resources/read, which may ask for input.
func (s *Session) ReadResource(ctx context.Context, uri string, w With) (*Result, error) {
	if s.agreed.Capabilities.Resources == nil {
		return nil, s.notOffered("resources")
	}
	plain := len(w.InputResponses) == 0 && w.Capabilities == nil
	if !w.Anew && plain {
		if kept, ok := s.cache.get(methodRead + uri); ok {
			return &Result{Raw: kept[0]}, nil
		}
	}
	gen := s.cache.now()
	res, err := s.get(ctx, methodRead, `"uri":`+rpc.Quote(uri), w)
	if err == nil && plain && !res.NeedsInput() {
		s.cache.put(gen, methodRead+uri, []json.RawMessage{res.Raw}, s.fresh(res.Raw))
	}
	return res, err
}

// GetPrompt is the result of prompts/get, which may ask for input.
func (s *Session) GetPrompt(ctx context.Context, name string, arguments map[string]string, w With) (*Result, error) {
	if s.agreed.Capabilities.Prompts == nil {
		return nil, s.notOffered("prompts")
	}
	args, err := json.Marshal(arguments)
	if err != nil || arguments == nil {
		args = []byte("{}")
	}
	return s.get(ctx, "prompts/get", `"name":`+rpc.Quote(name)+`,"arguments":`+string(args), w)
}

// Complete is the result of completion/complete: values for an argument of the
// prompt or resource template that ref names, an object with type and name or
// uri. known are the arguments that are set already
// (2025-11-25, server/utilities/completion).
func (s *Session) Complete(ctx context.Context, ref json.RawMessage, argument, value string, known map[string]string) (*Result, error) {
	if s.agreed.Capabilities.Completions == nil {
		return nil, fault.New(fault.Protocol, "server %s offers no completion", s.server)
	}
	arg, _ := json.Marshal(map[string]string{"name": argument, "value": value}) // strings always marshal
	reference, bad := object("ref", ref, true)
	if bad != nil {
		return nil, bad
	}
	params := `"argument":` + string(arg) + string(reference)
	if len(known) > 0 {
		set, _ := json.Marshal(known)
		params += `,"context":{"arguments":` + string(set) + `}`
	}
	return s.get(ctx, "completion/complete", params, With{})
}

// LogLevels are the levels of log messages, the least severe first
// (2025-11-25, server/utilities/logging).
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// SetLogLevel asks the server for log messages of a level and above. Under the
// stateless protocol every later request says so instead (2026-07-28, SEP-2577).
func (s *Session) SetLogLevel(ctx context.Context, level string) error {
	if s.agreed.Capabilities.Logging == nil {
		return fault.New(fault.Protocol, "server %s offers no log messages", s.server)
	}
	if s.Stateless() {
		s.agreed.Metadata.SetLogLevel(level)
		return nil
	}
	_, err := s.get(ctx, "logging/setLevel", `"level":`+rpc.Quote(level), With{})
	return err
}

// Capabilities says which of resources, subscriptions to them, prompts,
// completions and logging the server offers.
func (s *Session) Capabilities() Capabilities {
	return Capabilities{
		Tools: s.agreed.Capabilities.Tools != nil, Resources: s.agreed.Capabilities.Resources != nil, Prompts: s.agreed.Capabilities.Prompts != nil,
		Subscribe: s.agreed.Capabilities.Resources != nil && s.agreed.Capabilities.Resources.Subscribe, Completions: s.agreed.Capabilities.Completions != nil, Logging: s.agreed.Capabilities.Logging != nil,
	}
}

// Capabilities are what a server offers.
type Capabilities struct{ Tools, Resources, Subscribe, Prompts, Completions, Logging bool }

func (s *Session) list(ctx context.Context, offered bool, method, member string) ([]json.RawMessage, error) {
	if what, _, _ := strings.Cut(method, "/"); !offered {
		return nil, s.notOffered(what)
	}
	if kept, ok := s.cache.get(method); ok {
		return kept, nil
	}
	return s.Relist(ctx, method, member)
}

// Relist reads all pages of a list of resources or prompts anew.
func (s *Session) Relist(ctx context.Context, method, member string) ([]json.RawMessage, error) {
	gen := s.cache.now()
	items, fresh, err := s.walk(ctx, method, member)
	if err == nil {
		s.cache.put(gen, method, items, fresh)
	}
	return items, err
}

// ListTools reads all pages of the list of tools, as raw objects. unfit says for
// each why the wire cannot carry calls of it, or ""; it is nil where the wire can
// carry all. fresh is for how long the list is good by the server's word, or 0.
func (s *Session) ListTools(ctx context.Context) (items []json.RawMessage, unfit []string, fresh time.Duration, err error) {
	items, fresh, err = s.walk(ctx, "tools/list", "tools")
	if w, ok := s.wire.(toolWire); ok && err == nil {
		unfit = w.Tools(items)
	}
	return items, unfit, fresh, err
}

// toolWire is a Wire whose messages look different by tool: it is told of each
// reading of the list, and says for each tool why it cannot be called, or "".
type toolWire interface {
	Tools(list []json.RawMessage) []string
}

func (s *Session) get(ctx context.Context, method, params string, w With) (*Result, error) {
	m := rpc.Request{Method: method, OnProgress: func(json.RawMessage) {}} // progress buys time
	if err := s.fill(&m, []byte(params), w); err != nil {
		return nil, err
	}
	res, err := s.conn.Do(ctx, m)
	if err != nil {
		return nil, err
	}
	return &Result{Raw: res}, nil
}

func (s *Session) notOffered(what string) error {
	return fault.New(fault.Protocol, "server %s offers no %s", s.server, what)
}

// maxFresh bounds for how long a server's word on its freshness is taken.
const maxFresh = 24 * time.Hour

// fresh is for how long an answer is good, by the server's word (2026-07-28,
// caching). A session is one server's and speaks for one principal, so that
// answers of either cacheScope may be kept in it; nothing of it is shared.
func (s *Session) fresh(res json.RawMessage) time.Duration {
	ms, ok := rpc.Integer(jsontext.Get(res, "ttlMs"))
	if !s.Stateless() || !ok || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxFresh.Milliseconds())) * time.Millisecond
}

// walk reads all pages of a list, within limits. When one is reached, time is
// up, or a later page fails, it reports that and keeps what it has.
// The list is fresh for as long as its most short-lived page.
func (s *Session) walk(ctx context.Context, method, member string) (items []json.RawMessage, fresh time.Duration, _ error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ListTimeout)
	defer cancel()
	guard := func(format string, args ...any) {
		s.Report(problemList, method+": "+fmt.Sprintf(format, args...), nil)
	}
	cursors := map[string]bool{}
	size := 0
	m := rpc.Request{Method: method, Asker: s.agreed.Metadata.Members()}
	for page := 1; ; page++ {
		res, err := s.conn.Do(ctx, m)
		switch {
		case err != nil && page > 1 && (err.Code == fault.Protocol || err.Code == fault.Timeout):
			guard("no more after %d pages: %v", page-1, err)
			return items, 0, nil
		case err != nil:
			return nil, 0, err
		}
		if f := s.fresh(res); page == 1 || f < fresh {
			fresh = f
		}
		if !jsontext.Elements(jsontext.Get(res, member), func(v []byte) bool { items = append(items, v); return true }) {
			return nil, 0, fault.New(fault.Protocol, "the result of %s has no array %q", method, member)
		}
		size += len(res)
		next := jsontext.Get(res, "nextCursor")
		switch {
		case len(items) > s.cfg.MaxTools:
			guard("more than %d items", s.cfg.MaxTools)
			return items[:s.cfg.MaxTools], fresh, nil
		case len(next) == 0, string(next) == "null", string(next) == `""`:
			return items, fresh, nil
		case cursors[string(next)]:
			guard("a cursor came again after %d pages", page)
			return items, fresh, nil
		case page == s.cfg.MaxPages:
			guard("more than %d pages", page)
			return items, fresh, nil
		case size > s.cfg.MaxLine:
			guard("more than %d bytes", s.cfg.MaxLine)
			return items, fresh, nil
		}
		cursors[string(next)] = true
		m.Params = append([]byte(`"cursor":`), rpc.OneLine(next)...)
	}
}
