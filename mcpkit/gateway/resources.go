package gateway

import (
	"context"
	"encoding/json"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/question"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
)

// list carries the lists beside tools/list.
func (r *request) list(ctx context.Context, l view.List, read view.Reader) ([]byte, *rpc.Error) {
	page, err := r.g.servers.Page(ctx, r.view, l, r.Members.Cursor, read)
	if err != nil {
		return nil, err
	}
	return r.form(cacheable).Own(page), nil
}

// read carries resources/read.
func (r *request) read(ctx context.Context) ([]byte, *rpc.Error) {
	from, err := r.g.servers.Resource(r.view, r.Members.URI)
	if err != nil {
		return nil, err
	}
	return r.rounds(ctx, from.Server, cacheable, func(far *ask.Far) (json.RawMessage, error) {
		res, err := r.g.o.Offers.ReadResource(ctx, offers.Read{Server: from.Server, URI: from.Name, Entrance: Entrance, Far: far, Trace: r.Members.Meta.Trace})
		if err != nil {
			return nil, err
		}
		return res.Raw, nil
	})
}

// prompt finds the prompt with a name that the client knows.
func (r *request) prompt(ctx context.Context, name string) (view.Origin, *rpc.Error) {
	return r.g.servers.Prompt(ctx, r.view, name, r.g.o.Offers.Prompts)
}

// get carries prompts/get.
func (r *request) get(ctx context.Context) ([]byte, *rpc.Error) {
	from, err := r.prompt(ctx, r.Members.Name)
	if err != nil {
		return nil, err
	}
	var args map[string]string
	if r.Members.Arguments != nil && json.Unmarshal(r.Members.Arguments, &args) != nil {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "the arguments of a prompt are strings"}
	}
	return r.rounds(ctx, from.Server, !cacheable, func(far *ask.Far) (json.RawMessage, error) {
		p, err := r.g.o.Offers.GetPrompt(ctx, offers.Expand{Server: from.Server, Prompt: from.Name, Arguments: args, Entrance: Entrance, Far: far, Trace: r.Members.Meta.Trace})
		if err != nil {
			return nil, err
		}
		return p.Raw, nil
	})
}

// rounds makes a request of a server as often as the server asks the client of a
// session for input.
func (r *request) rounds(ctx context.Context, server string, cacheable bool, do func(*ask.Far) (json.RawMessage, error)) ([]byte, *rpc.Error) {
	far := r.far()
	for range maxRounds {
		raw, err := do(far)
		if err != nil {
			return nil, rpc.ErrorOf(err)
		}
		if r.stateless || !question.Asked(raw) {
			return r.form(cacheable).Pass(r.g.servers.Rename(r.view, server, raw)), nil
		}
		inputs, fail := r.gather(ctx, jsontext.Get(raw, "inputRequests"))
		if fail != nil {
			return nil, rpc.ErrorOf(fail)
		}
		far.InputResponses, far.RequestState = inputs, jsontext.Get(raw, "requestState")
	}
	return nil, rpc.ErrorOf(fault.New(fault.InputRequired, "the server asked for input more than %d times", maxRounds))
}

// gather puts a server's input requests to the client of a session, one after the
// other, and returns the answers by their keys.
func (r *request) gather(ctx context.Context, requests json.RawMessage) (json.RawMessage, *fault.Error) {
	b := []byte{'{'}
	var fail *fault.Error
	ok := jsontext.Members(requests, func(key, value []byte) bool {
		method, _ := rpc.Text(jsontext.Get(value, "method"))
		params := jsontext.Get(value, "params")
		if params == nil {
			params = []byte("{}")
		}
		if !question.Answers(r.caps, method, params) {
			fail = fault.New(fault.InputRequired, "the server asks the client for %.60q, which it does not offer", method)
			return false
		}
		var answer json.RawMessage
		if answer, fail = r.conn.Ask(ctx, r.out, method, params); fail != nil {
			return false
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, rpc.Quote(string(key))...), ':'), answer...)
		return true
	})
	if fail == nil && !ok {
		fail = fault.New(fault.Protocol, "the server asks for input without saying for which")
	}
	return append(b, '}'), fail
}

// complete carries completion/complete.
func (r *request) complete(ctx context.Context) ([]byte, *rpc.Error) {
	var known struct {
		Arguments map[string]string `json:"arguments"`
	}
	kind, _ := rpc.Text(jsontext.Get(r.Members.Ref, "type"))
	name, _ := rpc.Text(jsontext.Get(r.Members.Ref, "name"))
	uri, _ := rpc.Text(jsontext.Get(r.Members.Ref, "uri"))
	argument, ok1 := rpc.Text(jsontext.Get(r.Members.Argument, "name"))
	value, ok2 := rpc.Text(jsontext.Get(r.Members.Argument, "value"))
	if !ok1 || !ok2 || r.Members.Context != nil && json.Unmarshal(r.Members.Context, &known) != nil {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "a completion names an argument with name and value"}
	}
	c := offers.Completion{Argument: argument, Value: value, Arguments: known.Arguments}
	switch kind {
	case "ref/prompt":
		from, err := r.prompt(ctx, name)
		if err != nil {
			return nil, err
		}
		c.Server, c.Prompt = from.Server, from.Name
	case "ref/resource":
		from, err := r.g.servers.Resource(r.view, uri)
		if err != nil {
			return nil, err
		}
		c.Server, c.Template = from.Server, from.Name
	default:
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "a completion is for ref/prompt or ref/resource"}
	}
	raw, err := r.g.o.Offers.Complete(ctx, c)
	if err != nil {
		if fault.From(err).Code == fault.Protocol && fault.From(err).Data == nil { // the server completes nothing
			return r.form(!cacheable).Own([]byte(`"completion":{"values":[]}`)), nil
		}
		return nil, rpc.ErrorOf(err)
	}
	return r.form(!cacheable).Pass(raw), nil
}
