package host

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/schemas"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

// exchange sends the call and, for as long as its server wants to know something
// first, sends it again with the answers: a server that asks has not done
// anything yet (2026-07-28, multi round-trip requests). Servers of older eras ask
// while the call is in flight: see [ask.Asker.Reverse].
func (l *line) exchange(args json.RawMessage) (toolcall.Result, error) {
	asker := &ask.Asker{
		CallID: l.id, Server: l.step.Server, Entrance: l.call.Entrance, Subject: l.step.Tool, Context: l.ctx,
		Func: l.call.Input, Pending: &l.h.questions, Timeout: l.h.o.InputTimeout, Filter: &l.h.out,
		Record: l.record, Waited: func(d time.Duration) { l.waits.Add(int64(d)) },
	}
	r := features.CallRequest{
		Server: l.tool.Source.Server, Tool: l.tool.Source.OriginalName, Arguments: args, Checked: true,
		CallID: l.id, Timeout: l.call.Timeout, OnProgress: l.progress(), Ask: asker.Reverse, Meta: l.call.Trace.Meta(),
	}
	if f := l.call.Far; f != nil {
		r.Capabilities, r.InputResponses, r.RequestState = f.Capabilities, f.InputResponses, f.RequestState
	}
	if l.call.Input != nil || l.call.Far != nil {
		r.Asker = cmp.Or(l.call.Asker, l.id) // its questions are for this caller alone
	}
	handsOn := l.call.Input == nil && l.call.Far != nil // the far client answers what the server asks
	if handsOn {
		r.Ask = nil
	}
	if key := l.call.IdempotencyKey; key != "" {
		r.Arguments, r.Meta = schemas.WithKey(args, l.tool.InputSchema, key), keyMeta(l.call.Trace, key)
	}
	for {
		answer, err := l.h.o.Client.Call(l.ctx, r)
		if err != nil {
			session, notReady := l.h.o.Client.Ready(r.Server)
			if notReady != nil {
				return toolcall.Result{}, err
			}
			again, err := asker.VisitFirst(session, err)
			if again {
				continue
			}
			return toolcall.Result{}, err
		}
		result := toolcall.Read(answer.Raw)
		if !result.NeedsInput() {
			return result, nil
		}
		session, err := l.h.o.Client.Ready(r.Server)
		if err != nil {
			return toolcall.Result{}, err
		}
		if handsOn {
			return result, ask.Vet(session, l.step.Tool, answer, func(method string, f *fault.Error) { l.record(ask.Refused(l.step.Tool, method, f)) })
		}
		with, err := asker.Answer(session, answer)
		if err != nil {
			return toolcall.Result{}, err
		}
		r.InputResponses, r.RequestState = with.InputResponses, with.RequestState
	}
}

// progress hands a server's progress on without secrets; nil where nobody listens.
func (l *line) progress() func(json.RawMessage) {
	if l.call.Progress == nil {
		return nil
	}
	return func(params json.RawMessage) {
		clean, _ := l.h.out.Clean(params)
		l.call.Progress(clean)
	}
}

// keyMeta is the _meta in which a server finds a call's idempotency key.
func keyMeta(t signal.Trace, key string) json.RawMessage {
	b, _ := json.Marshal(struct { // strings always marshal
		signal.Trace
		Key string `json:"aurora/idempotency-key"`
	}{t, key})
	return b
}
