package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/hosttest"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// asks is a server whose tool "ask" wants to know something before it answers
// with what it was told. The SDK makes requests of its own of it for clients of
// the older era.
func asks(questions mcp.InputRequestMap) *mcp.Server {
	return server("ask", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.InputResponses == nil {
			return &mcp.CallToolResult{InputRequests: questions, RequestState: "state-1"}, nil
		}
		told, err := json.Marshal(r.Params.InputResponses)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.Params.RequestState + " " + string(told)}}}, nil
	})
}

func server(tool string, handle mcp.ToolHandler) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, handle)
	return s
}

// form is a question with one field of a type.
func form(name, typ string) mcp.InputRequestMap {
	return mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Well?", RequestedSchema: json.RawMessage(
		fmt.Sprintf(`{"type":"object","properties":{%q:{"type":%q}},"required":[%q]}`, name, typ, name))}}
}

// asking is a host in front of one server in one era.
type asking struct {
	*host.Host
	offers  *offers.Reader
	heard   *hosttest.Signals
	session *session.Session
}

func newAsking(t *testing.T, era string, s *mcp.Server, o host.Options, cfg session.Config) *asking {
	t.Helper()
	a := &asking{heard: &hosttest.Signals{}}
	m := hosttest.Manager(t, a.heard, era)
	a.session = hosttest.Join(t, m, "asker", era, s, cfg)
	o.Client, o.Sink = m, a.heard
	a.Host, a.offers = host.New(o), offers.New(offers.Options{Client: m, Sink: a.heard})
	return a
}

type outcome struct {
	res *host.Result
	err error
}

// begin makes a call that will wait.
func (a *asking) begin(ctx context.Context, c host.Call) <-chan outcome {
	c.Name = "asker.ask"
	out := make(chan outcome, 1)
	go func() {
		res, err := a.Call(ctx, c)
		out <- outcome{res, err}
	}()
	return out
}

// open waits until a call waits for an answer.
func (a *asking) open(t *testing.T, id string) signal.Input {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if in, ok := a.Input(id); ok {
			return in
		}
		if time.Now().After(end) {
			t.Fatal("the call does not wait for an answer")
		}
	}
}

func (a *asking) decisions() (out []string) {
	for _, s := range a.heard.Of(signal.InputResolved) {
		out = append(out, s.Data.(*signal.Input).Decision)
	}
	return out
}

var elicit = session.Config{Elicit: true}

func TestACallWaitsForAnAnswerAndGoesOnWithIt(t *testing.T) {
	for _, era := range hosttest.Eras {
		t.Run(era, func(t *testing.T) {
			a := newAsking(t, era, asks(form("dice", "integer")), host.Options{}, elicit)
			out := a.begin(hosttest.Deadline(t), host.Call{ID: "c1", Entrance: "api", Trace: signal.Trace{Parent: hosttest.TraceParent}})
			in := a.open(t, "c1")
			if len(in.Questions) != 1 || in.Questions[0].Kind != ask.FormQuestion || in.Questions[0].Message != "Well?" || in.Subject != "asker.ask" || in.Round != 1 {
				t.Fatalf("it waits for %+v", in)
			}
			id := in.Questions[0].ID
			for _, bad := range []ask.Replies{
				{}, {"": {Action: "yes"}}, {id: {Action: ask.Accept}}, {id: {Action: ask.Accept, Content: json.RawMessage(`{"dice":"two"}`)}},
				{id: {Action: ask.Accept, Content: json.RawMessage(`{"dice":2,"more":1}`)}}, {id: {Action: ask.Decline, Content: json.RawMessage(`{"dice":2}`)}},
				{id: {Action: ask.Cancel}, "x": {Action: ask.Cancel}},
			} {
				if err := a.AnswerInput("c1", bad, "ada"); hosttest.CodeOf(err) != fault.InvalidArguments {
					t.Errorf("the answer %+v: %v", bad, err)
				}
			}
			if err := a.AnswerInput("c1", ask.Replies{"": {Action: ask.Accept, Content: json.RawMessage(`{"dice":2}`)}}, "ada"); err != nil {
				t.Fatal(err)
			}
			o := <-out
			if o.err != nil || !strings.Contains(string(o.res.Raw), `\"dice\":2`) || !strings.Contains(string(o.res.Raw), "state-1") || o.res.Waited <= 0 {
				t.Errorf("the call gave %+v, %v", o.res, o.err)
			}
			if err := a.AnswerInput("c1", ask.Replies{"": {Action: ask.Accept}}, "ada"); hosttest.CodeOf(err) != ask.NotFound {
				t.Errorf("a late answer: %v", err)
			}
			steps := a.heard.Of(signal.ToolStarted, signal.InputRequired, signal.InputResolved, signal.ToolCompleted)
			var kinds []signal.Kind
			for _, s := range steps {
				kinds = append(kinds, s.Kind)
				if s.CallID != "c1" || s.Trace.Parent != hosttest.TraceParent {
					t.Errorf("a step is %+v", s)
				}
			}
			if want := []signal.Kind{signal.ToolStarted, signal.InputRequired, signal.InputResolved, signal.ToolCompleted}; !slices.Equal(kinds, want) {
				t.Fatalf("the steps are %v", kinds)
			}
			if d := steps[2].Data.(*signal.Input); d.Decision != "answered" || d.Actor != "ada" {
				t.Errorf("resolved %+v", d)
			}
			if len(a.Inputs()) != 0 {
				t.Errorf("%v still wait", a.Inputs())
			}
		})
	}
}

