package externalizer

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	openai "github.com/sashabaranov/go-openai"

	export "github.com/aurorabot-dev/platform/mcpkit/openai"
)

const (
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
		delay := r.wire.after
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
	if err := refused(r.wire.extra.whole.Bytes()); err != nil {
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
	a.extras = r.wire.extra.of(len(a.calls))
	a.dropRepeated()
	r.show(a.text)
	return a, false, nil
}

// dropRepeated takes out calls that came twice: some endpoints send a call again
// at another index, or first without its arguments. What differs in more than
// that are calls of their own, whose ids are put right later.
func (a *answer) dropRepeated() {
	calls, extras := a.calls, a.extras
	a.calls, a.extras = nil, nil
	for i, c := range calls {
		again := func(o openai.ToolCall) bool {
			return c.ID != "" && o.ID == c.ID && o.Function.Name == c.Function.Name
		}
		same := func(o openai.ToolCall) bool { return again(o) && o.Function.Arguments == c.Function.Arguments }
		whole := func(o openai.ToolCall) bool { return again(o) && !noArguments(o) }
		if slices.ContainsFunc(a.calls, same) || noArguments(c) && slices.ContainsFunc(calls, whole) {
			continue
		}
		a.calls, a.extras = append(a.calls, c), append(a.extras, extras[i])
	}
}

func noArguments(c openai.ToolCall) bool {
	return c.Function.Arguments == "" || c.Function.Arguments == "{}"
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
	var calls export.Collector
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
	a.extras = r.wire.extra.of(len(a.calls))
	a.dropRepeated()
	if a.finish == "" && r.wire.kind != "text/event-stream" {
		if err := refused(r.wire.extra.whole.Bytes()); err != nil {
			return nil, shown, err
		}
		return nil, shown, fmt.Errorf("%w, but %s; ask it for whole answers", errNoStream, cmp.Or(r.wire.kind, "something without a type"))
	}
	if a.finish == "" || a.finish == finishError { // a call may lack its last arguments, or all of them
		return nil, shown, errBroken
	}
	return a, shown, nil
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

// failure reads an error of the client library.
func (r *run) failure(err error) failure {
	var api *openai.APIError
	var req *openai.RequestError
	var status int
	var code, text string
	switch {
	case errors.As(err, &req): // it may hold what could be read of an APIError
		status, text = req.HTTPStatusCode, string(req.Body)
	case errors.As(err, &api):
		status, code, text = api.HTTPStatusCode, fmt.Sprint(api.Code)+" "+api.Type, api.Message
		if n, ok := api.Code.(int); ok && status == 0 && http.StatusText(n) != "" { // the status that it came too late for
			status = n
		}
	case errors.Is(err, errSlow):
		return failure{stop: StopModel, err: err}
	case errors.Is(err, errBroken):
		return failure{StopModel, err, true}
	default:
		return failure{StopModel, fmt.Errorf("asking the model: %w", r.clean(err)), isNetwork(err)}
	}
	text = r.hide(oneLine(text, 500))
	said := strings.ToLower(code + " " + text)
	lead := "the endpoint broke off its answer"
	if status != 0 {
		lead = fmt.Sprintf("the endpoint answered %d %s", status, http.StatusText(status))
	}
	f := failure{stop: StopModel, err: fmt.Errorf("%s: %s", lead, text)}
	switch {
	case anyOf(said, "context_length", "context length", "context window", "maximum context", "prompt is too long", "too many tokens") ||
		status == http.StatusRequestEntityTooLarge:
		f.stop, f.err = StopContext, fmt.Errorf("the conversation and its tools are too long for the model %s: %s", r.o.Model, text)
	case strings.Contains(said, "content_filter"):
		f.stop = StopFiltered
	case strings.Contains(said, "insufficient_quota"): // a 429 that waiting does not cure
	case status == 0:
		f.passing = anyOf(said, "rate_limit", "overloaded", "server_error", "unavailable", "timeout")
	default:
		f.passing = status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500 && status != http.StatusNotImplemented
	}
	return f
}

// clean is err with the key taken out of its text, should anything have put it there.
func (r *run) clean(err error) error {
	if hidden := r.hide(err.Error()); hidden != err.Error() {
		return errors.New(hidden)
	}
	return err
}

func (r *run) hide(s string) string {
	if r.o.Key == "" {
		return s
	}
	return strings.ReplaceAll(s, r.o.Key, "[key]")
}

// isNetwork tells a connection that failed from one that will never do, and
// from an answer that is none.
func isNetwork(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.Is(err, errRedirect) || errors.Is(err, errPage) || errors.As(err, &certificate) {
		return false
	}
	var failed *url.Error
	var lost net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &failed) || errors.As(err, &lost)
}

func anyOf(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// oneLine is s on one line, in at most most bytes.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
