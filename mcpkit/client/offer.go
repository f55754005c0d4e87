package client

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
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
	// session's own, as far as [ServerConfig].Relay lets it.
	Capabilities json.RawMessage
	// Anew asks the server also where an earlier answer is still fresh.
	Anew bool
}

// fill completes a request whose own parameters are params.
func (w With) fill(m *message, params []byte) *fault.Error {
	responses, err := object("inputResponses", w.InputResponses, false)
	if err != nil {
		return err
	}
	params = append(params, responses...)
	if state := bytes.TrimSpace(w.RequestState); len(state) > 0 && string(state) != "null" {
		if !jsonline.Valid(state) {
			return fault.New(fault.InvalidArguments, "requestState is no valid JSON")
		}
		params = append(append(params, `,"requestState":`...), oneLine(state)...)
	}
	m.params = params
	if meta := bytes.TrimSpace(w.Meta); len(meta) > 0 && string(meta) != "null" {
		var ok bool
		if m.meta, ok = inner(meta, ownMeta); !ok {
			return fault.New(fault.InvalidArguments, "_meta is no JSON object")
		}
	}
	m.caps = w.Capabilities
	return nil
}

// Relay says which capabilities of clients further away a server may use.
type Relay struct{ Roots, Sampling, Elicitation bool }

// capabilities is the member of _meta for a far client's capabilities.
func (r Relay) capabilities(far json.RawMessage) []byte {
	b := append([]byte(nil), `"`+mcp.MetaKeyClientCapabilities+`":{`...)
	begun := len(b)
	jsonline.Members(far, func(name, value []byte) bool {
		switch string(name) {
		case "roots":
			if !r.Roots {
				return true
			}
		case "sampling":
			if !r.Sampling {
				return true
			}
		case "elicitation":
			if !r.Elicitation {
				return true
			}
		default: // nothing that is not understood is promised
			return true
		}
		if len(b) > begun {
			b = append(b, ',')
		}
		b = append(append(append(append(append(b, '"'), name...), '"'), ':'), oneLine(value)...)
		return true
	})
	return append(b, '}')
}

// tripleFor is triple with a far client's capabilities.
func (s *Session) tripleFor(far json.RawMessage) []byte {
	own := s.triple()
	if own == nil || far == nil {
		return own
	}
	rest, _ := inner(append(append([]byte{'{'}, own...), '}'), func(name []byte) bool {
		return string(name) == mcp.MetaKeyClientCapabilities
	})
	return append(append(rest, ','), s.cfg.Relay.capabilities(far)...)
}

// object is the member name with the object raw, led by a comma; {} stands in
// for what is absent where it must be there.
func object(name string, raw json.RawMessage, must bool) ([]byte, *fault.Error) {
	raw, err := given(name, raw, must)
	if raw == nil {
		return nil, err
	}
	b := make([]byte, 0, len(name)+4+len(raw))
	return append(append(append(append(b, `,"`...), name...), `":`...), oneLine(raw)...), nil
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
	case !jsonline.IsObject(raw):
		return nil, fault.New(fault.InvalidArguments, "%s is no JSON object", name)
	}
	return raw, nil
}

// ListResources is every resource of the server as raw objects. Lists and
// resources that the server says are fresh for a while (2026-07-28, ttlMs) are
// not asked for again until then, or until it says that they changed.
func (s *Session) ListResources(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, resources, "resources/list", "resources")
}

// ListResourceTemplates is every resource template of the server as raw objects.
func (s *Session) ListResourceTemplates(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, resources, methodTemplates, "resourceTemplates")
}

// ListPrompts is every prompt of the server as raw objects.
func (s *Session) ListPrompts(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, prompts, "prompts/list", "prompts")
}

