package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/host"
)

// origin is where something with a name of ours comes from.
type origin struct{ server, name string }

// list is one page of a list of the servers' things.
func (r *request) list(ctx context.Context, member, key string, read func(context.Context, string) ([]host.Item, error), name func(s Server, own string) string) ([]byte, *rpc.Error) {
	from := 0
	if r.Members.Cursor != "" {
		var err error
		if from, err = strconv.Atoi(r.Members.Cursor); err != nil || from < 1 {
			return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "there is no page " + strconv.Quote(strings.ToValidUTF8(r.Members.Cursor, "?"))}
		}
	}
	items, err := read(ctx, r.c.view.Only)
	if err != nil && r.c.view.Only != "" && fault.From(err).Code == fault.Protocol {
		err = nil // it offers none
	}
	if err != nil {
		return nil, rpc.ErrorOf(err)
	}
	servers := r.c.g.servers(r.c.view)
	b := append([]byte{'"'}, member...)
	b = append(b, `":[`...)
	n := 0
	for _, item := range items {
		s, visible := servers[item.Server]
		own, ok := rpc.Text(jsontext.Get(item.Raw, key))
		if !visible || !ok {
			continue
		}
		if n++; n <= from {
			continue
		}
		if n > from+perPage {
			return r.reply(append(b, `],"nextCursor":"`+strconv.Itoa(from+perPage)+`"`...), cacheable), nil
		}
		if n > from+1 {
			b = append(b, ',')
		}
		if r.c.view.Only != "" {
			b = append(b, item.Raw...)
		} else {
			b = append(b, rpc.With(item.Raw, key, rpc.Quote(name(s, own)))...)
		}
	}
	return r.reply(append(b, ']'), cacheable), nil
}

// servers are those that a view shows, by name.
func (g *Gateway) servers(v *View) map[string]Server {
	out := map[string]Server{}
	if g.o.Servers != nil {
		for _, s := range g.o.Servers() {
			if v.server(s.Name, s.Alias) {
				out[s.Name] = s
			}
		}
	}
	return out
}

func exportedURI(s Server, own string) string { return uriPrefix(s.Name, s.Alias) + own }

func exportedPrompt(s Server, own string) string { return promptName(s.Name, s.Alias, own) }

// resource finds where a URI leads.
func (r *request) resource(uri string) (origin, *rpc.Error) {
	if r.c.view.Only != "" {
		return origin{r.c.view.Only, uri}, nil
	}
	for name, s := range r.c.g.servers(r.c.view) {
		if own, ok := strings.CutPrefix(uri, uriPrefix(name, s.Alias)); ok {
			return origin{name, own}, nil
		}
	}
	data, _ := json.Marshal(map[string]string{"uri": uri}) // strings always marshal
	return origin{}, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "there is no such resource", Data: data}
}

// prompt finds the prompt that a name means.
func (r *request) prompt(ctx context.Context, name string) (origin, *rpc.Error) {
	if r.c.view.Only != "" {
		return origin{r.c.view.Only, name}, nil
	}
	servers := r.c.g.servers(r.c.view)
	find := func() (origin, bool) {
		r.c.g.mu.Lock()
		defer r.c.g.mu.Unlock()
		o, ok := r.c.g.prompts[name]
		_, visible := servers[o.server]
		return o, ok && visible
	}
	o, ok := find()
	if !ok {
		items, err := r.c.g.o.Host.Prompts(ctx, "")
		if err != nil {
			return origin{}, rpc.ErrorOf(err)
		}
		all := r.c.g.servers(&View{})
		known := make(map[string]origin, len(items))
		for _, item := range items {
			if own, ok := rpc.Text(jsontext.Get(item.Raw, "name")); ok {
				known[exportedPrompt(all[item.Server], own)] = origin{item.Server, own}
			}
		}
		r.c.g.mu.Lock()
		r.c.g.prompts = known
		r.c.g.mu.Unlock()
		o, ok = find()
	}
	if !ok {
		return origin{}, &rpc.Error{Code: rpc.CodeInvalidParams, Message: fmt.Sprintf("unknown prompt: %.200q", name)}
	}
	return o, nil
}

// read carries resources/read.
func (r *request) read(ctx context.Context) ([]byte, *rpc.Error) {
	from, err := r.resource(r.Members.URI)
	if err != nil {
		return nil, err
	}
	return r.rounds(ctx, from.server, cacheable, func(far *host.Far) (json.RawMessage, error) {
		res, err := r.c.g.o.Host.ReadResource(ctx, host.Read{Server: from.server, URI: from.name, Entrance: Entrance, Far: far, Trace: r.Members.Meta.Trace})
		if err != nil {
			return nil, err
		}
		return res.Raw, nil
	})
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
	return r.rounds(ctx, from.server, 0, func(far *host.Far) (json.RawMessage, error) {
		p, err := r.c.g.o.Host.GetPrompt(ctx, host.Expand{Server: from.server, Prompt: from.name, Arguments: args, Entrance: Entrance, Far: far, Trace: r.Members.Meta.Trace})
		if err != nil {
			return nil, err
		}
		return p.Raw, nil
	})
}

// rounds makes a request of a server as often as it asks the client for input.
func (r *request) rounds(ctx context.Context, server string, flags int, do func(*host.Far) (json.RawMessage, error)) ([]byte, *rpc.Error) {
	far := r.far()
	for range maxRounds {
		raw, err := do(far)
		if err != nil {
			return nil, rpc.ErrorOf(err)
		}
		if r.modern || !needsInput(raw) {
			return r.pass(r.rename(server, raw), flags), nil
		}
		inputs, fail := r.gather(ctx, jsontext.Get(raw, "inputRequests"))
		if fail != nil {
			return nil, rpc.ErrorOf(fail)
		}
		far.InputResponses, far.RequestState = inputs, jsontext.Get(raw, "requestState")
	}
	return nil, rpc.ErrorOf(fault.New(fault.InputRequired, "the server asked for input more than %d times", maxRounds))
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
	c := host.Completion{Argument: argument, Value: value, Arguments: known.Arguments}
	switch kind {
	case "ref/prompt":
		from, err := r.prompt(ctx, name)
		if err != nil {
			return nil, err
		}
		c.Server, c.Prompt = from.server, from.name
	case "ref/resource":
		from, err := r.resource(uri)
		if err != nil {
			return nil, err
		}
		c.Server, c.Template = from.server, from.name
	default:
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "a completion is for ref/prompt or ref/resource"}
	}
	raw, err := r.c.g.o.Host.Complete(ctx, c)
	if err != nil {
		if fault.From(err).Code == fault.Protocol && fault.From(err).Data == nil { // it completes nothing
			return r.reply([]byte(`"completion":{"values":[]}`), 0), nil
		}
		return nil, rpc.ErrorOf(err)
	}
	return r.pass(raw, 0), nil
}
