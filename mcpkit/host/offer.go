package host

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Item is one entry of a server's list: a resource, a template or a prompt.
type Item struct {
	Server string          // its name
	Raw    json.RawMessage // as the server wrote it, without secrets
}

// Resources lists what can be read, of one server by name or alias, or of all
// that are ready where server is empty. Of all, those that fail are left out, as
// are those that the policy bars. So do the other lists.
func (h *Host) Resources(ctx context.Context, server string) ([]Item, error) {
	return h.list(ctx, server, features.Capabilities{Resources: true}, (*session.Session).ListResources)
}

// ResourceTemplates lists the patterns of URIs that can be read.
func (h *Host) ResourceTemplates(ctx context.Context, server string) ([]Item, error) {
	return h.list(ctx, server, features.Capabilities{Resources: true}, (*session.Session).ListResourceTemplates)
}

// Prompts lists the prompts.
func (h *Host) Prompts(ctx context.Context, server string) ([]Item, error) {
	return h.list(ctx, server, features.Capabilities{Prompts: true}, (*session.Session).ListPrompts)
}

func (h *Host) list(ctx context.Context, server string, need features.Capabilities, read func(*session.Session, context.Context) ([]json.RawMessage, error)) ([]Item, error) {
	if server != "" {
		return h.listOne(ctx, server, read)
	}
	out := []Item{}
	for _, info := range h.o.Client.Infos() {
		if s, err := h.o.Client.Ready(info.Server); err != nil || need.Resources && !s.Capabilities().Resources || need.Prompts && !s.Capabilities().Prompts {
			continue
		}
		items, err := h.listOne(ctx, info.Server, read)
		if err != nil {
			if ctx.Err() != nil {
				return nil, h.quote(err)
			}
			h.o.Logger.Debug("a server's list was left out", "server", info.Server, "error", err)
			continue
		}
		out = append(out, items...)
	}
	return out, nil
}

func (h *Host) listOne(ctx context.Context, server string, read func(*session.Session, context.Context) ([]json.RawMessage, error)) ([]Item, error) {
	s, err := h.readable(server)
	if err != nil {
		return nil, err
	}
	raws, err := read(s, ctx)
	if err != nil {
		return nil, h.quote(err)
	}
	items := make([]Item, len(raws))
	for i, raw := range raws {
		clean, _ := h.o.Redact(raw)
		items[i] = Item{s.Server(), clean}
	}
	return items, nil
}

// readable is the session of a server that the policy does not bar.
func (h *Host) readable(server string) (*session.Session, error) {
	s, err := h.o.Client.Ready(server)
	if err != nil {
		return nil, fault.From(err)
	}
	if h.o.Gate == nil {
		return s, nil
	}
	if _, err := h.o.Gate.Read(s.Server()); err != nil && fault.From(err).Code == fault.Denied {
		return nil, fault.From(err)
	}
	return s, nil
}

// WatchResource subscribes to a resource by name. With deliver each change is an
// event in the inbox, mcp.notification.resources.updated; without, only in the
// journal. The content is not read. Its errors are *fault.Errors.
func (h *Host) WatchResource(ctx context.Context, server, uri string, deliver bool) (*client.Watch, error) {
	s, err := h.readable(server)
	if err != nil {
		return nil, err
	}
	w, err := h.o.Client.Watch(ctx, s.Server(), uri, deliver)
	if err != nil {
		return nil, h.quote(err)
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
func (h *Host) Complete(ctx context.Context, c Completion) (json.RawMessage, error) {
	s, err := h.readable(c.Server)
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
		return nil, h.quote(err)
	}
	clean, _ := h.o.Redact(res.Raw)
	return clean, nil
}

// SetLogLevel asks a server for log messages of a level and above; they become
// mcp.notification.message events. Its errors are *fault.Errors.
func (h *Host) SetLogLevel(ctx context.Context, server, level string) error {
	if !slices.Contains(features.LogLevels, level) {
		f := fault.New(fault.InvalidArguments, "%q is no level of log messages", level)
		f.Candidates = features.LogLevels
		return f
	}
	s, err := h.o.Client.Ready(server)
	if err == nil {
		err = s.SetLogLevel(ctx, level)
	}
	return h.quote(err)
}

// Settled waits until everything that a server said before now has been observed,
// or ctx is done. A server that is not ready has said it all.
func (h *Host) Settled(ctx context.Context, server string) {
	if s, err := h.o.Client.Ready(server); err == nil {
		s.Settled(ctx)
	}
}
