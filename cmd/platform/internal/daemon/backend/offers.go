package backend

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
func (b *Backend) Resources(ctx context.Context, server string) ([]control.Item, error) {
	return items(b.o.Offers.Resources(ctx, server))
}

// Templates lists the resource templates of one server or of all.
func (b *Backend) Templates(ctx context.Context, server string) ([]control.Item, error) {
	return items(b.o.Offers.ResourceTemplates(ctx, server))
}

// Prompts lists the prompts of one server or of all.
func (b *Backend) Prompts(ctx context.Context, server string) ([]control.Item, error) {
	return items(b.o.Offers.Prompts(ctx, server))
}

// ReadResource reads a resource.
func (b *Backend) ReadResource(ctx context.Context, r control.ReadRequest, trace signal.Trace) (*control.ReadResponse, error) {
	res, err := b.o.Offers.ReadResource(ctx, offers.Read{Server: r.Server, URI: r.URI, Anew: r.Fresh, Entrance: r.Entrance, Trace: trace})
	if err != nil {
		return nil, err
	}
	return &control.ReadResponse{
		CallID: res.CallID, Server: res.Server, URI: res.URI, Size: res.Size, SHA256: res.SHA256, Flags: res.Flags,
		Artifact: res.Artifact, Result: res.Raw,
	}, nil
}

// Watch tells of changes of a resource.
func (b *Backend) Watch(ctx context.Context, server, uri string) (<-chan struct{}, func(), error) {
	w, err := b.o.Offers.WatchResource(ctx, server, uri, false)
	if err != nil {
		return nil, nil, err
	}
	return w.Changed(), w.Close, nil
}

// Subscribe has changes of a resource delivered to the inbox.
func (b *Backend) Subscribe(ctx context.Context, s control.Subscription) (control.Subscription, error) {
	s.Server = b.o.Servers.Name(s.Server)
	if b.subscribed(s) {
		return s, nil
	}
	w, err := b.o.Offers.WatchResource(ctx, s.Server, s.URI, true)
	if err != nil {
		return s, err
	}
	b.subs.mu.Lock()
	defer b.subs.mu.Unlock()
	if b.subs.by == nil {
		b.subs.by = map[control.Subscription]*client.Watch{}
	}
	if b.subs.by[s] != nil { // somebody else was quicker
		defer w.Close()
		return s, nil
	}
	b.subs.by[s] = w
	return s, nil
}

func (b *Backend) subscribed(s control.Subscription) bool {
	b.subs.mu.Lock()
	defer b.subs.mu.Unlock()
	return b.subs.by[s] != nil
}

// Unsubscribe ends that, and reports whether there was a subscription.
func (b *Backend) Unsubscribe(s control.Subscription) bool {
	s.Server = b.o.Servers.Name(s.Server)
	b.subs.mu.Lock()
	w := b.subs.by[s]
	delete(b.subs.by, s)
	b.subs.mu.Unlock()
	if w != nil {
		w.Close()
	}
	return w != nil
}

// Subscriptions lists them by server and URI.
func (b *Backend) Subscriptions() []control.Subscription {
	b.subs.mu.Lock()
	defer b.subs.mu.Unlock()
	out := make([]control.Subscription, 0, len(b.subs.by))
	for s := range b.subs.by {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b control.Subscription) int {
		return strings.Compare(a.Server+"\x00"+a.URI, b.Server+"\x00"+b.URI)
	})
	return out
}

// GetPrompt expands a prompt.
func (b *Backend) GetPrompt(ctx context.Context, r control.PromptRequest, trace signal.Trace) (*offers.Prompt, error) {
	return b.o.Offers.GetPrompt(ctx, offers.Expand{Server: r.Server, Prompt: r.Prompt, Arguments: r.Arguments, Entrance: r.Entrance, Trace: trace})
}

// Complete asks a server for values of an argument.
func (b *Backend) Complete(ctx context.Context, r control.CompletionRequest) (json.RawMessage, error) {
	return b.o.Offers.Complete(ctx, offers.Completion{
		Server: r.Server, Prompt: r.Prompt, Template: r.Template, Argument: r.Argument, Value: r.Value, Arguments: r.Arguments,
	})
}

// SetLogLevel asks a server for log messages.
func (b *Backend) SetLogLevel(ctx context.Context, server, level string) error {
	return b.o.Offers.SetLogLevel(ctx, server, level)
}

// Inputs are the calls that wait for answers.
func (b *Backend) Inputs() []signal.Input { return b.o.Host.Inputs() }

// Input is what a call waits for.
func (b *Backend) Input(callID string) (signal.Input, bool) { return b.o.Host.Input(callID) }

// AnswerInput answers a call that waits.
func (b *Backend) AnswerInput(callID string, r ask.Replies, actor string) error {
	return b.o.Host.AnswerInput(callID, r, actor)
}
