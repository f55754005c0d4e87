package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/asking"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

func TestAResultArrivesByteForByte(t *testing.T) {
	k := newKit(t)
	k.connect(t, "exact")
	res, err := k.Call(deadline(t), features.CallRequest{Server: "exact", Tool: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Raw) != fakeserver.Exact {
		t.Errorf("got  %s\nwant %s", res.Raw, fakeserver.Exact)
	}
	if toolcall.Read(res.Raw).IsError() || res.NeedsInput() || string(res.Member("x-own")) != "[ ]" {
		t.Errorf("its members: %s, input needed %v, %s", res.Raw, res.NeedsInput(), res.Member("x-own"))
	}
}

func TestArgumentsAndMetaArriveAsGiven(t *testing.T) {
	k := newKit(t)
	k.connect(t, "raw-params")
	for _, c := range []struct {
		args, meta, want string
		checked          bool
	}{
		{args: "", meta: "", want: `{"name":"a\"b","arguments":{},"_meta":{"progressToken":ID}}`},
		{args: " null ", meta: "null", want: `{"name":"a\"b","arguments":{},"_meta":{"progressToken":ID}}`},
		{args: "{\n\"t\":\r\n\"a\\n\"}", want: `{"name":"a\"b","arguments":{"t":"a\n"},"_meta":{"progressToken":ID}}`, checked: true},
		{args: "{\n \"n\": 9007199254740993.10,\r\n\t\"t\":\"a\\n\u2028\"}", meta: `{"traceparent":"00-1","progressToken":7,"io.modelcontextprotocol/clientInfo":{}}`,
			want: "{\"name\":\"a\\\"b\",\"arguments\":{ \"n\": 9007199254740993.10,\t\"t\":\"a\\n\u2028\"},\"_meta\":{\"traceparent\":\"00-1\",\"progressToken\":ID}}"},
	} {
		res, err := k.Call(deadline(t), features.CallRequest{Server: "raw-params", Tool: `a"b`,
			Arguments: json.RawMessage(c.args), Checked: c.checked, Meta: json.RawMessage(c.meta)})
		if err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Meta struct {
				ProgressToken json.Number `json:"progressToken"`
			} `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(textOf(res)), &sent); err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(c.want, "ID", sent.Meta.ProgressToken.String(), 1)
		if textOf(res) != want {
			t.Errorf("got  %s\nwant %s", textOf(res), want)
		}
	}
}

func TestACallThatCannotBeSentIsRefused(t *testing.T) {
	k := newKit(t)
	k.connect(t, "raw-params")
	for name, r := range map[string]features.CallRequest{
		"array":     {Tool: "echo", Arguments: []byte(`[1]`)},
		"text":      {Tool: "echo", Arguments: []byte(`{"a":`)},
		"two":       {Tool: "echo", Arguments: []byte(`{}{}`)},
		"meta":      {Tool: "echo", Meta: []byte(`[]`)},
		"no tool":   {},
		"negative":  {Tool: "echo", Timeout: -1},
		"responses": {Tool: "echo", InputResponses: []byte(`7`)},
	} {
		r.Server = "raw-params"
		_, err := k.Call(deadline(t), r)
		if f := faultOf(t, err); f.Code != fault.InvalidArguments || f.Outcome == fault.OutcomeUnknown {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func TestACrashFailsTheCallAtOnceAndNothingIsSentAgain(t *testing.T) {
	for crashes, want := range []string{fault.ServerCrashed, fault.ServerUnstable} {
		k := newKit(t)
		c := k.conn(t, "crash-third")
		c.Crashes = crashes
		s, err := k.Connect(deadline(t), c)
		if err != nil {
			t.Fatal(err)
		}
		k.echo(t, "crash-third", "one")
		k.echo(t, "crash-third", "two")
		_, err = call(k.Manager, deadline(t), "crash-third", "echo", "three")
		if f := faultOf(t, err); f.Code != want || f.Outcome != fault.OutcomeUnknown {
			t.Errorf("after %d crashes: %v, outcome %q", crashes, f, f.Outcome)
		}
		<-s.Done()
	}
}

func TestACallEndsByItsTimeOrWithItsCallerAndTheServerIsTold(t *testing.T) {
	k := newKit(t)
	k.connectWith(t, session.Config{CallTimeout: 100 * time.Millisecond}, "hang-call")
	_, err := call(k.Manager, deadline(t), "hang-call", "echo", "x")
	if f := faultOf(t, err); f.Code != fault.Timeout || f.Outcome != fault.OutcomeUnknown {
		t.Errorf("by the server's limit: %v, outcome %q", f, f.Outcome)
	}

	ctx, cancel := context.WithCancelCause(deadline(t))
	time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("the person left")) })
	_, err = k.Call(ctx, features.CallRequest{Server: "hang-call", Tool: "echo", Timeout: testTimeout})
	if f := faultOf(t, err); f.Code != fault.Cancelled || f.Outcome != fault.OutcomeUnknown {
		t.Errorf("by the caller: %v, outcome %q", f, f.Outcome)
	}
	_, err = k.Call(ctx, features.CallRequest{Server: "hang-call", Tool: "echo"})
	if f := faultOf(t, err); f.Code != fault.Cancelled || f.Outcome == fault.OutcomeUnknown {
		t.Errorf("by the caller before it was sent: %v, outcome %q", f, f.Outcome)
	}

	told, err := call(k.Manager, deadline(t), "hang-call", "kept", "")
	if err != nil || strings.Count(told, `"notifications/cancelled"`) != 2 || !strings.Contains(told, "the person left") {
		t.Errorf("the server was told %s, %v", told, err)
	}
}

func TestAnswersMayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.connect(t, "late-call", "together=10") // the last is answered first, and none before all are there
	var group sync.WaitGroup
	for i := range 10 {
		group.Go(func() { k.echo(t, "late-call", fmt.Sprint("message ", i)) })
	}
	group.Wait()
}

func TestStrayAndSecondAnswersAreDropped(t *testing.T) {
	k := newKit(t)
	k.connect(t, "twice")
	for i := range 5 {
		k.echo(t, "twice", fmt.Sprint(i))
	}
	if f := k.waitFault(t, "unmatched_response"); !strings.Contains(f.Sample, "AGAIN") {
		t.Errorf("reported %+v", f)
	}

	k.connect(t, "wrong-id")
	_, err := k.Call(deadline(t), features.CallRequest{Server: "wrong-id", Tool: "echo", Timeout: 100 * time.Millisecond})
	if f := faultOf(t, err); f.Code != fault.Timeout {
		t.Errorf("got %v", f)
	}
	if n := k.Session("wrong-id").Problems()["unmatched_response"]; n != 2 {
		t.Errorf("%d stray answers were counted", n)
	}
}

func TestALateAnswerIsNoStray(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "slow")
	_, err := k.Call(deadline(t), features.CallRequest{Server: "slow", Tool: "echo", Timeout: 20 * time.Millisecond, Arguments: []byte(`{"millis":100}`)})
	if f := faultOf(t, err); f.Code != fault.Timeout {
		t.Fatal(f)
	}
	if _, err := k.Call(deadline(t), features.CallRequest{Server: "slow", Tool: "echo", Arguments: []byte(`{"millis":300}`)}); err != nil {
		t.Fatal(err)
	}
	if p := s.Problems(); len(p) != 1 || p["late_response"] != 1 || len(k.of("mcp.error")) != 0 {
		t.Errorf("counted %v", p)
	}
}

func TestProgressBuysTimeUpToTheCeiling(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.connectWith(t, session.Config{CallTimeout: 500 * time.Millisecond, MaxCallTime: 1500 * time.Millisecond}, "progress")
	var last string
	res, err := k.Call(deadline(t), features.CallRequest{Server: "progress", Tool: "echo",
		Arguments:  []byte(`{"message":"done","times":8,"millis":100}`),
		OnProgress: func(p json.RawMessage) { last = string(p) }})
	if err != nil || textOf(res) != "done" {
		t.Errorf("progress did not buy time: %v", err)
	}
	if !strings.Contains(last, `"total":8`) {
		t.Errorf("the last progress is %s", last)
	}

	_, err = k.Call(deadline(t), features.CallRequest{Server: "progress", Tool: "echo", Arguments: []byte(`{"times":600,"millis":100}`)})
	if f := faultOf(t, err); f.Code != fault.Timeout {
		t.Errorf("progress without end: %v", f)
	}
}

func TestASlowProgressHandlerHoldsUpNobodyElse(t *testing.T) {
	k := newKit(t)
	k.connect(t, "progress")
	release, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := k.Call(t.Context(), features.CallRequest{Server: "progress", Tool: "echo", Arguments: []byte(`{"times":50,"millis":1}`),
			OnProgress: func(json.RawMessage) { <-release }})
		done <- err
	}()
	for i := range 20 {
		k.echo(t, "progress", fmt.Sprint(i))
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAServersErrorIsKept(t *testing.T) {
	k := newKit(t)
	k.connect(t, "error-call")
	_, err := call(k.Manager, deadline(t), "error-call", "echo", "x")
	f := faultOf(t, err)
	if f.Code != fault.Protocol || f.Outcome == fault.OutcomeUnknown || !strings.Contains(f.Message, "-32602") ||
		string(f.Data) != `{"code":-32602,"message":"unknown tool","data":{"n":9007199254740993}}` {
		t.Errorf("got %v with %s", f, f.Data)
	}
}

func TestIDsMayComeBackAsFloats(t *testing.T) {
	k := newKit(t)
	k.connect(t, "float-id")
	if _, err := call(k.Manager, deadline(t), "float-id", "echo", "x"); err != nil {
		t.Error(err)
	}
}

func TestABatchIsTakenApart(t *testing.T) {
	k := newKit(t)
	k.connect(t, "batch")
	k.echo(t, "batch", "inside")
	if got := k.waitOf(t, "mcp.notification", 1)[0]; got.Method != "notifications/custom/thing" || string(got.Params) != `{"n":1}` {
		t.Errorf("got %+v", got)
	}
}

func TestCallsBeyondTheLimitWait(t *testing.T) {
	k := newKit(t)
	s := k.connectWith(t, session.Config{MaxInFlight: 2}, "slow")
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			k.Call(t.Context(), features.CallRequest{Server: "slow", Tool: "echo", Arguments: []byte(`{"millis":400}`)})
		})
	}
	eventually(t, "two calls in flight", func() bool { return s.Info().InFlight == 2 })
	_, err := k.Call(deadline(t), features.CallRequest{Server: "slow", Tool: "echo", Timeout: 50 * time.Millisecond})
	if f := faultOf(t, err); f.Code != fault.Busy || !f.Retryable {
		t.Errorf("a third call that has no time: %v", f)
	}
	k.echo(t, "slow", "the third waits its turn")
	group.Wait()
}

func TestAServerWithoutToolsIsNotAskedForAny(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "no-tools")
	if n := s.Info().Tools; n != 0 {
		t.Errorf("%d tools", n)
	}
	_, err := call(k.Manager, deadline(t), "no-tools", "echo", "x")
	if f := faultOf(t, err); f.Code != fault.ToolNotFound {
		t.Errorf("got %v", f)
	}
}

func TestUninvitedRequestsAreRefusedAndReported(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "uninvited")
	eventually(t, "five requests", func() bool { return s.Problems()["uninvited_request"] == 5 })
	told, err := call(k.Manager, deadline(t), "uninvited", "kept", "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if !strings.Contains(told, fmt.Sprintf(`"ask-%d"`, i)) {
			t.Errorf("request %d was left unanswered", i)
		}
	}
	if strings.Count(told, "-32601") != 5 {
		t.Errorf("the answers are %s", told)
	}
	k.waitFault(t, "uninvited_request")
}

// answer is an asker that answers everything alike.
func answer(result string) asking.Asker {
	return func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(result), nil
	}
}

func TestAQuestionInTheMiddleOfACallReachesItsCallerAndStopsTheClock(t *testing.T) {
	k := newKit(t)
	k.connectWith(t, session.Config{Elicit: true, CallTimeout: 300 * time.Millisecond}, "elicit")
	res, err := k.Call(deadline(t), features.CallRequest{Server: "elicit", Tool: "echo",
		Ask: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			if method != handshake.MethodElicit || !strings.Contains(string(params), "What is your name?") {
				t.Errorf("asked %s %s", method, params)
			}
			time.Sleep(900 * time.Millisecond) // a person thinks for three times as long as a call may take
			return json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`), nil
		}})
	if err != nil || !strings.Contains(textOf(res), `"name":"Ada"`) {
		t.Errorf("elicitation gave %v, %v", res, err)
	}
	_, err = k.Call(deadline(t), features.CallRequest{Server: "elicit", Tool: "echo", Ask: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return nil, fault.New(fault.InvalidArguments, "nobody is asked that")
	}})
	if err != nil {
		t.Error(err)
	}
	if res, err := k.Call(deadline(t), features.CallRequest{Server: "elicit", Tool: "echo"}); err != nil || !strings.Contains(textOf(res), "answers no questions") {
		t.Errorf("a caller that answers nothing: %v, %v", res, err)
	}
}

