package modeltest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	user      = `{"role":"user","content":"hi"}`
	assistant = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	toolA     = `{"role":"tool","tool_call_id":"a","content":"x"}`
	toolB     = `{"role":"tool","tool_call_id":"b","content":"x"}`
	image     = `{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}`
)

func with(messages ...string) string {
	return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
}

func function(members string) string {
	return `{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{` + members + `}}]}`
}

func TestGoodRequestsBreakNoRule(t *testing.T) {
	for _, body := range []string{
		with(user),
		with(`{"role":"system","content":"be brief"}`, user, assistant, toolA, toolB, image, `{"role":"assistant","content":"ok"}`, user),
		function(`"name":"f","parameters":{"type":"object","properties":{"x":{"default":null}}},"strict":true,"description":"does"`),
		`{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"messages":[` + user + `]}`,
	} {
		if found := (Rules{}).Check([]byte(body)); len(found) > 0 {
			t.Errorf("%s: %q", body, found)
		}
	}
}

func TestEachBrokenRuleIsFound(t *testing.T) {
	call := func(id, kind, f string) string {
		return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":%q,"type":%q,"function":%s}]}`, id, kind, f)
	}
	many := strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 129)
	for body, says := range map[string]string{
		`[]`:                                       "no JSON object",
		with(user) + `{}`:                          "follows",
		`{"messages":[` + user + `]}`:              "no model",
		`{"model":"m","messages":[]}`:              "no messages",
		with(user, assistant, toolA):               "not answered",
		with(user, assistant, toolB, toolA):        `answers "b"`,
		with(user, assistant, toolA, toolB, toolB): `answers "b"`,
		with(user, toolA):                          `answers "a"`,
		with(user, assistant, toolA, user, toolB):  "comes before the answers",
		with(user, assistant, toolA, toolB, assistant, toolA, toolB):                       `the id "a"`,
		with(call("", "function", `{"name":"f","arguments":"{}"}`)):                        `the id ""`,
		with(call("c", "tool", `{"name":"f","arguments":"{}"}`)):                           "of type tool",
		with(call("c", "function", `{"name":"a b","arguments":"{}"}`)):                     `calls "a b"`,
		with(call("c", "function", `{"name":"f"}`)):                                        `arguments ""`,
		with(call("c", "function", `{"name":"f","arguments":"{"}`)):                        `arguments "{"`,
		with(call("c", "function", `{"name":"f","arguments":"null"}`)):                     `arguments "null"`,
		with(`{"role":"assistant","tool_calls":[]}`):                                       "0 tool calls",
		with(`{"role":"assistant","content":null}`):                                        "null",
		with(`{"role":"assistant"}`):                                                       "no content",
		with(`{"role":"user","content":" "}`):                                              "content of 1 bytes",
		with(`{"role":"user","content":[]}`):                                               "no content",
		with(`{"role":"system","content":[{"type":"image_url","image_url":{}}]}`):          "part of the type",
		with(`{"role":"robot","content":"x"}`):                                             "the role robot",
		with(user, assistant, toolA, `{"role":"tool","tool_call_id":"b"}`):                 "no content",
		with(user, assistant, toolA, strings.Replace(toolB, "{", `{"name":"f",`, 1)):       `unknown member "name"`,
		function(`"name":"a.b"`):                                                           `the name "a.b"`,
		function(`"name":"f","parameters":null`):                                           `null "parameters"`,
		function(`"name":"f","parameters":{}`):                                             "no object schema",
		function(`"name":"f","strict":"yes"`):                                              "strict yes",
		function(`"name":"f","description":7`):                                             "no text",
		function(`"name":"f"}},{"type":"function","function":{"name":"f"`):                 "two tools",
		`{"model":"m","messages":[` + user + `],"tools":[]}`:                               "0 tools",
		`{"model":"m","messages":[` + user + `],"tools":[` + many[:len(many)-1] + `]}`:     "129 tools",
		`{"model":"m","messages":[` + user + `],"tool_choice":"auto"}`:                     "tool_choice without tools",
		`{"model":"m","messages":[` + user + `],"stream_options":{}}`:                      "without stream",
		`{"model":"m","messages":[` + user + `],"max_tokens":0}`:                           "max_tokens is 0",
		`{"model":"m","messages":[` + user + `],"max_tokens":1,"max_completion_tokens":1}`: "both",
		`{"model":"m","messages":[` + user + `],"functions":[]}`:                           `unknown member "functions"`,
	} {
		if found := strings.Join((Rules{}).Check([]byte(body)), "; "); !strings.Contains(found, says) {
			t.Errorf("%.300s: found %q, not %q", body, found, says)
		}
	}
	if found := (Rules{ID: MistralIDs}).Check([]byte(with(user, assistant, toolA, toolB))); len(found) != 2 {
		t.Errorf("ids of another provider: %q", found)
	}
}

func TestAScriptReportsWhatItWasNotMadeFor(t *testing.T) {
	var said []string
	s := &Script{Key: "k", Report: func(what string) { said = append(said, what) }}
	req := httptest.NewRequest("PUT", "/v1/other", strings.NewReader(with(user)))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	all := strings.Join(said, "; ")
	for _, part := range []string{"there is no PUT /v1/other", "the content type", "the key", "beyond the script"} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is not in %q", part, all)
		}
	}
	if w.Code != http.StatusBadRequest {
		t.Errorf("answered with %d", w.Code)
	}
}
