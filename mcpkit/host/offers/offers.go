// Package offers is the way to what servers offer beside tools: resources, prompts
// and completions. Each read takes one line, as a call of a tool does: find the
// server, ask the policy, read, redact, cap, record. Nothing is read unasked, and
// the package calls no tools.
//
//	r := offers.New(offers.Options{Client: manager, Sink: bridge})
//	res, err := r.ReadResource(ctx, offers.Read{Server: "weather", URI: "city:///Paris"})
package offers

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/egress"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Client is what a Reader needs of the client manager.
type Client interface {
	Ready(server string) (*session.Session, error)
	Infos() []session.Info
	Watch(ctx context.Context, server, uri string, deliver bool) (*client.Watch, error)
}

// Gate is what a Reader asks before anything is read; see [policy.Gate].
type Gate interface {
	Read(server string) (policy.Read, error)
	Spend(server, id string, bytes int)
}

// Options say how a Reader works. Client and Sink are required.
type Options struct {
	Client Client
	Sink   signal.Sink
	Logger *slog.Logger    // nil discards
	Gate   Gate            // nil allows every reading
	Redact egress.Redactor // nil keeps all
	// Store keeps resources that are too large for an event. nil keeps none.
	Store egress.Store
	// MaxResult is the size in bytes above which a resource is also kept whole in the
	// store. Zero means 64 KiB.
	MaxResult int
}

// Reader reads what servers offer. It is safe for concurrent use.
type Reader struct {
	o   Options
	out egress.Filter
}

// New makes a Reader.
func New(o Options) *Reader {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxResult <= 0 {
		o.MaxResult = egress.DefaultMaxResult
	}
	return &Reader{o, egress.Filter{Sink: o.Sink, Logger: o.Logger, Redact: o.Redact, Store: o.Store, MaxResult: o.MaxResult}}
}

// Item is one entry of a server's list: a resource, a template or a prompt.
type Item struct {
	Server string          // its name
	Raw    json.RawMessage // as the server wrote it, without secrets
}

// Resources lists what can be read, of one server by name or alias, or of all
// that are ready where server is empty. Of all, those that fail are left out, as
// are those that the policy bars. So do the other lists.
func (r *Reader) Resources(ctx context.Context, server string) ([]Item, error) {
	return r.list(ctx, server, features.Capabilities{Resources: true}, (*session.Session).ListResources)
}

// ResourceTemplates lists the patterns of URIs that can be read.
func (r *Reader) ResourceTemplates(ctx context.Context, server string) ([]Item, error) {
	return r.list(ctx, server, features.Capabilities{Resources: true}, (*session.Session).ListResourceTemplates)
}

// Prompts lists the prompts.
func (r *Reader) Prompts(ctx context.Context, server string) ([]Item, error) {
	return r.list(ctx, server, features.Capabilities{Prompts: true}, (*session.Session).ListPrompts)
}

func (r *Reader) list(ctx context.Context, server string, need features.Capabilities, read func(*session.Session, context.Context) ([]json.RawMessage, error)) ([]Item, error) {
	if server != "" {
		return r.listOne(ctx, server, read)
	}
	out := []Item{}
	for _, info := range r.o.Client.Infos() {
		if s, err := r.o.Client.Ready(info.Server); err != nil || need.Resources && !s.Capabilities().Resources || need.Prompts && !s.Capabilities().Prompts {
			continue
		}
		items, err := r.listOne(ctx, info.Server, read)
		if err != nil {
			if ctx.Err() != nil {
				return nil, r.out.Error(err)
			}
			r.o.Logger.Debug("a server's list was left out", "server", info.Server, "error", err)
			continue
		}
		out = append(out, items...)
	}
	return out, nil
}

func (r *Reader) listOne(ctx context.Context, server string, read func(*session.Session, context.Context) ([]json.RawMessage, error)) ([]Item, error) {
	s, err := r.readable(server)
	if err != nil {
		return nil, err
	}
	raws, err := read(s, ctx)
	if err != nil {
		return nil, r.out.Error(err)
	}
	items := make([]Item, len(raws))
	for i, raw := range raws {
		clean, _ := r.out.Clean(raw)
		items[i] = Item{s.Server(), clean}
	}
	return items, nil
}

// readable is the session of a server that the policy does not bar.
func (r *Reader) readable(server string) (*session.Session, error) {
	s, err := r.o.Client.Ready(server)
	if err != nil {
		return nil, fault.From(err)
	}
	if r.o.Gate == nil {
		return s, nil
	}
	if _, err := r.o.Gate.Read(s.Server()); err != nil && fault.From(err).Code == fault.Denied {
		return nil, fault.From(err)
	}
	return s, nil
}

// WatchResource subscribes to a resource by name. With deliver each change is an
// event in the inbox, mcp.notification.resources.updated; without, only in the
// journal. The content is not read. Its errors are *fault.Errors.
func (r *Reader) WatchResource(ctx context.Context, server, uri string, deliver bool) (*client.Watch, error) {
	s, err := r.readable(server)
	if err != nil {
		return nil, err
	}
	w, err := r.o.Client.Watch(ctx, s.Server(), uri, deliver)
	if err != nil {
		return nil, r.out.Error(err)
	}
	return w, nil
}

// Completion asks for values of an argument of a prompt or resource template.
type Completion struct {
	Server    string            // its name or alias
	Prompt    string            // whose argument it is,
	Template  string            // or the URI template whose variable it is
	Argument  string            // its name
	Value     string            // what is typed so far
	Arguments map[string]string // those that are set already
}

// Complete is the raw CompleteResult without secrets (specification 2025-11-25,
// server/utilities/completion). Its errors are *fault.Errors.
func (r *Reader) Complete(ctx context.Context, c Completion) (json.RawMessage, error) {
	s, err := r.readable(c.Server)
	if err != nil {
		return nil, err
	}
	ref := map[string]string{"type": "ref/prompt", "name": c.Prompt}
	if c.Template != "" {
		ref = map[string]string{"type": "ref/resource", "uri": c.Template}
	}
	if (c.Prompt == "") == (c.Template == "") || c.Argument == "" {
		return nil, fault.New(fault.InvalidArguments, "a completion names a prompt or a template, and an argument of it")
	}
	raw, _ := json.Marshal(ref) // strings always marshal
	res, err := s.Complete(ctx, raw, c.Argument, c.Value, c.Arguments)
	if err != nil {
		return nil, r.out.Error(err)
	}
	clean, _ := r.out.Clean(res.Raw)
	return clean, nil
}

// SetLogLevel asks a server for log messages of a level and above; they become
// mcp.notification.message events. Its errors are *fault.Errors.
func (r *Reader) SetLogLevel(ctx context.Context, server, level string) error {
	if !slices.Contains(features.LogLevels, level) {
		f := fault.New(fault.InvalidArguments, "%q is no level of log messages", level)
		f.Candidates = features.LogLevels
		return f
	}
	s, err := r.o.Client.Ready(server)
	if err == nil {
		err = s.SetLogLevel(ctx, level)
	}
	return r.out.Error(err)
}

// Settled waits until everything that a server said before now has been observed,
// or ctx is done. A server that is not ready has said it all.
func (r *Reader) Settled(ctx context.Context, server string) {
	if s, err := r.o.Client.Ready(server); err == nil {
		s.Settled(ctx)
	}
}
