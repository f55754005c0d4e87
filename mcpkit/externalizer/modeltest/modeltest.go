// Package modeltest is a test kit: a chat completions endpoint that plays a
// script, streaming or not as it is asked, and checks every request it gets
// against the published rules of the API.
//
//	model := modeltest.New(t,
//		modeltest.Turn{Calls: []modeltest.Call{{ID: "call_1", Name: "mcp__weather__get_weather", Arguments: `{"city":"Berlin"}`}}},
//		modeltest.Turn{Text: "It rains in Berlin."},
//	)
//	loop, err := externalizer.New(externalizer.Options{BaseURL: model.URL, …})
//
// A request that breaks a rule fails the test, and so does one beyond the script
// or a script that was not played to its end. There is no model in it.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	openai "github.com/sashabaranov/go-openai"
)

// Key is the token that requests to a Server have to carry.
const Key = "sk-modeltest-0123456789abcdef"

// Turn is how one request is answered.
type Turn struct {
	Text   string `json:"text"`
	Calls  []Call `json:"calls"`
	Finish string `json:"finish"` // empty: what fits Text and Calls

	// Status other than 0 answers with an error instead, with Header and Body.
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`

	// Events are sent as data lines as they are, in place of what Text and Calls
	// would give; Cut ends the stream after them, or after the text, as a
	// connection that is lost.
	Events []string `json:"events"`
	Cut    bool     `json:"cut"`

	NoUsage bool                               `json:"no_usage"` // says nothing of tokens; else 100 and 10
	Hang    bool                               `json:"hang"`     // answers nothing until the client has gone
	Check   func(openai.ChatCompletionRequest) `json:"-"`        // looks at the request
}

// Call is a tool call as the model makes it. Nothing of it has to be right.
type Call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	// Extra are members beyond the API. A request that has the call without them,
	// or with others, breaks a rule, as Gemini's thought signatures do.
	Extra map[string]any `json:"extra"`
}

// Server is an endpoint with a script.
type Server struct {
	URL    string // the base URL
	script *Script
}

// New starts an endpoint that lives as long as the test.
func New(t testing.TB, turns ...Turn) *Server {
	t.Helper()
	s := &Script{Turns: turns, Key: Key, Report: func(what string) { t.Error("model: " + what) }}
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.Close()
		if n := s.Left(); n > 0 && !t.Failed() {
			t.Errorf("model: %d turns were not asked for", n)
		}
	})
	return &Server{URL: srv.URL + "/v1", script: s}
}

// With sets rules beyond the published ones.
func (s *Server) With(r Rules) *Server { s.script.Rules = r; return s }

// Requests are those that came so far.
func (s *Server) Requests() []openai.ChatCompletionRequest { return s.script.Requests() }

// Script answers requests turn by turn. Its fields are set before the first.
type Script struct {
	Turns  []Turn
	Rules  Rules
	Key    string            // demanded as bearer token, unless empty
	Report func(what string) // is told of every broken rule

	mu   sync.Mutex
	next int
	got  []openai.ChatCompletionRequest
}

// Left is how many turns have not been asked for.
func (s *Script) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Turns) - s.next
}

// Requests are those that came so far.
func (s *Script) Requests() []openai.ChatCompletionRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// ServeHTTP answers POST …/chat/completions.
func (s *Script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	var broken []string
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/chat/completions") {
		broken = append(broken, "there is no "+r.Method+" "+r.URL.Path)
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		broken = append(broken, "the content type is "+kind)
	}
	if s.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.Key {
		broken = append(broken, "the key is not the right one")
	}
	broken = append(broken, s.rules().Check(raw)...)
	var req openai.ChatCompletionRequest
	if err := json.Unmarshal(raw, &req); err != nil {
		broken = append(broken, err.Error())
	}
	for _, b := range broken {
		s.Report(b)
	}
	turn, ok := s.take(req)
	if !ok {
		s.Report("a request beyond the script")
		turn = Turn{Status: http.StatusTeapot, Body: `{"error":{"message":"the script is over","type":"invalid_request_error"}}`}
	}
	if turn.Check != nil {
		turn.Check(req)
	}
	switch {
	case len(broken) > 0:
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": strings.Join(broken, "; "), "type": "invalid_request_error"}})
		http.Error(w, string(body), http.StatusBadRequest)
	case turn.Hang:
		<-r.Context().Done()
	case turn.Status != 0:
		for k, v := range turn.Header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(turn.Status)
		io.WriteString(w, turn.Body)
	case req.Stream:
		turn.stream(w, req)
	default:
		turn.whole(w, req)
	}
}

func (s *Script) take(req openai.ChatCompletionRequest) (Turn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, req)
	if s.next == len(s.Turns) {
		return Turn{}, false
	}
	s.next++
	return s.Turns[s.next-1], true
}

// rules are those for a request that comes now: calls that were made have to come
// back with what was given.
func (s *Script) rules() Rules {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.Rules
	r.Extra = map[string]map[string]any{}
	for _, t := range s.Turns[:s.next] {
		for _, c := range t.Calls {
			r.Extra[c.ID] = c.Extra
		}
	}
	return r
}

func (t Turn) finish() string {
	switch {
	case t.Finish != "":
		return t.Finish
	case len(t.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

type object = map[string]any

var usage = object{"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}

func completion(kind, model string) object {
	return object{"id": "chatcmpl-1", "object": kind, "created": 1, "model": model}
}

func (t Turn) whole(w http.ResponseWriter, req openai.ChatCompletionRequest) {
	message := object{"role": "assistant", "content": nil, "refusal": nil}
	if t.Text != "" {
		message["content"] = t.Text
	}
	var calls []object
	for _, c := range t.Calls {
		calls = append(calls, c.with(object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}}))
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	res := completion("chat.completion", req.Model)
	res["choices"] = []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": t.finish()}}
	if !t.NoUsage {
		res["usage"] = usage
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(res)
}

// stream sends text in pieces, then the calls: each is begun without arguments,
// which then come a few bytes at a time, of all calls in turn.
func (t Turn) stream(w http.ResponseWriter, req openai.ChatCompletionRequest) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := http.NewResponseController(w)
	line := func(data string) {
		fmt.Fprintf(w, ": still here\n\ndata: %s\n\n", data)
		out.Flush()
	}
	chunk := func(delta object, finish any) {
		c := completion("chat.completion.chunk", req.Model)
		c["choices"] = []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
		if req.StreamOptions != nil {
			c["usage"] = nil
		}
		b, _ := json.Marshal(c)
		line(string(b))
	}
	for _, e := range t.Events {
		line(e)
	}
	if t.Events == nil {
		chunk(object{"role": "assistant", "content": ""}, nil)
		for piece := range slices.Chunk([]rune(t.Text), 5) {
			chunk(object{"content": string(piece)}, nil)
		}
	}
	if t.Cut {
		panic(http.ErrAbortHandler)
	}
	if t.Events != nil {
		return
	}
	t.streamCalls(func(i int, more object) {
		more["index"] = i
		chunk(object{"tool_calls": []object{more}}, nil)
	})
	chunk(object{}, t.finish())
	if req.StreamOptions != nil && req.StreamOptions.IncludeUsage && !t.NoUsage {
		c := completion("chat.completion.chunk", req.Model)
		c["choices"], c["usage"] = []object{}, usage
		b, _ := json.Marshal(c)
		line(string(b))
	}
	line("[DONE]")
}

// with adds the call's members beyond the API.
func (c Call) with(o object) object {
	maps.Copy(o, c.Extra)
	return o
}

func (t Turn) streamCalls(piece func(i int, more object)) {
	const size = 7
	left := make([]string, len(t.Calls))
	for i, c := range t.Calls {
		piece(i, c.with(object{"id": c.ID, "type": "function", "function": object{"name": c.Name}}))
		left[i] = c.Arguments
	}
	for again := true; again; {
		again = false
		for i, s := range left {
			if s != "" {
				n := min(size, len(s))
				for n < len(s) && s[n]&0xc0 == 0x80 { // not within a character
					n++
				}
				piece(i, object{"function": object{"arguments": s[:n]}})
				left[i], again = s[n:], true
			}
		}
	}
}
