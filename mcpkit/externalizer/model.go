package externalizer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/wire"
	export "github.com/aurorabot-dev/platform/mcpkit/openai"
	"github.com/aurorabot-dev/platform/mcpkit/openai/streamed"
)

const (
	finishStop     = "stop"
	finishLength   = "length"
	finishFiltered = "content_filter"
	finishError    = "error" // of gateways whose provider failed on the way
	maxCalls       = 128     // of one completion, as when streamed; more are dropped
)

// answer is one completion.
type answer struct {
	text, refusal, reasoning string
	calls                    []openai.ToolCall
	extras                   []json.RawMessage // beyond the API, of each call
	around                   json.RawMessage   // the same, of the message they are in
	finish                   string
	usage                    Usage
}

// complete asks for one completion, again after failures that may pass, and
// records it as a step.
func (r *run) complete(ctx context.Context, x *export.Export) (*answer, error) {
	step := Step{Number: len(r.res.Steps) + 1, Tools: len(x.Tools), Fingerprint: x.Fingerprint()}
	r.emit(Event{Kind: Asking, Step: step})
	req := r.request(x)
	delays := backoff.NewExponentialBackOff()
	delays.MaxInterval = 20 * time.Second
	for {
		a, shown, err := r.attempt(ctx, req)
		if err == nil {
			if a.usage.TotalTokens == 0 {
				a.usage = estimate(req, a)
			}
			step.Finish, step.Text, step.Usage = a.finish, a.text, a.usage
			r.res.Usage.add(a.usage)
			r.res.Steps = append(r.res.Steps, step)
			r.emit(Event{Kind: Answered, Step: step})
			return a, nil
		}
		f := r.failure(err)
		if !f.passing || shown || step.Retries >= r.o.MaxRetries || ctx.Err() != nil {
			return nil, &halt{f.stop, f.err}
		}
		delay := r.wire.After()
		if delay < 0 {
			delay = delays.NextBackOff()
		}
		if delay > r.o.MaxWait {
			return nil, &halt{f.stop, fmt.Errorf("%w; it asks to wait %v", f.err, delay.Round(time.Second))}
		}
		step.Retries++
		r.emit(Event{Kind: Retrying, Step: step, Delay: delay, Err: f.err})
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(delay):
		}
	}
}

// request is the conversation so far as the API takes it.
func (r *run) request(x *export.Export) openai.ChatCompletionRequest {
	system := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: note}
	if s := strings.TrimSpace(r.o.System); s != "" {
		system.Content = s + "\n\n" + note
	}
	req := openai.ChatCompletionRequest{
		Model:    r.o.Model,
		Messages: append([]openai.ChatCompletionMessage{system}, r.res.Messages...),
		Tools:    x.Tools,
	}
	// Mistral's API refuses members it does not know, and reports usage unasked.
	if r.o.Stream && r.o.Profile != "mistral" {
		req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	if x.OneCall() {
		req.ParallelToolCalls = false
	}
	if n := r.o.MaxAnswerTokens; n > 0 {
		n = max(min(n, r.o.MaxTokens-r.res.Usage.TotalTokens), 1)
		if r.newLimit() {
			req.MaxCompletionTokens = n
		} else {
			req.MaxTokens = n
		}
	}
	return req
}

// newLimit reports whether the limit of a completion has the name that OpenAI's
// own reasoning models demand and others' endpoints may not know.
func (r *run) newLimit() bool {
	if slices.Contains([]string{"openai", "openai-strict", "azure", "azure-strict"}, r.o.Profile) {
		return true
	}
	return slices.ContainsFunc([]string{"o1", "o3", "o4", "gpt-5", "gpt-6"}, func(p string) bool { return strings.HasPrefix(r.o.Model, p) })
}

// attempt asks once. shown says that text of an answer that then failed was
// passed on, so that asking again would say it twice.
func (r *run) attempt(ctx context.Context, req openai.ChatCompletionRequest) (a *answer, shown bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.o.ModelTimeout, errSlow)
	defer cancel()
	defer func() {
		if err != nil && context.Cause(ctx) == errSlow {
			err = fmt.Errorf("%w within %v", errSlow, r.o.ModelTimeout)
		}
	}()
	if r.o.Stream {
		return r.stream(ctx, req)
	}
	res, err := r.client.CreateChatCompletion(ctx, req)
	if err != nil {
		return nil, false, err
	}
	if err := r.wire.Refused(); err != nil {
		return nil, false, err
	}
	if len(res.Choices) == 0 {
		return nil, false, errors.New("the endpoint's answer is no chat completion: it has no choices")
	}
	m := res.Choices[0].Message
	a = &answer{text: m.Content, refusal: m.Refusal, reasoning: m.ReasoningContent, finish: string(res.Choices[0].FinishReason)}
	if a.finish == finishError {
		return nil, false, errBroken
	}
	a.usage.of(&res.Usage)
	for _, part := range m.MultiContent {
		a.text += part.Text
	}
	a.calls = m.ToolCalls[:min(len(m.ToolCalls), maxCalls)]
	a.extras, a.around = r.wire.Extras(len(a.calls))
	a.calls, a.extras = wire.DropRepeated(a.calls, a.extras)
	r.show(a.text)
	return a, false, nil
}

