package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// subscriptions are the resources whose changes go to the inbox.
type subscriptions struct {
	mu sync.Mutex
	by map[control.Subscription]*client.Watch
}

func items(list []offers.Item, err error) ([]control.Item, error) {
	out := make([]control.Item, len(list))
	for i, x := range list {
		out[i] = control.Item{Server: x.Server, Item: x.Raw}
	}
	return out, err
}

// Resources lists the resources of one server or of all.
func (p *Platform) Resources(ctx context.Context, server string) ([]control.Item, error) {
	return items(p.offers.Resources(ctx, server))
}

// Templates lists the resource templates of one server or of all.
func (p *Platform) Templates(ctx context.Context, server string) ([]control.Item, error) {
	return items(p.offers.ResourceTemplates(ctx, server))
}

// Prompts lists the prompts of one server or of all.
func (p *Platform) Prompts(ctx context.Context, server string) ([]control.Item, error) {
	return items(p.offers.Prompts(ctx, server))
}

// ReadResource reads a resource.
func (p *Platform) ReadResource(ctx context.Context, r control.ReadRequest, trace signal.Trace) (*control.ReadResponse, error) {
	res, err := p.offers.ReadResource(ctx, offers.Read{Server: r.Server, URI: r.URI, Anew: r.Fresh, Entrance: r.Entrance, Trace: trace})
	if err != nil {
		return nil, err
	}
	return &control.ReadResponse{
		CallID: res.CallID, Server: res.Server, URI: res.URI, Size: res.Size, SHA256: res.SHA256, Flags: res.Flags,
		Artifact: res.Artifact, Result: res.Raw,
	}, nil
}

// Watch tells of changes of a resource.
func (p *Platform) Watch(ctx context.Context, server, uri string) (<-chan struct{}, func(), error) {
	w, err := p.offers.WatchResource(ctx, server, uri, false)
	if err != nil {
		return nil, nil, err
	}
	return w.Changed(), w.Close, nil
}

// Subscribe has changes of a resource delivered to the inbox.
func (p *Platform) Subscribe(ctx context.Context, s control.Subscription) (control.Subscription, error) {
	s.Server = p.serverName(s.Server)
	if p.subscribed(s) {
		return s, nil
	}
	w, err := p.offers.WatchResource(ctx, s.Server, s.URI, true)
	if err != nil {
		return s, err
	}
	p.subs.mu.Lock()
	defer p.subs.mu.Unlock()
	if p.subs.by == nil {
		p.subs.by = map[control.Subscription]*client.Watch{}
	}
	if p.subs.by[s] != nil { // somebody else was quicker
		defer w.Close()
		return s, nil
	}
	p.subs.by[s] = w
	return s, nil
}

func (p *Platform) subscribed(s control.Subscription) bool {
	p.subs.mu.Lock()
	defer p.subs.mu.Unlock()
	return p.subs.by[s] != nil
}

// Unsubscribe ends that, and reports whether there was a subscription.
func (p *Platform) Unsubscribe(s control.Subscription) bool {
	s.Server = p.serverName(s.Server)
	p.subs.mu.Lock()
	w := p.subs.by[s]
	delete(p.subs.by, s)
	p.subs.mu.Unlock()
	if w != nil {
		w.Close()
	}
	return w != nil
}

// Subscriptions lists them by server and URI.
func (p *Platform) Subscriptions() []control.Subscription {
	p.subs.mu.Lock()
	defer p.subs.mu.Unlock()
	out := make([]control.Subscription, 0, len(p.subs.by))
	for s := range p.subs.by {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b control.Subscription) int {
		return strings.Compare(a.Server+"\x00"+a.URI, b.Server+"\x00"+b.URI)
	})
	return out
}

// GetPrompt expands a prompt.
func (p *Platform) GetPrompt(ctx context.Context, r control.PromptRequest, trace signal.Trace) (*offers.Prompt, error) {
	return p.offers.GetPrompt(ctx, offers.Expand{Server: r.Server, Prompt: r.Prompt, Arguments: r.Arguments, Entrance: r.Entrance, Trace: trace})
}

// Complete asks a server for values of an argument.
func (p *Platform) Complete(ctx context.Context, r control.CompletionRequest) (json.RawMessage, error) {
	return p.offers.Complete(ctx, offers.Completion{
		Server: r.Server, Prompt: r.Prompt, Template: r.Template, Argument: r.Argument, Value: r.Value, Arguments: r.Arguments,
	})
}

// SetLogLevel asks a server for log messages.
func (p *Platform) SetLogLevel(ctx context.Context, server, level string) error {
	return p.offers.SetLogLevel(ctx, server, level)
}

// Inputs are the calls that wait for answers.
func (p *Platform) Inputs() []signal.Input { return p.host.Inputs() }

// Input is what a call waits for.
func (p *Platform) Input(callID string) (signal.Input, bool) { return p.host.Input(callID) }

// AnswerInput answers a call that waits.
func (p *Platform) AnswerInput(callID string, r ask.Replies, actor string) error {
	return p.host.AnswerInput(callID, r, actor)
}