func TestRootsAreListedAndAQuestionOutsideACallIsRefused(t *testing.T) {
	k := newKit(t)
	s := k.connectWith(t, session.Config{Roots: []*mcp.Root{{URI: "file:///srv/notes"}}, Sampling: true}, "roots")
	eventually(t, "both answers", func() bool {
		told, err := call(k.Manager, t.Context(), "roots", "kept", "")
		return err == nil && strings.Contains(told, "file:///srv/notes") && strings.Contains(told, "-32000")
	})
	if n := s.Problems()["uninvited_request"]; n != 1 {
		t.Errorf("%d were recorded", n)
	}
}

func TestCallersOfAServerThatAsksTakeTurnsAndEachSeesItsOwnQuestion(t *testing.T) {
	k := newKit(t)
	k.connectWith(t, session.Config{Elicit: true}, "elicit")
	ask := func(who string) chan string {
		c := make(chan string, 1)
		go func() {
			res, err := k.Call(deadline(t), features.CallRequest{Server: "elicit", Tool: "echo", Asker: who, Ask: answer(`{"action":"accept","content":{"name":"` + who + `"}}`)})
			if err != nil {
				t.Error(err)
			}
			c <- textOf(res)
		}()
		return c
	}
	one, two := ask("one"), ask("two")
	for who, got := range map[string]string{"one": <-one, "two": <-two} {
		if !strings.Contains(got, `"name":"`+who+`"`) {
			t.Errorf("the call of %s got %s", who, got)
		}
	}
}