func TestDecliningAndSilenceEndAQuestionWell(t *testing.T) {
	for _, era := range hosttest.Eras {
		t.Run(era, func(t *testing.T) {
			a := newAsking(t, era, asks(form("dice", "integer")), host.Options{InputTimeout: 20 * time.Second}, elicit)
			out := a.begin(hosttest.Deadline(t), host.Call{ID: "c1"})
			in := a.open(t, "c1")
			if err := a.AnswerInput("c1", ask.Replies{in.Questions[0].ID: {Action: ask.Decline}}, "ada"); err != nil {
				t.Fatal(err)
			}
			if o := <-out; o.err != nil || !strings.Contains(string(o.res.Raw), `\"decline\"`) {
				t.Errorf("declined: %+v, %v", o.res, o.err)
			}
			a = newAsking(t, era, asks(form("dice", "integer")), host.Options{InputTimeout: 50 * time.Millisecond}, elicit)
			if o := <-a.begin(hosttest.Deadline(t), host.Call{ID: "c2"}); o.err != nil || !strings.Contains(string(o.res.Raw), `\"cancel\"`) {
				t.Errorf("nobody came: %+v, %v", o.res, o.err)
			}
			if d := a.decisions(); !slices.Equal(d, []string{"expired"}) {
				t.Errorf("decided %v", d)
			}
		})
	}
}

func TestACallerThatGivesUpLeavesNoQuestionOpen(t *testing.T) {
	for _, era := range hosttest.Eras {
		t.Run(era, func(t *testing.T) {
			a := newAsking(t, era, asks(form("dice", "integer")), host.Options{}, elicit)
			ctx, cancel := context.WithCancel(hosttest.Deadline(t))
			out := a.begin(ctx, host.Call{ID: "c1"})
			a.open(t, "c1")
			cancel()
			if o := <-out; hosttest.CodeOf(o.err) != fault.Cancelled {
				t.Errorf("%+v, %v", o.res, o.err)
			}
			for end := time.Now().Add(2 * time.Minute); len(a.decisions()) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
			if d := a.decisions(); !slices.Equal(d, []string{"cancelled"}) || len(a.Inputs()) != 0 {
				t.Errorf("decided %v, open %v", d, a.Inputs())
			}
		})
	}
}

func TestAFormThatAsksForASecretIsShownToNobody(t *testing.T) {
	for _, era := range hosttest.Eras {
		t.Run(era, func(t *testing.T) {
			a := newAsking(t, era, asks(form("apiKey", "string")), host.Options{}, elicit)
			res, err := a.Call(hosttest.Deadline(t), host.Call{Name: "asker.ask", Input: func(context.Context, signal.Input) (ask.Replies, error) {
				t.Error("somebody was asked")
				return nil, nil
			}})
			if era == "2026-07-28" {
				if hosttest.CodeOf(err) != fault.InputRequired || !strings.Contains(err.Error(), "api key") {
					t.Errorf("%+v, %v", res, err)
				}
			} else if err == nil && !res.IsError {
				t.Errorf("the tool was told something: %s", res.Raw)
			}
			problems := a.heard.Of(signal.Problem)
			if len(problems) != 1 || problems[0].Data.(*signal.Fault).Code != "question_refused" || !strings.Contains(problems[0].Data.(*signal.Fault).Detail, "apiKey") {
				t.Errorf("recorded %+v", problems)
			}
			if n := len(a.heard.Of(signal.InputRequired)); n != 0 {
				t.Errorf("%d questions were laid open", n)
			}
		})
	}
}