var (
	errSlow   = errors.New("the model did not complete its answer")
	errBroken = errors.New("the answer broke off")

	errNoStream = errors.New("the endpoint's answer is no stream")
)

// stream asks for one completion piece by piece.
func (r *run) stream(ctx context.Context, req openai.ChatCompletionRequest) (a *answer, shown bool, err error) {
	s, err := r.client.CreateChatCompletionStream(ctx, req)
	if err != nil {
		return nil, false, err
	}
	defer s.Close()
	a = &answer{}
	var text, refusal, reasoning strings.Builder
	var calls streamed.Collector
	for {
		chunk, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, shown, err
		}
		a.usage.of(chunk.Usage)
		for _, c := range chunk.Choices {
			if c.Index != 0 {
				continue
			}
			text.WriteString(c.Delta.Content)
			refusal.WriteString(c.Delta.Refusal)
			reasoning.WriteString(c.Delta.ReasoningContent)
			calls.Add(c.Delta.ToolCalls)
			if c.FinishReason != "" {
				a.finish = string(c.FinishReason)
			}
			shown = r.show(c.Delta.Content) || shown
		}
	}
	a.text, a.refusal, a.reasoning = text.String(), refusal.String(), reasoning.String()
	a.calls = calls.Calls()
	a.extras, a.around = r.wire.Extras(len(a.calls))
	a.calls, a.extras = wire.DropRepeated(a.calls, a.extras)
	if a.finish == "" && r.wire.Kind() != "text/event-stream" {
		if err := r.wire.Refused(); err != nil {
			return nil, shown, err
		}
		return nil, shown, fmt.Errorf("%w, but %s; ask it for whole answers", errNoStream, cmp.Or(r.wire.Kind(), "something without a type"))
	}
	if a.finish == "" && r.wire.Done() && a.complete() {
		a.finish = finishStop // some endpoints say only that the stream is whole
	}
	if a.finish == "" || a.finish == finishError { // a call may lack its last arguments, or all of them
		return nil, shown, errBroken
	}
	return a, shown, nil
}

// complete reports whether an answer that does not say why it ended can be taken for
// whole: it says something, and no call may lack arguments.
func (a *answer) complete() bool {
	open := func(c openai.ToolCall) bool {
		return !jsontext.IsObject([]byte(c.Function.Arguments)) || c.Function.Arguments == "{}"
	}
	return (a.text != "" || a.refusal != "" || len(a.calls) > 0) && !slices.ContainsFunc(a.calls, open)
}

// show passes text on, and reports whether somebody took it.
func (r *run) show(text string) bool {
	if text == "" || r.o.OnText == nil {
		return false
	}
	r.o.OnText(text)
	return true
}

func (u *Usage) of(v *openai.Usage) {
	if v == nil || v.PromptTokens < 0 || v.CompletionTokens < 0 || v.PromptTokens == 0 && v.CompletionTokens == 0 {
		return
	}
	const most = 1 << 30 // a count beyond reason must not wrap around the bound
	p, c := min(v.PromptTokens, most), min(v.CompletionTokens, most)
	*u = Usage{PromptTokens: p, CompletionTokens: c, TotalTokens: p + c}
}

// estimate stands in for the usage that an endpoint does not report: without it
// the bound on tokens would be none.
func estimate(req openai.ChatCompletionRequest, a *answer) Usage {
	sent := 0
	if b, err := json.Marshal(req); err == nil {
		sent = len(b)
	}
	got := len(a.text) + len(a.refusal) + len(a.reasoning)
	for _, c := range a.calls {
		got += len(c.Function.Name) + len(c.Function.Arguments)
	}
	u := Usage{PromptTokens: sent/4 + 1, CompletionTokens: got/4 + 1, Estimated: true}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// failure is why a completion failed.
type failure struct {
	stop    Stop
	err     error
	passing bool // asking again may help
}

// failure says what an error of an attempt means for the run.
func (r *run) failure(err error) failure {
	switch {
	case errors.Is(err, errSlow):
		return failure{stop: StopModel, err: err}
	case errors.Is(err, errBroken):
		return failure{StopModel, err, true}
	}
	f := wire.Explain(err, r.o.Model, r.o.Key)
	stop := map[wire.Cause]Stop{wire.Failed: StopModel, wire.TooLong: StopContext, wire.Filtered: StopFiltered}[f.Cause]
	return failure{stop, f.Err, f.Passing || r.wire.Learned()}
}