// ReadResource is the result of resources/read, which may ask for input.
func (s *Session) ReadResource(ctx context.Context, uri string, w With) (*Result, error) {
	if !s.lists.offers(resources) {
		return nil, s.notOffered(resources)
	}
	plain := len(w.InputResponses) == 0 && w.Capabilities == nil
	if !w.Anew && plain {
		if kept, ok := s.cache.get(methodRead + uri); ok {
			return &Result{Raw: kept[0]}, nil
		}
	}
	gen := s.cache.now()
	res, err := s.get(ctx, methodRead, `"uri":`+quote(uri), w)
	if err == nil && plain && !res.NeedsInput() {
		s.cache.put(gen, methodRead+uri, []json.RawMessage{res.Raw}, s.fresh(res.Raw))
	}
	return res, err
}

// GetPrompt is the result of prompts/get, which may ask for input.
func (s *Session) GetPrompt(ctx context.Context, name string, arguments map[string]string, w With) (*Result, error) {
	if !s.lists.offers(prompts) {
		return nil, s.notOffered(prompts)
	}
	args, err := json.Marshal(arguments)
	if err != nil || arguments == nil {
		args = []byte("{}")
	}
	return s.get(ctx, "prompts/get", `"name":`+quote(name)+`,"arguments":`+string(args), w)
}

// Complete is the result of completion/complete: values for an argument of the
// prompt or resource template that ref names, an object with type and name or
// uri. known are the arguments that are set already
// (2025-11-25, server/utilities/completion).
func (s *Session) Complete(ctx context.Context, ref json.RawMessage, argument, value string, known map[string]string) (*Result, error) {
	if s.caps.Completions == nil {
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
	if s.caps.Logging == nil {
		return fault.New(fault.Protocol, "server %s offers no log messages", s.server)
	}
	if s.version >= stateless {
		s.setTriple(level)
		return nil
	}
	_, err := s.get(ctx, "logging/setLevel", `"level":`+quote(level), With{})
	return err
}

// Capabilities says which of resources, subscriptions to them, prompts,
// completions and logging the server offers.
func (s *Session) Capabilities() Capabilities {
	return Capabilities{
		Tools: s.caps.Tools != nil, Resources: s.caps.Resources != nil, Prompts: s.caps.Prompts != nil,
		Subscribe: s.caps.Resources != nil && s.caps.Resources.Subscribe, Completions: s.caps.Completions != nil, Logging: s.caps.Logging != nil,
	}
}

// Capabilities are what a server offers.
type Capabilities struct{ Tools, Resources, Subscribe, Prompts, Completions, Logging bool }

func (s *Session) list(ctx context.Context, i int, method, member string) ([]json.RawMessage, error) {
	if !s.lists.offers(i) {
		return nil, s.notOffered(i)
	}
	if kept, ok := s.cache.get(method); ok {
		return kept, nil
	}
	gen := s.cache.now()
	items, fresh, err := s.walk(ctx, method, member)
	if err == nil {
		s.cache.put(gen, method, items, fresh)
	}
	return items, err
}

func (s *Session) get(ctx context.Context, method, params string, w With) (*Result, error) {
	m := message{method: method, onProgress: func(json.RawMessage) {}} // progress buys time
	if err := w.fill(&m, []byte(params)); err != nil {
		return nil, err
	}
	res, err := s.request(ctx, m)
	if err != nil {
		return nil, err
	}
	return &Result{Raw: res}, nil
}

func (s *Session) notOffered(i int) error {
	return fault.New(fault.Protocol, "server %s offers no %s", s.server, allLists[i].name)
}

// maxFresh bounds for how long a server's word on its freshness is taken.
const maxFresh = 24 * time.Hour

// fresh is for how long an answer is good, by the server's word (2026-07-28,
// caching). A session is one server's and speaks for one principal, so that
// answers of either cacheScope may be kept in it; nothing of it is shared.
func (s *Session) fresh(res json.RawMessage) time.Duration {
	ms, ok := integer(jsonline.Get(res, "ttlMs"))
	if s.version < stateless || !ok || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxFresh.Milliseconds())) * time.Millisecond
}
