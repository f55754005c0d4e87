package externalizer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/externalizer"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/modeltest"
)

// reply is what an endpoint answers.
type reply struct {
	status int // 0 means 200
	kind   string
	body   string
}

// streamOf is an answer in chunks.
func streamOf(chunks ...string) reply {
	return reply{kind: "text/event-stream", body: "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\n"}
}

// endpoint answers with the replies in turn, and tells what it was sent. It is less strict
// than a scripted model: what it shows are endpoints with rules of their own.
func endpoint(t *testing.T, replies ...reply) (model *modeltest.Server, sent func() []string) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(body))
		if len(got) > len(replies) {
			t.Errorf("request %d came, of which nobody knows the answer: %s", len(got), body)
			return
		}
		next := replies[len(got)-1]
		w.Header().Set("Content-Type", next.kind)
		if next.status != 0 {
			w.WriteHeader(next.status)
		}
		fmt.Fprint(w, next.body)
	}))
	t.Cleanup(srv.Close)
	return &modeltest.Server{URL: srv.URL + "/v1"}, func() []string { mu.Lock(); defer mu.Unlock(); return got }
}

// delta is a chunk of a stream.
func delta(members string) string { return `{"choices":[{"index":0,"delta":{` + members + `}}]}` }

const echoCall = `"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"mcp__plain__echo","arguments":"{\"message\":\"x\"}"}}]`

func TestAStreamThatOnlySaysThatItIsWholeIsWholeUnlessACallMayBeOpen(t *testing.T) {
	caller, _ := serve(t, map[string]string{"plain": "echo"})
	said := streamOf(delta(`"content":"It is noon."`), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")
	for name, c := range map[string]struct {
		first []string
		asked int
	}{
		"a text":                   {[]string{delta(`"content":"It is "`), delta(`"content":"noon."`), "[DONE]"}, 1},
		"a call":                   {[]string{delta(echoCall), "[DONE]"}, 2},
		"a call without arguments": {[]string{delta(strings.Replace(echoCall, `{\"message\":\"x\"}`, "", 1)), "[DONE]"}, 2},
		"nothing":                  {[]string{delta(`"role":"assistant"`), "[DONE]"}, 2},
		"a text that breaks off":   {[]string{delta(`"content":"It is"`)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			model, sent := endpoint(t, streamOf(c.first...), said)
			l, _ := loop(t, caller, model, streaming, func(o *externalizer.Options) { o.OnText = nil })
			if res := ask(t, l); res.Answer != "It is noon." || len(sent()) != c.asked {
				t.Errorf("the answer is %q after %d requests, want %d", res.Answer, len(sent()), c.asked)
			}
			if strings.Contains(strings.Join(sent()[1:], ""), `"tool_call_id"`) != (name == "a call") {
				t.Errorf("it is not so that only a whole call ran: %s", sent())
			}
		})
	}
}

func TestTheThoughtsOfAMessageGoBackWithIt(t *testing.T) {
	const details = `"reasoning_details":[{"type":"reasoning.text","text":"Hm.","index":0},{"type":"reasoning.encrypted","data":"U0lH"}]`
	caller, _ := serve(t, map[string]string{"plain": "echo"})
	said := `{"choices":[{"index":0,"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}]}`
	for name, replies := range map[string][]reply{
		"streamed": {
			streamOf(delta(`"role":"assistant","reasoning_content":"","reasoning_details":[{"type":"reasoning.text","text":"Hm.","index":0}]`),
				delta(echoCall+`,"reasoning_details":[{"type":"reasoning.encrypted","data":"U0lH"}]`),
				`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]"),
			streamOf(delta(`"content":"done"`), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]"),
		},
		"whole": {
			{kind: "application/json", body: `{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","reasoning_content":"",` + details + `,` + echoCall + `}}]}`},
			{kind: "application/json", body: said},
		},
	} {
		t.Run(name, func(t *testing.T) {
			model, requests := endpoint(t, replies...)
			l, _ := loop(t, caller, model, func(o *externalizer.Options) { o.Stream = name == "streamed" })
			ask(t, l)
			var sent struct{ Messages []map[string]json.RawMessage }
			if err := json.Unmarshal([]byte(requests()[1]), &sent); err != nil {
				t.Fatal(err)
			}
			m := sent.Messages[2]
			if got := `"reasoning_details":` + string(m["reasoning_details"]); got != details || string(m["reasoning_content"]) != `""` {
				t.Errorf("the message went back with %s and reasoning_content %s", got, m["reasoning_content"])
			}
		})
	}
}

func TestAFailureThatAnotherRequestAvoidsIsNoEnd(t *testing.T) {
	caller, _ := serve(t, map[string]string{"plain": "echo"})
	model, sent := endpoint(t,
		reply{400, "application/json", `{"error":{"message":"tool call validation failed","type":"invalid_request_error","code":"tool_use_failed"}}`},
		reply{0, "application/json", `{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,` + echoCall + `}}]}`},
		reply{422, "application/json", `{"detail":[{"type":"missing","loc":["body","messages",2,"content"],"msg":"Field required"}]}`},
		reply{0, "application/json", `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done"}}]}`},
	)
	l, _ := loop(t, caller, model)
	if res := ask(t, l); res.Answer != "done" {
		t.Errorf("the run ended with %s: %s", res.Stop, res.Answer)
	}
	if last := sent()[3]; !strings.Contains(last, `"content":"","role":"assistant"`) {
		t.Errorf("the last request has no empty content: %s", last)
	}
}