func TestEachQuestionOfSeveralCallsOfOneCallerIsAnswered(t *testing.T) {
	k := newKit(t)
	k.connectWith(t, session.Config{Elicit: true}, "elicit", "hold=2") // asks when all three calls have come
	got := make(chan string, 3)
	for range 3 {
		go func() {
			res, err := k.Call(deadline(t), features.CallRequest{Server: "elicit", Tool: "echo", Asker: "one", Ask: answer(`{"action":"accept","content":{"name":"Ada"}}`)})
			if err != nil {
				t.Error(err)
				got <- ""
				return
			}
			got <- textOf(res)
		}()
	}
	for range 3 {
		if text := <-got; !strings.Contains(text, `"name":"Ada"`) {
			t.Errorf("one of the calls got %s", text)
		}
	}
}

func TestACallThatWaitsForItsTurnEndsInTimeAndIsNotSent(t *testing.T) {
	k := newKit(t)
	k.connectWith(t, session.Config{Elicit: true}, "elicit")
	asked, answer := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := k.Call(deadline(t), features.CallRequest{Server: "elicit", Tool: "echo", Asker: "one", Ask: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			close(asked)
			<-answer
			return json.RawMessage(`{"action":"decline"}`), nil
		}})
		first <- err
	}()
	<-asked
	_, err := k.Call(deadline(t), features.CallRequest{Server: "elicit", Tool: "echo", Asker: "two", Timeout: time.Millisecond})
	if f := fault.From(err); f.Code != fault.Busy || f.Outcome == fault.OutcomeUnknown || !strings.Contains(f.Message, "take turns") {
		t.Errorf("a call that waits for its turn: %v", err)
	}
	close(answer)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if _, err := k.Call(deadline(t), features.CallRequest{Server: "elicit", Tool: "echo", Asker: "two"}); err != nil {
		t.Errorf("after the first call: %v", err)
	}
}

