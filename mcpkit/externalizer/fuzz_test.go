package externalizer

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/modeltest"
	"github.com/aurorabot-dev/platform/mcpkit/host"
)

// one is a gate with one tool that keeps the arguments it was called with.
type one struct {
	mu  sync.Mutex
	got []string
}

var echo = &catalog.Tool{
	Name: "s.echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"message":{"type":"string"}}}`),
	Source: catalog.Source{Kind: "mcp", Server: "s", OriginalName: "echo"},
}

func (*one) Tools(context.Context) ([]*catalog.Tool, error) { return []*catalog.Tool{echo}, nil }

func (o *one) Call(_ context.Context, _ catalog.ID, c host.Call) (*host.Result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, string(c.Arguments))
	return &host.Result{CallID: c.ID, Raw: json.RawMessage(`{"content":[]}`)}, nil
}

// always answers every request with the same bytes.
type always struct {
	kind string
	body []byte
}

func (a always) RoundTrip(req *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, req.Body)
	req.Body.Close()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.kind}},
		Body: io.NopCloser(bytes.NewReader(a.body)), Request: req,
	}, nil
}

// legal fails the test unless an API takes the conversation.
func legal(t *testing.T, messages []openai.ChatCompletionMessage) {
	t.Helper()
	messages = append(messages[:len(messages):len(messages)], openai.ChatCompletionMessage{Role: "user", Content: "go on"})
	raw, err := json.Marshal(openai.ChatCompletionRequest{Model: "m", Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	if broken := (modeltest.Rules{}).Check(raw); len(broken) > 0 {
		t.Fatalf("%q in %s", broken, raw)
	}
}

func FuzzWhateverIsCalledTheConversationStaysLegal(f *testing.F) {
	f.Add("a", "mcp__s__echo", `{"message":"x"}`)
	f.Add("", "functions.mcp__s__echo", "```json\n{}\n```")
	f.Add("a", "no such\x00tool\xff", `{"message":`)
	f.Add(strings.Repeat("x", 300), strings.Repeat("é", 300), `{"a":1,}`)
	f.Add("a", "mcp__s__echo", `"{}"`)
	f.Fuzz(func(t *testing.T, id, name, arguments string) {
		gate := &one{}
		l, err := New(Options{Caller: gate, Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		r := l.begin([]openai.ChatCompletionMessage{{Role: "user", Content: "well?"}})
		defer r.end()
		x, err := r.export(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fn := openai.FunctionCall{Name: name, Arguments: arguments}
		r.res.Steps = append(r.res.Steps, Step{Number: 1})
		r.answer(t.Context(), x, &answer{finish: "tool_calls", calls: []openai.ToolCall{{ID: id, Function: fn}, {ID: id, Function: fn}}}, nil)
		legal(t, r.res.Messages)
		for _, got := range gate.got {
			if !jsontext.IsObject([]byte(got)) {
				t.Errorf("called with %q for %q", got, arguments)
			}
			if got == "{}" && strings.Trim(arguments, "`\"\\,{} \t\r\njsonJSONul\uFEFF") != "" {
				t.Errorf("called with nothing for %q", arguments)
			}
		}
	})
}

func FuzzWhateverIsStreamedTheRunEndsAndStaysLegal(f *testing.F) {
	f.Add(true, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n"))
	f.Add(true, []byte(": x\r\ndata:{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-3,\"function\":{\"name\":\"mcp__s__echo\"}}]},\"finish_reason\":\"tool_calls\"}]}\r\n"))
	f.Add(true, []byte("data: {\"error\":{\"message\":\"x\",\"type\":\"y\"}}\n"))
	f.Add(false, []byte(`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"","function":{"name":"","arguments":"{"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":-1}}`))
	f.Add(false, []byte(`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}}`))
	f.Add(false, []byte(`{"choices":[{"message":{"content":[{"type":"text","text":"x"}]}}]}`))
	f.Fuzz(func(t *testing.T, stream bool, body []byte) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		l, err := New(Options{Caller: &one{}, Model: "m", Stream: stream, MaxSteps: 2, MaxRetries: -1, Transport: always{kind, body}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := l.Ask(t.Context(), "well?")
		if (err == nil) != (res.Stop == StopAnswered) || err == nil && strings.TrimSpace(res.Answer) == "" {
			t.Errorf("%s, %v: %q", res.Stop, err, res.Answer)
		}
		if res.Usage.TotalTokens < 0 {
			t.Errorf("used %+v", res.Usage)
		}
		if _, err := json.Marshal(res); err != nil {
			t.Error(err)
		}
		legal(t, res.Messages)
	})
}