func TestAPersonIsShownWhoseAddressItIsAndNothingIsOpened(t *testing.T) {
	for _, era := range hosttest.Eras {
		t.Run(era, func(t *testing.T) {
			a := newAsking(t, era, asks(mcp.InputRequestMap{"q": &mcp.ElicitParams{Mode: "url", Message: "Sign in", ElicitationID: "e1", URL: "https://www.pаypal.com/login"}}), host.Options{}, elicit)
			out := a.begin(hosttest.Deadline(t), host.Call{ID: "c1"})
			q := a.open(t, "c1").Questions[0]
			if q.Kind != ask.URLQuestion || !strings.HasPrefix(q.Host, "www.xn--") || !strings.Contains(q.Warning, q.Host) {
				t.Errorf("shown %+v", q)
			}
			if err := a.AnswerInput("c1", ask.Replies{q.ID: {Action: ask.Accept}}, ""); err != nil {
				t.Fatal(err)
			}
			if o := <-out; o.err != nil || !strings.Contains(string(o.res.Raw), `\"accept\"`) || strings.Contains(string(o.res.Raw), "content\\\"") {
				t.Errorf("%+v, %v", o.res, o.err)
			}
		})
	}
}

func TestAServerWithoutLeaveMayNotAsk(t *testing.T) {
	for _, era := range hosttest.Eras {
		t.Run(era, func(t *testing.T) {
			a := newAsking(t, era, asks(form("dice", "integer")), host.Options{}, session.Config{})
			res, err := a.Call(hosttest.Deadline(t), host.Call{Name: "asker.ask"})
			if era == "2026-07-28" && hosttest.CodeOf(err) != fault.InputRequired || err == nil && !res.IsError {
				t.Errorf("%+v, %v", res, err)
			}
			if n := len(a.heard.Of(signal.InputRequired)); n != 0 {
				t.Errorf("%d questions were laid open", n)
			}
		})
	}
}