func TestTheStatelessProtocolIsSpoken(t *testing.T) {
	for _, mode := range []string{"modern", "modern-only"} {
		k := newKit(t)
		s := k.connect(t, mode)
		if i := s.Info(); i.ProtocolVersion != "2026-07-28" || i.ServerName != "fake modern" || i.Tools != 5 {
			t.Errorf("%+v", i)
		}
		k.echo(t, mode, "hello") // the server refuses requests that do not say who asks

		res, err := k.Call(deadline(t), features.CallRequest{Server: mode, Tool: "ask"})
		if err != nil || !res.NeedsInput() || string(res.Member("requestState")) != `"state-1"` {
			t.Fatalf("input is required: %v, %v", res, err)
		}
		res, err = k.Call(deadline(t), features.CallRequest{Server: mode, Tool: "ask",
			InputResponses: []byte(`{"q":{"action":"accept"}}`), RequestState: res.Member("requestState")})
		if err != nil || res.NeedsInput() || !strings.Contains(textOf(res), `"requestState":"state-1"`) {
			t.Errorf("with the answers: %v, %v", res, err)
		}
	}
}

func TestListChangedComesOnTheListenStreamWhichIsOpenedAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.connect(t, "modern")
	eventually(t, "the stream", func() bool {
		told, _ := call(k.Manager, t.Context(), "modern", "kept", "")
		return strings.Contains(told, "subscriptions/listen")
	})
	if _, err := call(k.Manager, deadline(t), "modern", "change", ""); err != nil {
		t.Fatal(err)
	}
	if c := k.waitOf(t, "capability.changed", 1)[0]; !strings.Contains(c.Summary, "1 added") {
		t.Error(c.Summary)
	}

	k = newKit(t)
	k.connect(t, "modern")
	eventually(t, "the stream", func() bool {
		told, _ := call(k.Manager, t.Context(), "modern", "kept", "")
		return strings.Contains(told, "subscriptions/listen")
	})
	if _, err := call(k.Manager, deadline(t), "modern", "hangup", ""); err != nil {
		t.Fatal(err)
	}
	k.waitOf(t, "capability.changed", 1) // it was changed while nobody listened
	eventually(t, "the stream again", func() bool {
		told, _ := call(k.Manager, t.Context(), "modern", "kept", "")
		return strings.Count(told, "subscriptions/listen") == 2
	})
}

