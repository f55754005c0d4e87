package externalizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/wire"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	export "github.com/aurorabot-dev/platform/mcpkit/openai"
)

// answer adds a model's calls and the answers to all of them to the
// conversation. With bound nothing is run: no completion would see the results.
func (r *run) answer(ctx context.Context, x *export.Export, a *answer, bound error) {
	calls := make([]Call, len(a.calls))
	message := openai.ChatCompletionMessage{
		Role: openai.ChatMessageRoleAssistant, Content: a.text,
		ReasoningContent: a.reasoning, // DeepSeek and Kimi demand it back with the results
		ToolCalls:        make([]openai.ToolCall, len(a.calls)),
	}
	for i, wanted := range a.calls {
		calls[i], message.ToolCalls[i] = r.read(x, wanted)
		if i < len(a.extras) && a.extras[i] != nil {
			r.res.Extras[calls[i].ID] = a.extras[i]
		}
		if i == 0 && a.around != nil {
			r.res.Extras[wire.OfMessage(calls[0].ID)] = a.around
		}
		switch c := &calls[i]; {
		case c.Error != nil:
		case a.finish == finishLength:
			c.Error = fault.New(fault.InvalidArguments, "the answer was cut off at its token limit; the call may be incomplete and was not run")
		case bound != nil:
			c.Error = fault.New(fault.Cancelled, "the call was not run: %v", bound)
		}
	}
	results := r.carry(ctx, calls)
	answers := make([]export.Answer, len(calls))
	for i, c := range calls {
		if foreign(c) {
			r.res.Sources = append(r.res.Sources, c.CallID)
		}
		answers[i] = export.Answer{CallID: c.ID, Call: c.Tool, Result: results[i]}
		if c.Error != nil {
			answers[i].Err = c.Error
		}
	}
	r.res.Messages = append(append(r.res.Messages, message), x.ToolMessages(answers)...)
	r.res.Steps[len(r.res.Steps)-1].Calls = calls
}

// read understands one call, and says how the conversation shows it: with an id
// of its own, a name that the API takes, and arguments that are an object,
// because some endpoints read them again.
func (r *run) read(x *export.Export, wanted openai.ToolCall) (Call, openai.ToolCall) {
	c := Call{ID: r.id(x, wanted.ID), Name: wanted.Function.Name}
	shown := openai.ToolCall{ID: c.ID, Type: openai.ToolTypeFunction}
	call, err := x.Decode(wanted.Function.Name, wanted.Function.Arguments)
	if err != nil {
		f := *fault.From(err)
		shown.Function = openai.FunctionCall{Name: export.LegalName(wanted.Function.Name), Arguments: "{}"}
		if jsontext.IsObject([]byte(wanted.Function.Arguments)) {
			shown.Function.Arguments = wanted.Function.Arguments
		} else if strings.TrimSpace(wanted.Function.Arguments) != "" {
			f.Data, _ = json.Marshal(map[string]string{"sent": wire.OneLine(wanted.Function.Arguments, 300)})
		}
		c.Error = &f
		return c, shown
	}
	c.Tool, c.Arguments, c.Repairs = call.ID, call.Arguments, call.Repairs
	shown.Function = openai.FunctionCall{Name: x.Name(call.ID), Arguments: wanted.Function.Arguments}
	if !jsontext.IsObject([]byte(wanted.Function.Arguments)) {
		shown.Function.Arguments = string(call.Arguments)
	}
	return c, shown
}

// id is a call's id in the profile's form, another one where the model gave
// none or one that the conversation has already.
func (r *run) id(x *export.Export, given string) string {
	id := x.CallID(given)
	for n := len(r.ids); given == "" || r.ids[id]; n++ {
		given = fmt.Sprintf("call_%d_%d", len(r.res.Steps), n)
		id = x.CallID(given)
	}
	r.ids[id] = true
	return id
}

// carry takes the calls that have no error yet to the gate, a bounded number at
// once, in order. It returns when all have ended.
func (r *run) carry(ctx context.Context, calls []Call) []json.RawMessage {
	step := Step{Number: len(r.res.Steps)}
	results := make([]json.RawMessage, len(calls))
	places := make(chan struct{}, r.o.MaxParallel)
	var wg sync.WaitGroup
	for i := range calls {
		c := &calls[i]
		if c.Error == nil {
			select {
			case <-ctx.Done():
			case places <- struct{}{}:
				wg.Go(func() {
					defer func() { <-places }()
					results[i] = r.call(ctx, step, c)
				})
				continue
			}
			c.Error = fault.New(fault.Cancelled, "the call was not run: the run has ended")
		}
		c.IsError = true
		r.emit(Event{Kind: CallFinished, Step: step, Call: *c})
	}
	wg.Wait()
	return results
}

// call carries one call through the gate.
func (r *run) call(ctx context.Context, step Step, c *Call) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, r.o.CallTimeout)
	defer cancel()
	c.CallID = ulid.Make().String()
	r.emit(Event{Kind: CallStarted, Step: step, Call: *c})
	start := time.Now()
	hc := host.Call{ID: c.CallID, Arguments: c.Arguments, Entrance: "model", Provenance: r.res.Sources}
	res, err := r.o.Caller.Call(ctx, c.Tool, hc)
	var asked *fault.Error
	if r.o.Wait && errors.As(err, &asked) && asked.Code == fault.ApprovalRequired {
		waiting := *c
		waiting.Error = asked
		r.emit(Event{Kind: CallWaiting, Step: step, Call: waiting})
		// Nothing was sent. The same call again finds the question that is open.
		hc.ID, hc.Wait = ulid.Make().String(), true
		c.CallID = hc.ID
		res, err = r.o.Caller.Call(ctx, c.Tool, hc)
	}
	lasted := time.Since(start)
	var result json.RawMessage
	if err != nil {
		c.Error, c.IsError = r.fault(ctx, err), true
	} else {
		c.CallID, c.IsError, c.Flags, result = res.CallID, res.IsError, res.Flags, res.Raw
		c.WaitedMS = res.Waited.Milliseconds()
		lasted -= res.Waited
	}
	c.DurationMS = lasted.Milliseconds()
	r.emit(Event{Kind: CallFinished, Step: step, Call: *c})
	return result
}

// foreign reports whether a call brings words of its server into the
// conversation: a result, or an error that quotes it.
func foreign(c Call) bool {
	if c.CallID == "" || c.Error == nil {
		return c.CallID != ""
	}
	switch c.Error.Code {
	case fault.Protocol, fault.InvalidResult, fault.ServerCrashed, fault.ServerUnstable:
		return true
	}
	return false
}

// fault is a failed call's error; an entrance that does not speak the gate's
// language ended with its context.
func (r *run) fault(ctx context.Context, err error) *fault.Error {
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(fault.Timeout, "no answer within %v", r.o.CallTimeout).Unknown()
	case ctx.Err() != nil:
		return fault.New(fault.Cancelled, "the call was cancelled").Unknown()
	}
	return fault.New(fault.Internal, "%v", err).Unknown()
}