func TestAClientFurtherAwayIsNotShownWhatIsRefusedHere(t *testing.T) {
	url := func(u string) mcp.InputRequestMap {
		return mcp.InputRequestMap{"q": &mcp.ElicitParams{Mode: "url", Message: "Sign in", ElicitationID: "e1", URL: u}}
	}
	all := handshake.Features{Roots: true, Sampling: true, Elicitation: true}
	for name, c := range map[string]struct {
		asked mcp.InputRequestMap
		leave handshake.Features
		want  string // of the refusal; "" where it is handed on
	}{
		"a plain form":        {form("name", "string"), all, ""},
		"a page":              {url("https://example.com/login"), all, ""},
		"roots":               {mcp.InputRequestMap{"q": &mcp.ListRootsParams{}}, all, ""},
		"a secret":            {form("password", "string"), all, "asks for a secret"},
		"a script":            {url("javascript:alert(1)"), all, "URL of a question is refused"},
		"a hidden host":       {url("https://example.com@evil.test/"), all, "URL of a question is refused"},
		"a form, no leave":    {form("name", "string"), handshake.Features{Sampling: true}, "not allowed for its server"},
		"sampling, no leave":  {mcp.InputRequestMap{"q": &mcp.CreateMessageParams{MaxTokens: 5}}, handshake.Features{Elicitation: true}, "not allowed for its server"},
		"the roots, no leave": {mcp.InputRequestMap{"q": &mcp.ListRootsParams{}}, handshake.Features{Elicitation: true}, "not allowed for its server"},
	} {
		t.Run(name, func(t *testing.T) {
			s := asks(c.asked)
			s.AddResource(&mcp.Resource{URI: "a:///r", Name: "r"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{InputRequests: c.asked, RequestState: "s"}, nil
			})
			s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{InputRequests: c.asked, RequestState: "s"}, nil
			})
			a := newAsking(t, hosttest.Eras[1], s, host.Options{}, session.Config{Relay: c.leave})
			far := &ask.Far{Capabilities: json.RawMessage(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`)}
			raws := map[string]json.RawMessage{}
			errs := map[string]error{}
			if res, err := a.Call(hosttest.Deadline(t), host.Call{Name: "asker.ask", Far: far}); err != nil {
				errs["call"] = err
			} else {
				raws["call"] = res.Raw
			}
			if res, err := a.offers.ReadResource(hosttest.Deadline(t), offers.Read{Server: "asker", URI: "a:///r", Far: far}); err != nil {
				errs["read"] = err
			} else {
				raws["read"] = res.Raw
			}
			if res, err := a.offers.GetPrompt(hosttest.Deadline(t), offers.Expand{Server: "asker", Prompt: "p", Far: far}); err != nil {
				errs["get"] = err
			} else {
				raws["get"] = res.Raw
			}
			for _, way := range []string{"call", "read", "get"} {
				switch err := errs[way]; {
				case c.want == "" && !strings.Contains(string(raws[way]), `"input_required"`):
					t.Errorf("%s: %s, %v", way, raws[way], err)
				case c.want != "" && (hosttest.CodeOf(err) != fault.InputRequired || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%s: %s, %v", way, raws[way], err)
				}
			}
			refused := strings.Contains(c.want, "secret") || strings.Contains(c.want, "URL")
			if n := len(a.heard.Of(signal.Problem)); refused && n != 3 || !refused && n != 0 {
				t.Errorf("%d refusals are recorded", n)
			}
		})
	}
}

func TestACallerThatAnswersItselfIsAskedAlone(t *testing.T) {
	a := newAsking(t, hosttest.Eras[1], asks(form("name", "string")), host.Options{}, elicit)
	answer := func(name string) ask.Func {
		return func(_ context.Context, in signal.Input) (ask.Replies, error) {
			return ask.Replies{"q": {Action: ask.Accept, Content: json.RawMessage(`{"name":"` + name + `"}`)}}, nil
		}
	}
	outs := map[string]<-chan outcome{}
	for _, name := range []string{"ada", "bob", "eve"} {
		outs[name] = a.begin(hosttest.Deadline(t), host.Call{Input: answer(name)})
	}
	for name, out := range outs {
		if o := <-out; o.err != nil || !strings.Contains(string(o.res.Raw), name) {
			t.Errorf("%s got %+v, %v", name, o.res, o.err)
		}
	}
	if len(a.Inputs()) != 0 {
		t.Error("somebody else could have answered")
	}
	res, err := a.Call(hosttest.Deadline(t), host.Call{Name: "asker.ask", Input: func(context.Context, signal.Input) (ask.Replies, error) {
		return ask.Replies{"q": {Action: ask.Accept, Content: json.RawMessage(`{"nom":"x"}`)}}, nil
	}})
	if hosttest.CodeOf(err) != fault.InvalidArguments {
		t.Errorf("an answer that does not fit was sent: %+v, %v", res, err)
	}
}

func TestAServerThatNeverStopsAskingIsStopped(t *testing.T) {
	n := 0
	s := server("ask", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		n++
		return &mcp.CallToolResult{InputRequests: form("again", "boolean"), RequestState: fmt.Sprint(n)}, nil
	})
	a := newAsking(t, hosttest.Eras[1], s, host.Options{}, elicit)
	_, err := a.Call(hosttest.Deadline(t), host.Call{Name: "asker.ask", Input: func(_ context.Context, in signal.Input) (ask.Replies, error) {
		return ask.Replies{"q": {Action: ask.Accept, Content: json.RawMessage(`{"again":true}`)}}, nil
	}})
	if hosttest.CodeOf(err) != fault.InputRequired || n != 11 {
		t.Errorf("after %d calls: %v", n, err)
	}
}

func TestSamplingGoesToTheCallerThatOffersItAndRootsAreListed(t *testing.T) {
	for _, era := range hosttest.Eras {
		t.Run(era, func(t *testing.T) {
			questions := mcp.InputRequestMap{"s": &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}}, "r": &mcp.ListRootsParams{}}
			a := newAsking(t, era, asks(questions), host.Options{}, session.Config{Sampling: true, Roots: []*mcp.Root{{URI: "file:///srv/notes"}}})
			res, err := a.Call(hosttest.Deadline(t), host.Call{Name: "asker.ask", Input: func(_ context.Context, in signal.Input) (ask.Replies, error) {
				q := in.Questions[0]
				if q.Kind != ask.SamplingQuestion || !strings.Contains(string(q.Raw), `"maxTokens":5`) {
					t.Errorf("asked %+v", q)
				}
				return ask.Replies{q.ID: {Action: ask.Accept, Content: json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"sampled"}}`)}}, nil
			}})
			if err != nil || !strings.Contains(string(res.Raw), "sampled") || !strings.Contains(string(res.Raw), "file:///srv/notes") {
				t.Errorf("%+v, %v", res, err)
			}
			if res, err = a.Call(hosttest.Deadline(t), host.Call{Name: "asker.ask"}); era == hosttest.Eras[1] && hosttest.CodeOf(err) != fault.InputRequired || err == nil && !res.IsError {
				t.Errorf("sampling without anybody to do it: %+v, %v", res, err)
			}
		})
	}
}

