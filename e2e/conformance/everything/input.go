package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asks is a tool that asks the client for input, and what it makes of the answers.
type asks struct {
	name   string
	schema string // of its input; empty: nothing
	// ask is the questions to a client that can answer all of them, and the state
	// that goes with them.
	ask   func(r *request) (mcp.InputRequestMap, string)
	check func(state string) bool // whether that state came back; nil: none is kept
	done  func(answers mcp.InputResponseMap) string
}

// addInput adds the tools that ask for input. They say what they want in their
// results (2026-07-28); the SDK makes requests of that for older sessions.
func addInput(s *mcp.Server) {
	one := func(key string, q mcp.InputRequest) func(*request) (mcp.InputRequestMap, string) {
		return func(*request) (mcp.InputRequestMap, string) { return mcp.InputRequestMap{key: q}, "" }
	}
	name := form("What is your name?", "name", "string")
	confirm := form("Please confirm", "ok", "boolean")
	for _, t := range []asks{
		{
			name: "test_elicitation", schema: `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
			ask: func(r *request) (mcp.InputRequestMap, string) {
				var in struct{ Message string }
				json.Unmarshal(r.Params.Arguments, &in) // the gate has checked it
				return mcp.InputRequestMap{"q": form(in.Message, "username", "string")}, ""
			},
			done: elicited,
		},
		{
			name: "test_sampling", schema: `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`,
			ask: func(r *request) (mcp.InputRequestMap, string) {
				var in struct{ Prompt string }
				json.Unmarshal(r.Params.Arguments, &in) // the gate has checked it
				return mcp.InputRequestMap{"q": sample(in.Prompt)}, ""
			},
			done: func(a mcp.InputResponseMap) string { return "LLM response: " + sampled(a["q"]) },
		},
		{name: "test_elicitation_sep1034_defaults", ask: one("q", raw("Defaults", `{"type":"object","properties":{
			"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
			"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`)), done: elicited},
		{name: "test_elicitation_sep1330_enums", ask: one("q", raw("Choices", `{"type":"object","properties":{
			"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
			"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
			"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`)), done: elicited},
		{name: "test_input_required_result_elicitation", ask: one("user_name", name), done: func(a mcp.InputResponseMap) string { return "Hello, " + field(a["user_name"], "name") + "!" }},
		{name: "test_input_required_result_sampling", ask: one("capital_question", sample("What is the capital of France?")), done: func(a mcp.InputResponseMap) string { return sampled(a["capital_question"]) }},
		{name: "test_input_required_result_list_roots", ask: one("client_roots", &mcp.ListRootsParams{}), done: func(a mcp.InputResponseMap) string { return rooted(a["client_roots"]) }},
		{
			name: "test_input_required_result_request_state",
			ask: func(*request) (mcp.InputRequestMap, string) {
				return mcp.InputRequestMap{"confirm": confirm}, "state-of-this-request"
			},
			check: func(s string) bool { return s == "state-of-this-request" },
			done:  func(mcp.InputResponseMap) string { return "state-ok" },
		},
		{
			name: "test_input_required_result_tampered_state",
			ask: func(*request) (mcp.InputRequestMap, string) {
				return mcp.InputRequestMap{"confirm": confirm}, "sealed-state"
			},
			check: func(s string) bool { return s == "sealed-state" },
			done:  func(mcp.InputResponseMap) string { return "state-ok" },
		},
		{
			name: "test_input_required_result_multiple_inputs",
			ask: func(*request) (mcp.InputRequestMap, string) {
				return mcp.InputRequestMap{"user_name": name, "greeting": sample("Generate a greeting"), "client_roots": &mcp.ListRootsParams{}}, "three-questions"
			},
			check: func(s string) bool { return s == "three-questions" },
			done: func(a mcp.InputResponseMap) string {
				return sampled(a["greeting"]) + " " + field(a["user_name"], "name") + ", " + rooted(a["client_roots"])
			},
		},
		{
			name: "test_input_required_result_capabilities",
			ask: func(r *request) (mcp.InputRequestMap, string) {
				all := mcp.InputRequestMap{}
				c := r.ClientCapabilities()
				if c != nil && c.Elicitation != nil {
					all["user_name"] = name
				}
				if c != nil && c.Sampling != nil {
					all["greeting"] = sample("Generate a greeting")
				}
				return all, ""
			},
			done: func(mcp.InputResponseMap) string { return "answered" },
		},
	} {
		add(s, t.name, "Asks for input before it answers", or(t.schema, nothing), t.call)
	}
	add(s, "test_input_required_result_multi_round", "Asks twice", nothing, twice)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// call asks for what has not been answered yet.
func (t asks) call(_ context.Context, r *request) (*mcp.CallToolResult, error) {
	questions, state := t.ask(r)
	answered := len(questions) == 0 || len(r.Params.InputResponses) > 0
	for key, q := range questions {
		answered = answered && fits(q, r.Params.InputResponses[key])
	}
	switch {
	case t.check != nil && r.Params.RequestState != "" && !t.check(r.Params.RequestState):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the requestState is not ours"}
	case answered && (t.check == nil || r.Params.RequestState != ""):
		return say(t.done(r.Params.InputResponses)), nil
	}
	return &mcp.CallToolResult{InputRequests: questions, RequestState: state}, nil
}

// twice asks one question, and with its answer in the state another one.
func twice(_ context.Context, r *request) (*mcp.CallToolResult, error) {
	first, began := strings.CutPrefix(r.Params.RequestState, "name=")
	switch {
	case r.Params.RequestState == "":
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"step1": form("Step 1: What is your name?", "name", "string")}, RequestState: "first"}, nil
	case !began:
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"step2": form("Step 2: What is your favorite color?", "color", "string")},
			RequestState: "name=" + field(r.Params.InputResponses["step1"], "name")}, nil
	}
	return say(first + " likes " + field(r.Params.InputResponses["step2"], "color")), nil
}

// form asks for one value.
func form(message, name, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{name: {Type: kind}}, Required: []string{name},
	}}
}

func raw(message, schema string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)}
}

func sample(prompt string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}}}
}

// fits reports whether an answer is one to that question.
func fits(q mcp.InputRequest, a mcp.InputResponse) bool {
	switch q.(type) {
	case *mcp.ElicitParams:
		e, ok := a.(*mcp.ElicitResult)
		return ok && e != nil
	case *mcp.CreateMessageParams:
		return sampled(a) != ""
	case *mcp.ListRootsParams:
		l, ok := a.(*mcp.ListRootsResult)
		return ok && l != nil
	}
	return false
}

func field(a mcp.InputResponse, name string) string {
	if e, ok := a.(*mcp.ElicitResult); ok && e != nil {
		return fmt.Sprint(e.Content[name])
	}
	return ""
}

func elicited(a mcp.InputResponseMap) string {
	e, _ := a["q"].(*mcp.ElicitResult)
	return fmt.Sprintf("Elicitation completed: action=%s, content=%v", e.Action, e.Content)
}

func sampled(a mcp.InputResponse) string {
	var parts []mcp.Content
	switch m := a.(type) {
	case *mcp.CreateMessageResult:
		parts = []mcp.Content{m.Content}
	case *mcp.CreateMessageWithToolsResult:
		parts = m.Content
	}
	for _, p := range parts {
		if t, ok := p.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return ""
}

func rooted(a mcp.InputResponse) string {
	if l, ok := a.(*mcp.ListRootsResult); ok && l != nil {
		return fmt.Sprintf("%d roots", len(l.Roots))
	}
	return ""
}
