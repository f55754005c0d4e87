package server

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestResourcesAndPromptsAreListedReadAndRefused(t *testing.T) {
	s := start(t, nil)
	for path, want := range map[string]string{
		"/v1/resources?server=a": `{"server":"s","item":{"uri":"a:///b","name":"b"}}`, "/v1/resources/templates": `{"templates":[]}`,
		"/v1/prompts": `{"prompts":[]}`, "/v1/resources/subscriptions": `{"subscriptions":[{"server":"s","uri":"a:///b"}]}`,
	} {
		if res, body := s.do("GET", path, ""); res.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
	}
	res, body := s.do("POST", "/v1/resources/read", `{"server":"a","uri":"a:///b"}`, "traceparent", "00-1", "tracestate", "a=b", "baggage", "c=d")
	if res.StatusCode != 200 || !strings.Contains(body, `"result":{}`) {
		t.Errorf("read %s %s", res.Status, body)
	}
	if tr := <-s.traces; tr != (signal.Trace{Parent: "00-1", State: "a=b", Baggage: "c=d"}) {
		t.Errorf("the trace is %+v", tr)
	}
	s.do("POST", "/v1/resources/subscribe", `{"server":"s","uri":"a:///b"}`)
	s.do("POST", "/v1/resources/unsubscribe", `{"server":"s","uri":"a:///b"}`)
	s.do("POST", "/v1/completions", `{"server":"s","prompt":"p","argument":"x"}`)
	s.refused(404, control.SubscriptionNotFound, "POST", "/v1/resources/unsubscribe", `{"server":"s","uri":"a:///c"}`)
	s.refused(404, control.PromptNotFound, "POST", "/v1/prompts/get", `{"server":"s","prompt":"p","arguments":{"a":"b"}}`)
	s.refused(502, fault.Protocol, "POST", "/v1/servers/a/log-level", `{"level":"error"}`)
	for path, body := range map[string]string{
		"/v1/resources/read": `{"server":"s"}`, "/v1/prompts/get": `{"server":"s","prompt":""}`, "/v1/completions": `{"argument":"x"}`,
		"/v1/resources/subscribe": `{"uri":"x"}`, "/v1/calls/x/input": `{"action":"accept","replies":{"q":{"action":"accept"}}}`,
	} {
		s.refused(400, control.InvalidRequest, "POST", path, body)
	}
	s.refused(400, control.InvalidRequest, "POST", "/v1/calls/x/input", `{}`)
	s.refused(400, control.InvalidRequest, "POST", "/v1/resources/read", `{"server":"s","uri":"x","entrance":"A B"}`)
	s.refused(400, control.InvalidRequest, "GET", "/v1/resources/watch?server=s", "")
	for method, path := range map[string]string{"GET": "/v1/resources?server=x", "POST": "/v1/servers/x/log-level"} {
		s.refused(404, control.ServerNotFound, method, path, "")
	}
}

func TestAWatchTellsOfEachChangeUntilItsClientLeaves(t *testing.T) {
	s := start(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	res, err := s.http.Do(s.request(ctx, "GET", "/v1/resources/watch?server=s&uri=a:///b", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := s.doc.Answer("GET", "/v1/resources/watch", res, nil); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", res.Status, err)
	}
	lines := bufio.NewScanner(res.Body)
	for range 2 {
		s.changes <- struct{}{}
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		if want := `data: {"server":"s","uri":"a:///b"}`; lines.Text() != want {
			t.Errorf("told %q", lines.Text())
		}
	}
	leave()
	receive(t, "the end of the watch", s.unwatched)
}

func TestACallThatWaitsIsShownAndAnswered(t *testing.T) {
	s := start(t, nil)
	s.do("POST", "/v1/calls", `{"name":"hold","id":"a","async":true}`)
	receive(t, "the call", s.held)
	question := []signal.Question{{ID: "q", Kind: "form", Message: "Well?"}}
	s.mu.Lock()
	s.inputs = []signal.Input{
		{CallID: "a", Server: "s", Subject: "hold", Round: 1, Questions: question, AskedAt: "2026-01-01T00:00:00Z", ExpiresAt: "2026-01-01T00:05:00Z"},
		{CallID: "from-a-file", Server: "s", Subject: "s.other", Round: 1, Questions: question, AskedAt: "2026-01-01T00:00:00Z", ExpiresAt: "2026-01-01T00:05:00Z"},
	}
	s.mu.Unlock()
	for _, id := range []string{"a", "from-a-file"} {
		st := s.state("GET", "/v1/calls/"+id)
		if st.State != "input_required" || st.Input == nil || st.Input.Questions[0].Message != "Well?" || st.StartedAt.IsZero() {
			t.Errorf("the state is %+v", st)
		}
	}
	if res, body := s.do("GET", "/v1/calls?state=input_required", ""); res.StatusCode != 200 || strings.Count(body, `"call_id"`) != 4 {
		t.Errorf("listed %s", body)
	}
	if _, body := s.do("GET", "/v1/calls?state=running", ""); !strings.Contains(body, `{"calls":[]}`) {
		t.Errorf("listed %s", body)
	}
	for body, want := range map[string]string{
		`{"action":"accept","content":{"n":9007199254740993}}`: `a map[:{accept [123 34 110 34 58 57 48 48 55 49 57 57 50 53 52 55 52 48 57 57 51 125]}] api`,
		`{"replies":{"q":{"action":"decline"}},"actor":"ada"}`: `a map[q:{decline []}] ada`,
	} {
		if res, got := s.do("POST", "/v1/calls/a/input", body); res.StatusCode != 200 {
			t.Errorf("%s: %s %s", body, res.Status, got)
		}
		if got := <-s.answers; got != want {
			t.Errorf("the backend got %s, want %s", got, want)
		}
	}
	s.refused(404, control.InputNotFound, "POST", "/v1/calls/b/input", `{"action":"accept"}`)
	s.release <- struct{}{}
}