func TestPagesThatAreToBeVisitedFirstAreAskedForAndTheCallIsMadeAgain(t *testing.T) {
	visited := false
	s := server("ask", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if !visited {
			return nil, &jsonrpc.Error{Code: -32042, Message: "sign in first", Data: json.RawMessage(`{"elicitations":[{"mode":"url","elicitationId":"e","message":"Sign in","url":"https://example.com/login"}]}`)}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "welcome"}}}, nil
	})
	a := newAsking(t, hosttest.Eras[0], s, host.Options{}, elicit)
	visit := func(action string) (*host.Result, error) {
		return a.Call(hosttest.Deadline(t), host.Call{Name: "asker.ask", Input: func(_ context.Context, in signal.Input) (ask.Replies, error) {
			visited = action == ask.Accept
			if q := in.Questions[0]; q.Host != "example.com" || q.Warning != "" {
				t.Errorf("asked %+v", q)
			}
			return ask.Replies{in.Questions[0].ID: {Action: action}}, nil
		}})
	}
	if _, err := visit(ask.Decline); hosttest.CodeOf(err) != fault.InputRequired {
		t.Errorf("declined: %v", err)
	}
	if res, err := visit(ask.Accept); err != nil || !strings.Contains(string(res.Raw), "welcome") {
		t.Errorf("visited: %+v, %v", res, err)
	}
}

func TestTheIdempotencyKeyAndTheTraceReachTheServer(t *testing.T) {
	var seen mcp.CallToolParamsRaw
	s := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer"},"idempotencyKey":{"type":"string"}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			seen = *r.Params
			return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
		})
	for _, era := range hosttest.Eras {
		a := newAsking(t, era, s, host.Options{}, session.Config{})
		for args, want := range map[string]string{
			`{"sum":7}`: `{"idempotencyKey":"k-1","sum":7}`, ``: `{"idempotencyKey":"k-1"}`, ` { } `: `{"idempotencyKey":"k-1" }`,
			`{"idempotencyKey":"mine"}`: `{"idempotencyKey":"mine"}`,
		} {
			if _, err := a.Call(hosttest.Deadline(t), host.Call{Name: "asker.pay", Arguments: json.RawMessage(args), IdempotencyKey: "k-1", Trace: signal.Trace{Parent: hosttest.TraceParent, Baggage: "b=1"}}); err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(string(seen.Arguments)) != strings.TrimSpace(want) || seen.Meta["aurora/idempotency-key"] != "k-1" || seen.Meta["traceparent"] != hosttest.TraceParent || seen.Meta["baggage"] != "b=1" {
				t.Errorf("%s: the server saw %s %v", era, seen.Arguments, seen.Meta)
			}
		}
		if _, err := a.Call(hosttest.Deadline(t), host.Call{Name: "asker.pay", Trace: signal.Trace{Parent: "not one", State: "x=y"}}); err != nil || seen.Meta["traceparent"] != nil || seen.Meta["tracestate"] != nil || string(seen.Arguments) != "{}" {
			t.Errorf("%s: without a key: %s %v, %v", era, seen.Arguments, seen.Meta, err)
		}
	}
}