func TestResourcesAndPromptsPassThrough(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "resources")
	ctx := deadline(t)
	if rs, err := s.ListResources(ctx); err != nil || len(rs) != 2 {
		t.Errorf("%s, %v", rs, err)
	}
	if ts, err := s.ListResourceTemplates(ctx); err != nil || len(ts) != 1 {
		t.Errorf("%s, %v", ts, err)
	}
	if ps, err := s.ListPrompts(ctx); err != nil || len(ps) != 1 {
		t.Errorf("%s, %v", ps, err)
	}
	if r, err := s.ReadResource(ctx, "note:///<one>", features.With{}); err != nil || !strings.Contains(string(r.Raw), "the content of note:///<one>") {
		t.Errorf("%s, %v", r, err)
	}
	if p, err := s.GetPrompt(ctx, "greet", map[string]string{"who": "Ada"}, features.With{}); err != nil || !strings.Contains(string(p.Raw), "Greet Ada") {
		t.Errorf("%s, %v", p, err)
	}

	// Only the resources changed: one signal, and none for the first readings.
	if _, err := call(k.Manager, ctx, "resources", "echo", ""); err != nil {
		t.Fatal(err)
	}
	k.waitOf(t, "capability.changed", 1)
	if _, err := k.connect(t, "echo").ListPrompts(ctx); err == nil {
		t.Error("a server without prompts was asked for them")
	}
	if n := len(k.of("capability.changed")); n != 1 {
		t.Errorf("%d changes", n)
	}
}
