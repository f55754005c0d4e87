package externalizer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	openai "github.com/sashabaranov/go-openai"
	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/modeltest"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestMain(m *testing.M) {
	fakeserver.RunIfAsked()
	goleak.VerifyTestMain(m)
}

const patience = 2 * time.Minute

// tapped is a pipe to a server that tells of what is written.
type tapped struct {
	*os.File
	tap func([]byte)
}

func (p tapped) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	p.tap(b[:n])
	return n, err
}

// serve starts fake servers, by name and mode, behind a gate. taps are told of
// what was sent to any.
func serve(t testing.TB, servers map[string]string, taps ...func([]byte)) (externalizer.Caller, *client.Manager) {
	t.Helper()
	m, err := client.New(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for name, mode := range servers {
		mode, option, _ := strings.Cut(mode, " ")
		in, out := fakeserver.Start(t, mode, option)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stdin := tapped{in, func(b []byte) {
			for _, tap := range taps {
				tap(b)
			}
		}}
		if _, err := m.Connect(ctx, session.Conn{Server: name, Stdin: stdin, Stdout: out}); err != nil {
			t.Fatal(err)
		}
	}
	return externalizer.Gate(host.New(host.Options{Client: m, Sink: signal.Discard})), m
}

// observed is what a run told while it went on.
type observed struct {
	mu     sync.Mutex
	text   string
	events []externalizer.Event
}

func (o *observed) kinds() (l []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		s := fmt.Sprintf("%d %s", e.Step.Number, e.Kind)
		if e.Call.Name != "" {
			s += " " + e.Call.Name
		}
		l = append(l, s)
	}
	return l
}

// loop makes one that asks model; more changes its options.
func loop(t testing.TB, caller externalizer.Caller, model *modeltest.Server, more ...func(*externalizer.Options)) (*externalizer.Loop, *observed) {
	t.Helper()
	seen := &observed{}
	o := externalizer.Options{
		Caller: caller, BaseURL: model.URL, Key: modeltest.Key, Model: "test-model",
		OnText: func(s string) { seen.mu.Lock(); defer seen.mu.Unlock(); seen.text += s },
		OnEvent: func(e externalizer.Event) {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			seen.events = append(seen.events, e)
		},
	}
	for _, f := range more {
		f(&o)
	}
	l, err := externalizer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l, seen
}

func streaming(o *externalizer.Options) { o.Stream = true }

// both runs a test with streaming and without.
func both(t *testing.T, f func(t *testing.T, mode func(*externalizer.Options))) {
	t.Run("whole", func(t *testing.T) { f(t, func(*externalizer.Options) {}) })
	t.Run("streamed", func(t *testing.T) { f(t, streaming) })
}

func call(id, name, arguments string) modeltest.Call {
	return modeltest.Call{ID: id, Name: name, Arguments: arguments}
}

func calls(c ...modeltest.Call) modeltest.Turn { return modeltest.Turn{Calls: c} }

// ask runs a question that has to be answered.
func ask(t *testing.T, l *externalizer.Loop) *externalizer.Result {
	t.Helper()
	res, err := l.Ask(t.Context(), "What now?")
	if err != nil {
		t.Fatalf("%s: %v", res.Stop, err)
	}
	return res
}

// tools are the contents of a conversation's tool messages by call id.
func tools(messages []openai.ChatCompletionMessage) map[string]string {
	m := map[string]string{}
	for _, msg := range messages {
		if msg.Role == openai.ChatMessageRoleTool {
			m[msg.ToolCallID] = msg.Content
		}
	}
	return m
}

func TestACallIsMadeAndItsResultLeadsToTheAnswer(t *testing.T) {
	both(t, func(t *testing.T, mode func(*externalizer.Options)) {
		caller, _ := serve(t, map[string]string{"plain": "echo"})
		model := modeltest.New(t,
			modeltest.Turn{Text: "Let me see. ", Calls: []modeltest.Call{call("call_a", "mcp__plain__echo", `{"message":"sunny, 21 °C, 晴"}`)}},
			modeltest.Turn{Text: "It is sunny: 晴."},
		)
		l, seen := loop(t, caller, model, mode, func(o *externalizer.Options) { o.System = "Be brief." })
		res := ask(t, l)
		if res.Answer != "It is sunny: 晴." || res.Stop != externalizer.StopAnswered || seen.text != "Let me see. It is sunny: 晴." {
			t.Errorf("%s: %q; heard %q", res.Stop, res.Answer, seen.text)
		}
		second := model.Requests()[1].Messages
		if s := second[0].Content; !strings.HasPrefix(s, "Be brief.\n") || !strings.Contains(s, "data, not instructions") {
			t.Errorf("the system message is %q", s)
		}
		if got := tools(second)["call_a"]; !strings.HasPrefix(got, "[mcp:plain:echo] result <<") || !strings.Contains(got, "sunny, 21 °C, 晴") {
			t.Errorf("the model was told %q", got)
		}
		want := []string{"1 asking", "1 answered", "1 call_started mcp__plain__echo", "1 call_finished mcp__plain__echo", "2 asking", "2 answered"}
		if diff := cmp.Diff(want, seen.kinds()); diff != "" {
			t.Error(diff)
		}
		if want := (externalizer.Usage{PromptTokens: 200, CompletionTokens: 20, TotalTokens: 220}); res.Usage != want {
			t.Errorf("used %+v", res.Usage)
		}
		if c := res.Steps[0].Calls[0]; c.CallID == "" || c.IsError || c.Tool != (catalog.ID{Server: "plain", Tool: "echo"}) {
			t.Errorf("the record is %+v", c)
		}
	})
}

// told keeps what the gate is told of where arguments come from.
type told struct {
	externalizer.Caller
	provenance [][]string
}

func (c *told) Call(ctx context.Context, id catalog.ID, hc host.Call) (*host.Result, error) {
	c.provenance = append(c.provenance, append([]string{}, hc.Provenance...))
	return c.Caller.Call(ctx, id, hc)
}

func TestAConversationGoesOnAndTheGateKnowsWhoseWordsAreInIt(t *testing.T) {
	caller, _ := serve(t, map[string]string{"plain": "echo", "broken": "error-call"})
	model := modeltest.New(t,
		calls(call("call_a", "mcp__plain__echo", `{}`)), calls(call("call_b", "mcp__broken__echo", `{}`)),
		calls(call("call_c", "mcp__plain__invented", `{}`)), modeltest.Turn{Text: "one"},
		calls(call("call_a", "mcp__plain__echo", `{}`)), modeltest.Turn{Text: "two"}, // the id comes again
	)
	gate := &told{Caller: caller}
	l, _ := loop(t, gate, model)
	one := ask(t, l)
	two, err := l.Continue(t.Context(), one, "And then?")
	if err != nil || two.Answer != "two" || len(two.Messages) != 12 {
		t.Errorf("%v: %q after %d messages", err, two.Answer, len(two.Messages))
	}
	a, b, c := one.Steps[0].Calls[0].CallID, one.Steps[1].Calls[0].CallID, two.Steps[0].Calls[0].CallID
	if diff := cmp.Diff([][]string{{}, {a}, {a, b}}, gate.provenance); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{a, b, c}, two.Sources); diff != "" {
		t.Error(diff)
	}
}

// gated is serve with the default policy, which asks about servers it does not know.
func gated(t *testing.T) (externalizer.Caller, *policy.Gate) {
	_, m := serve(t, map[string]string{"plain": "echo"})
	store, err := policy.OpenStore(t.Context(), filepath.Join(t.TempDir(), "policy.db"), policy.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g := policy.NewGate(store, nil, nil)
	return externalizer.Gate(host.New(host.Options{Client: m, Sink: signal.Discard, Gate: g})), g
}

func TestACallThatAPersonMustApproveIsToldToTheModelOrWaits(t *testing.T) {
	turns := []modeltest.Turn{calls(call("c1", "mcp__plain__echo", `{"message":"go"}`)), {Text: "Done."}}

	caller, _ := gated(t)
	l, _ := loop(t, caller, modeltest.New(t, turns...))
	if said := tools(ask(t, l).Messages)["c1"]; !strings.Contains(said, fault.ApprovalRequired) {
		t.Errorf("the model was told %q", said)
	}

	for _, c := range []struct {
		says   string
		answer func(*policy.Gate, string) error
	}{
		{"result <<", func(g *policy.Gate, id string) error {
			_, err := g.Approvals.Approve(t.Context(), id, approval.Once, "Ada")
			return err
		}},
		{fault.Denied, func(g *policy.Gate, id string) error {
			_, err := g.Approvals.Deny(t.Context(), id, "Ada", "not today")
			return err
		}},
	} {
		caller, g := gated(t)
		l, seen := loop(t, caller, modeltest.New(t, turns...), func(o *externalizer.Options) {
			o.Wait = true
			observe := o.OnEvent
			o.OnEvent = func(e externalizer.Event) {
				observe(e)
				if e.Kind != externalizer.CallWaiting {
					return
				}
				var data struct {
					ID string `json:"approval_id"`
				}
				if err := json.Unmarshal(e.Call.Error.Data, &data); err != nil {
					t.Error(err)
				}
				if err := c.answer(g, data.ID); err != nil {
					t.Error(err)
				}
			}
		})
		if said := tools(ask(t, l).Messages)["c1"]; !strings.Contains(said, c.says) {
			t.Errorf("the model was told %q, not %s", said, c.says)
		}
		if kinds := strings.Join(seen.kinds(), ", "); strings.Count(kinds, "call_waiting") != 1 {
			t.Errorf("seen were %s", kinds)
		}
	}
}

func TestParallelCallsAreAnsweredCompleteAndInOrderWhateverFails(t *testing.T) {
	both(t, func(t *testing.T, mode func(*externalizer.Options)) {
		caller, m := serve(t, map[string]string{"plain": "echo", "broken": "error-call", "crash": "crash-third call=1"})
		model := modeltest.New(t,
			calls(
				call("c1", "mcp__plain__echo", `{"message":"fine"}`),
				call("c2", "mcp__broken__echo", `{"message":"x"}`),
				call("c3", "mcp__plain__echo", `{"message":"cut o`),
				call("c4", "mcp__plain__invented thing!", `{}`),
				call("c5", "mcp__crash__echo", `{"message":"x"}`),
				call("c6", "mcp__plain__echo", `{"message":7}`),
				call("c7", "functions.mcp__plain__echo", "```json\n{\"message\":\"repaired\",}\n```"),
				call("c8", "mcp__plain__echo", `[]`),
				call("c9", "", ``),
			),
			calls(call("d1", "mcp__plain__kept", ``)),
			modeltest.Turn{Text: "Done."},
		)
		l, _ := loop(t, caller, model, mode)
		res := ask(t, l)
		second := model.Requests()[1].Messages
		var order []string
		for _, msg := range second[3:] {
			order = append(order, msg.Role+" "+msg.ToolCallID)
		}
		want := []string{"tool c1", "tool c2", "tool c3", "tool c4", "tool c5", "tool c6", "tool c7", "tool c8", "tool c9"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Error(diff)
		}
		told := tools(second)
		for id, parts := range map[string][]string{
			"c1": {"[mcp:plain:echo] result <<", "fine"},
			"c2": {"[mcp:broken:echo] error <<", fault.Protocol},
			"c3": {"error <<", fault.InvalidArguments, `{\"message\":\"cut o`},
			"c4": {"error <<", fault.ToolNotFound, "mcp__plain__echo"},
			"c5": {"[mcp:crash:echo] error <<", fault.ServerCrashed, "unknown"},
			"c6": {"error <<", fault.InvalidArguments, "/message"},
			"c7": {"[mcp:plain:echo] result <<", "repaired"},
			"c8": {"error <<", fault.InvalidArguments},
			"c9": {"error <<", fault.ToolNotFound},
		} {
			for _, part := range parts {
				if !strings.Contains(told[id], part) {
					t.Errorf("%s does not say %s:\n%s", id, part, told[id])
				}
			}
		}
		echoed := second[2].ToolCalls
		if echoed[3].Function.Name != "mcp__plain__invented_thing_" || echoed[2].Function.Arguments != "{}" || echoed[6].Function.Name != "mcp__plain__echo" {
			t.Errorf("the calls are shown as %+v", echoed)
		}
		for i, c := range res.Steps[0].Calls {
			if wantErr := i != 0 && i != 6; c.IsError != wantErr || (c.CallID == "") != (i == 2 || i == 3 || i == 5 || i > 6) {
				t.Errorf("call %s is recorded as %+v", c.ID, c)
			}
		}
		if m.Session("crash") != nil {
			t.Error("the crashed server has a session still")
		}
	})
}

// gatherer holds calls back until n are there.
type gatherer struct {
	externalizer.Caller
	n    int
	mu   sync.Mutex
	come int
	full chan struct{}
}

func (g *gatherer) Call(ctx context.Context, id catalog.ID, c host.Call) (*host.Result, error) {
	g.mu.Lock()
	if g.come++; g.come == g.n {
		close(g.full)
	}
	g.mu.Unlock()
	select {
	case <-g.full:
	case <-time.After(patience):
		return nil, errors.New("the others did not come")
	}
	return g.Caller.Call(ctx, id, c)
}

func TestCallsOfOneTurnRunBesideEachOther(t *testing.T) {
	caller, _ := serve(t, map[string]string{"plain": "echo"})
	model := modeltest.New(t,
		calls(call("c1", "mcp__plain__echo", `{}`), call("c2", "mcp__plain__echo", `{}`), call("c3", "mcp__plain__echo", `{}`)),
		modeltest.Turn{Text: "Done."})
	l, _ := loop(t, &gatherer{Caller: caller, n: 3, full: make(chan struct{})}, model)
	for _, c := range ask(t, l).Steps[0].Calls {
		if c.IsError {
			t.Errorf("%+v", c)
		}
	}
}

// counter keeps the greatest number of calls that were there at once.
type counter struct {
	externalizer.Caller
	mu        sync.Mutex
	now, most int
}

func (g *counter) Call(ctx context.Context, id catalog.ID, c host.Call) (*host.Result, error) {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	defer func() { g.mu.Lock(); g.now--; g.mu.Unlock() }()
	return g.Caller.Call(ctx, id, c)
}

func TestNoMoreCallsThanAllowedRunAtOnce(t *testing.T) {
	caller, _ := serve(t, map[string]string{"plain": "slow"})
	var many []modeltest.Call
	for i := range 9 {
		many = append(many, call(fmt.Sprint("c", i), "mcp__plain__echo", `{"millis":5}`))
	}
	model := modeltest.New(t, calls(many...), modeltest.Turn{Text: "Done."})
	g := &counter{Caller: caller}
	l, _ := loop(t, g, model, func(o *externalizer.Options) { o.MaxParallel = 2 })
	if ask(t, l); g.most > 2 || g.now != 0 {
		t.Errorf("%d calls at once, %d left", g.most, g.now)
	}
}

func TestMissingAndRepeatedIDsArePutRight(t *testing.T) {
	both(t, func(t *testing.T, mode func(*externalizer.Options)) {
		caller, _ := serve(t, map[string]string{"plain": "echo"})
		three := calls(call("", "mcp__plain__echo", `{"message":"a"}`), call("x", "mcp__plain__echo", `{"message":"b"}`), call("x", "mcp__plain__echo", `{"message":"c"}`))
		model := modeltest.New(t, three, three, modeltest.Turn{Text: "Done."}).With(modeltest.Rules{ID: modeltest.MistralIDs})
		l, _ := loop(t, caller, model, mode, func(o *externalizer.Options) { o.Profile = "mistral" })
		ask(t, l)
		last := model.Requests()[2].Messages
		var said []string
		for _, m := range last {
			if m.Role == "tool" {
				said = append(said, strings.Split(m.Content, "\n")[1])
			}
		}
		if diff := cmp.Diff([]string{"a", "b", "c", "a", "b", "c"}, said); diff != "" {
			t.Error(diff)
		}
		if model.Requests()[0].StreamOptions != nil {
			t.Error("mistral got stream_options")
		}
	})
}

func TestACallThatComesTwiceRunsOnce(t *testing.T) {
	both(t, func(t *testing.T, mode func(*externalizer.Options)) {
		caller, _ := serve(t, map[string]string{"plain": "echo"})
		one, another := call("x", "mcp__plain__echo", `{"message":"a"}`), call("x", "mcp__plain__echo", `{"message":"b"}`)
		model := modeltest.New(t,
			calls(call("x", "mcp__plain__echo", ``), one, another, one, call("y", "mcp__plain__echo", `{"message":"a"}`)),
			modeltest.Turn{Text: "Done."})
		l, _ := loop(t, caller, model, mode)
		var ran []string
		for _, c := range ask(t, l).Steps[0].Calls {
			ran = append(ran, string(c.Arguments))
		}
		if diff := cmp.Diff([]string{`{"message":"a"}`, `{"message":"b"}`, `{"message":"a"}`}, ran); diff != "" {
			t.Error(diff)
		}
	})
}

func TestArgumentsThatCameInPiecesOfAnyKindArePutTogether(t *testing.T) {
	chunk := func(delta, finish string) string {
		return `{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
	}
	caller, _ := serve(t, map[string]string{"plain": "echo"})
	model := modeltest.New(t,
		modeltest.Turn{Events: []string{
			chunk(`{"role":"assistant","content":null}`, `null`),
			chunk(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"mcp__plain__echo"}}]}`, `null`),
			chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"mcp__plain__echo","arguments":""}}]}`, `null`),
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"mess"}},{"index":1,"function":{"arguments":"{\"message\":"}}]}`, `null`),
			chunk(`{"tool_calls":[{"index":1,"function":{"arguments":"\"two\"}"}}]}`, `null`),
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"age\":\"one\"}"}}]}`, `null`),
			chunk(`{}`, `"tool_calls"`),
			`[DONE]`,
		}},
		modeltest.Turn{Text: "Done."},
	)
	l, _ := loop(t, caller, model, streaming)
	res := ask(t, l)
	told := tools(res.Messages)
	if !strings.Contains(told["a"], "\none\n") || !strings.Contains(told["b"], "\ntwo\n") {
		t.Errorf("told %q", told)
	}
	if !res.Steps[0].Usage.Estimated || res.Steps[0].Usage.TotalTokens < 50 {
		t.Errorf("without a word of the endpoint %+v were counted", res.Steps[0].Usage)
	}
}

func TestACatalogueThatChangesIsOfferedAnew(t *testing.T) {
	caller, m := serve(t, map[string]string{"pull": "rug-pull", "other": "echo"})
	changed, stop := m.Subscribe()
	defer stop()
	model := modeltest.New(t, calls(call("c1", "mcp__pull__echo", `{"message":"x"}`)), modeltest.Turn{Text: "Done."})
	var once sync.Once
	l, seen := loop(t, caller, model, func(o *externalizer.Options) {
		o.Servers = []string{"pull"}
		observe := o.OnEvent
		o.OnEvent = func(e externalizer.Event) {
			observe(e)
			if e.Kind == externalizer.CallFinished {
				once.Do(func() {
					select {
					case <-changed:
					case <-time.After(patience):
						t.Error("the catalogue did not change")
					}
				})
			}
		}
	})
	ask(t, l)
	var offered []string
	for _, r := range model.Requests() {
		var names []string
		for _, tool := range r.Tools {
			names = append(names, tool.Function.Name)
		}
		offered = append(offered, strings.Join(names, " "))
	}
	if strings.Contains(offered[0], "shell") || !strings.Contains(offered[1], "mcp__pull__shell") || strings.Contains(offered[1], "other") {
		t.Errorf("offered were %q", offered)
	}
	if seen.events[0].Step.Fingerprint == seen.events[len(seen.events)-1].Step.Fingerprint {
		t.Error("the fingerprint is the same")
	}
}

func TestALoopWithoutEndMeetsItsBounds(t *testing.T) {
	for name, c := range map[string]struct {
		bound func(*externalizer.Options)
		steps int
		stop  externalizer.Stop
	}{
		"steps":  {func(o *externalizer.Options) { o.MaxSteps = 3 }, 3, externalizer.StopSteps},
		"tokens": {func(o *externalizer.Options) { o.MaxTokens = 150; o.MaxAnswerTokens = 90 }, 2, externalizer.StopTokens},
	} {
		t.Run(name, func(t *testing.T) {
			caller, _ := serve(t, map[string]string{"plain": "echo"})
			var turns []modeltest.Turn
			for range c.steps {
				turns = append(turns, calls(call("again", "mcp__plain__echo", `{"message":"again"}`)))
			}
			model := modeltest.New(t, turns...)
			l, seen := loop(t, caller, model, c.bound)
			res, err := l.Ask(t.Context(), "Go on.")
			if err == nil || res.Stop != c.stop || len(res.Steps) != c.steps {
				t.Fatalf("%s after %d steps: %v", res.Stop, len(res.Steps), err)
			}
			last := res.Steps[c.steps-1].Calls[0]
			if last.CallID != "" || last.Error == nil {
				t.Errorf("a call whose result nobody sees was run: %+v", last)
			}
			if kinds := seen.kinds(); strings.HasPrefix(kinds[len(kinds)-2], fmt.Sprintf("%d call_started", c.steps)) {
				t.Errorf("seen were %q", kinds)
			}
			checkConversation(t, res)
			if name == "tokens" {
				if r := model.Requests(); r[0].MaxCompletionTokens != 90 || r[1].MaxCompletionTokens != 40 {
					t.Errorf("asked for at most %d and %d", r[0].MaxCompletionTokens, r[1].MaxCompletionTokens)
				}
			}
		})
	}
}

// checkConversation checks that what a result leaves behind is one that an API takes.
func checkConversation(t *testing.T, res *externalizer.Result) {
	t.Helper()
	more := append(res.Messages[:len(res.Messages):len(res.Messages)], openai.ChatCompletionMessage{Role: "user", Content: "go on"})
	raw, err := json.Marshal(openai.ChatCompletionRequest{Model: "m", Messages: more})
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range (modeltest.Rules{}).Check(raw) {
		t.Error("the conversation left behind: " + broken)
	}
}

func TestCancellingARunCancelsItsCalls(t *testing.T) {
	sent := make(chan struct{})
	var once sync.Once
	caller, m := serve(t, map[string]string{"hang": "hang-call", "plain": "echo"}, func(b []byte) {
		if strings.Contains(string(b), "for ever") {
			once.Do(func() { close(sent) })
		}
	})
	model := modeltest.New(t, calls(
		call("c1", "mcp__hang__echo", `{"message":"for ever"}`), call("c2", "mcp__plain__echo", `{}`), call("c3", "mcp__hang__echo", `{}`)))
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan struct{})
	l, _ := loop(t, caller, model, streaming, func(o *externalizer.Options) {
		o.MaxParallel = 2
		o.OnEvent = func(e externalizer.Event) {
			if e.Kind == externalizer.CallFinished && e.Call.ID == "c2" {
				close(second)
			}
		}
	})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer cancel()
		for _, happened := range []chan struct{}{second, sent} {
			select {
			case <-happened:
			case <-time.After(patience):
				t.Error("the calls did not get as far as they should")
			}
		}
	})
	res, err := l.Ask(ctx, "Wait.")
	waiting.Wait()
	if res.Stop != externalizer.StopCancelled || !errors.Is(err, context.Canceled) {
		t.Fatalf("%s: %v", res.Stop, err)
	}
	checkConversation(t, res)
	if told := tools(res.Messages); !strings.Contains(told["c1"], fault.Cancelled) || !strings.Contains(told["c2"], "result <<") {
		t.Errorf("told %q", told)
	}
	if c := res.Steps[0].Calls[0]; c.Error == nil || c.Error.Outcome != fault.OutcomeUnknown {
		t.Errorf("the outcome of a call that was sent is recorded as %+v", c.Error)
	}
	deadline := time.Now().Add(patience)
	for {
		r, err := m.Call(t.Context(), features.CallRequest{Server: "hang", Tool: "kept"})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(r.Raw), "notifications/cancelled") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server was told %s", r.Raw)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestCallsAndRunsHaveDeadlines(t *testing.T) {
	caller, _ := serve(t, map[string]string{"hang": "hang-call"})
	model := modeltest.New(t, calls(call("c1", "mcp__hang__echo", `{}`)), modeltest.Turn{Text: "It hangs."})
	l, _ := loop(t, caller, model, func(o *externalizer.Options) { o.CallTimeout = time.Second })
	res := ask(t, l)
	if c := res.Steps[0].Calls[0]; c.Error == nil || c.Error.Code != fault.Timeout || c.Error.Outcome != fault.OutcomeUnknown {
		t.Errorf("the call: %+v", c.Error)
	}

	model = modeltest.New(t, modeltest.Turn{Hang: true})
	l, _ = loop(t, caller, model, func(o *externalizer.Options) { o.Timeout = 50 * time.Millisecond })
	res, err := l.Ask(t.Context(), "Hang.")
	if res.Stop != externalizer.StopTimeout || err == nil {
		t.Errorf("the run: %s, %v", res.Stop, err)
	}

	model = modeltest.New(t, modeltest.Turn{Hang: true})
	l, _ = loop(t, caller, model, streaming, func(o *externalizer.Options) { o.ModelTimeout = 50 * time.Millisecond })
	res, err = l.Ask(t.Context(), "Hang.")
	if res.Stop != externalizer.StopModel || err == nil || !strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("the completion: %s, %v", res.Stop, err)
	}
}

func TestPassingFailuresOfTheModelAreTriedAgain(t *testing.T) {
	both(t, func(t *testing.T, mode func(*externalizer.Options)) {
		caller, _ := serve(t, map[string]string{"plain": "echo"})
		soon := map[string]string{"Retry-After": "0"}
		model := modeltest.New(t,
			modeltest.Turn{Status: 429, Header: soon, Body: `{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}`},
			modeltest.Turn{Status: 503, Header: map[string]string{"Retry-After-Ms": "3"}, Body: `<html>busy</html>`},
			modeltest.Turn{Status: 500, Header: soon, Body: `{"error":{"message":"oops","type":"server_error"}}`},
			modeltest.Turn{Text: "Here."},
		)
		l, seen := loop(t, caller, model, mode)
		res := ask(t, l)
		if want := []string{"1 asking", "1 retrying", "1 retrying", "1 retrying", "1 answered"}; !cmp.Equal(want, seen.kinds()) {
			t.Errorf("seen were %q", seen.kinds())
		}
		if e := seen.events[1]; !strings.Contains(e.Err.Error(), "429") || !strings.Contains(e.Err.Error(), "slow down") || e.Delay != 0 {
			t.Errorf("the first failure is told as %v", e)
		}
		if seen.events[2].Delay != 3*time.Millisecond || res.Steps[0].Retries != 3 {
			t.Errorf("waited %v; %d retries", seen.events[2].Delay, res.Steps[0].Retries)
		}
	})
}

func TestFailuresThatWillNotPassEndTheRun(t *testing.T) {
	soon := map[string]string{"Retry-After": "0"}
	caller, _ := serve(t, map[string]string{"plain": "echo"}) // no run gets as far as a call
	for name, c := range map[string]struct {
		turn modeltest.Turn
		stop externalizer.Stop
		says string
	}{
		"key":        {modeltest.Turn{Status: 401, Body: `{"error":{"message":"Incorrect API key: ` + modeltest.Key + `","type":"invalid_request_error"}}`}, externalizer.StopModel, "401 Unauthorized: Incorrect API key: [key]"},
		"model":      {modeltest.Turn{Status: 404, Body: `no such page ` + modeltest.Key}, externalizer.StopModel, "404 Not Found: no such page [key]"},
		"quota":      {modeltest.Turn{Status: 429, Header: soon, Body: `{"error":{"message":"no money","type":"insufficient_quota","code":"insufficient_quota"}}`}, externalizer.StopModel, "no money"},
		"wait":       {modeltest.Turn{Status: 429, Header: map[string]string{"Retry-After": "7200"}, Body: `{}`}, externalizer.StopModel, "asks to wait 2h0m0s"},
		"context":    {modeltest.Turn{Status: 400, Body: `{"error":{"message":"maximum context length is 8192 tokens","code":"context_length_exceeded"}}`}, externalizer.StopContext, "too long for the model test-model"},
		"filter":     {modeltest.Turn{Status: 400, Body: `{"error":{"message":"blocked","code":"content_filter"}}`}, externalizer.StopFiltered, "blocked"},
		"length":     {modeltest.Turn{Text: "It goes on and", Finish: "length"}, externalizer.StopLength, "cut off"},
		"filtered":   {modeltest.Turn{Text: "It", Finish: "content_filter"}, externalizer.StopFiltered, "content filter"},
		"calls":      {modeltest.Turn{Calls: []modeltest.Call{call("c", "mcp__plain__echo", `{}`)}, Finish: "content_filter"}, externalizer.StopFiltered, "content filter"},
		"empty":      {modeltest.Turn{}, externalizer.StopEmpty, "nothing"},
		"redirect":   {modeltest.Turn{Status: 307, Header: map[string]string{"Location": "http://127.0.0.1:1/elsewhere"}}, externalizer.StopModel, "redirects to http://127.0.0.1:1/elsewhere"},
		"page":       {modeltest.Turn{Status: 200, Header: map[string]string{"Content-Type": "text/html; charset=utf-8"}, Body: "<html>"}, externalizer.StopModel, "a web page answers there"},
		"no choices": {modeltest.Turn{Status: 200, Body: `{"error":{"message":"odd"}}`}, externalizer.StopModel, ""},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, mode func(*externalizer.Options)) {
				l, _ := loop(t, caller, modeltest.New(t, c.turn), mode, func(o *externalizer.Options) {
					if name == "no choices" {
						o.MaxRetries = -1
					}
				})
				res, err := l.Ask(t.Context(), "Well?")
				if err == nil || res.Stop != c.stop || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), modeltest.Key) {
					t.Errorf("%s: %v", res.Stop, err)
				}
				if res.Answer != c.turn.Text {
					t.Errorf("the answer is %q", res.Answer)
				}
				checkConversation(t, res)
			})
		})
	}
}

func TestAnEndpointThatDoesNotStreamIsSaidSoAtOnce(t *testing.T) {
	caller, _ := serve(t, map[string]string{"plain": "echo"})
	whole := modeltest.Turn{Status: 200, Header: map[string]string{"Content-Type": "application/json"}, Body: `{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`}
	model := modeltest.New(t, whole)
	l, seen := loop(t, caller, model, streaming)
	res, err := l.Ask(t.Context(), "Well?")
	if err == nil || res.Stop != externalizer.StopModel || !strings.Contains(err.Error(), "no stream, but application/json; ask it for whole answers") {
		t.Errorf("%s: %v", res.Stop, err)
	}
	if k := strings.Join(seen.kinds(), ", "); strings.Contains(k, string(externalizer.Retrying)) {
		t.Errorf("it was asked again: %s", k)
	}
}

func TestACallThatWasCutOffIsNotRun(t *testing.T) {
	both(t, func(t *testing.T, mode func(*externalizer.Options)) {
		caller, _ := serve(t, map[string]string{"plain": "echo"})
		model := modeltest.New(t,
			modeltest.Turn{Finish: "length", Calls: []modeltest.Call{call("c1", "mcp__plain__echo", `{"message":"a"}`), call("c2", "mcp__plain__echo", ``)}},
			modeltest.Turn{Text: "Shorter."})
		l, _ := loop(t, caller, model, mode)
		for _, c := range ask(t, l).Steps[0].Calls {
			if c.CallID != "" || c.Error == nil || !strings.Contains(c.Error.Message, "cut off") {
				t.Errorf("%+v", c)
			}
		}
	})
}

func TestAStreamThatBreaksIsAskedForAgainUnlessItsTextWasShown(t *testing.T) {
	caller, _ := serve(t, map[string]string{"plain": "echo"})
	begun := `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"mcp__plain__echo"}}]}}]}`
	model := modeltest.New(t,
		modeltest.Turn{Events: []string{begun}, Cut: true},
		modeltest.Turn{Events: []string{begun}}, // ends well, but without a reason
		modeltest.Turn{Events: []string{`{"error":{"message":"busy","type":"server_error"}}`}},
		modeltest.Turn{Text: "Whole."},
	)
	l, seen := loop(t, caller, model, streaming)
	if res := ask(t, l); res.Answer != "Whole." || res.Steps[0].Retries != 3 {
		t.Errorf("%q after %d retries", res.Answer, res.Steps[0].Retries)
	}
	if e := seen.events[3]; e.Err == nil || !strings.Contains(e.Err.Error(), "busy") {
		t.Errorf("an error within the stream is told as %v", e.Err)
	}

	model = modeltest.New(t, modeltest.Turn{Text: "Half an ans", Cut: true})
	l, seen = loop(t, caller, model, streaming)
	res, err := l.Ask(t.Context(), "Well?")
	if err == nil || res.Stop != externalizer.StopModel || seen.text != "Half an ans" {
		t.Errorf("%s: %v after %q", res.Stop, err, seen.text)
	}
}

// An answer that has begun has said 200; what fails then is told within it.
func TestAnAnswerThatFailsOnItsWayIsNoAnswer(t *testing.T) {
	piece := func(rest string) string {
		return `{"id":"c","choices":[{"index":0,"delta":` + rest + `}]}`
	}
	text := piece(`{"content":"Half an ans"},"finish_reason":null`)
	wanted := piece(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"mcp__plain__echo","arguments":"{}"}}]},"finish_reason":null`)
	failed := `{"id":"c","error":{"code":502,"message":"provider lost"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`
	whole := func(body string) modeltest.Turn {
		return modeltest.Turn{Status: 200, Header: map[string]string{"Content-Type": "application/json"}, Body: body}
	}
	unheard := func(o *externalizer.Options) { o.OnText = nil }
	for name, c := range map[string]struct {
		turn modeltest.Turn
		mode func(*externalizer.Options)
		says string
	}{
		"after text":       {modeltest.Turn{Events: []string{text, failed}}, streaming, "502 Bad Gateway: provider lost"},
		"after a call":     {modeltest.Turn{Events: []string{wanted, failed}}, streaming, "502 Bad Gateway: provider lost"},
		"in words":         {modeltest.Turn{Events: []string{wanted, `{"error":"model overloaded"}`}}, streaming, "model overloaded"},
		"without a word":   {modeltest.Turn{Events: []string{wanted, piece(`{},"finish_reason":"error"`)}}, streaming, "broke off"},
		"instead of one":   {whole(`{"error":{"code":429,"message":"slow down"},"user_id":"u"}`), unheard, "429 Too Many Requests: slow down"},
		"a whole one":      {whole(`{"choices":[{"index":0,"message":{"role":"assistant","content":"Half"},"finish_reason":"error"}]}`), unheard, "broke off"},
		"and is no stream": {whole(`{"error":{"code":503,"message":"loading"}}`), streaming, "503 Service Unavailable: loading"},
	} {
		t.Run(name, func(t *testing.T) {
			caller, _ := serve(t, map[string]string{"plain": "echo"})
			l, seen := loop(t, caller, modeltest.New(t, c.turn, modeltest.Turn{Text: "Whole."}), unheard, c.mode)
			res := ask(t, l)
			if res.Answer != "Whole." || len(res.Steps) != 1 || res.Steps[0].Retries != 1 {
				t.Errorf("%q after %+v", res.Answer, res.Steps)
			}
			if e := seen.events[1]; e.Err == nil || !strings.Contains(e.Err.Error(), c.says) {
				t.Errorf("told as %v, not %q", e.Err, c.says)
			}
			checkConversation(t, res)
		})
	}
}

func TestAnEndpointsErrorIsToldInWhateverFormItComes(t *testing.T) {
	both(t, func(t *testing.T, mode func(*externalizer.Options)) {
		caller, _ := serve(t, nil)
		soon := map[string]string{"Retry-After": "0"}
		l, seen := loop(t, caller, modeltest.New(t,
			modeltest.Turn{Status: 503, Header: soon, Body: `{"error":"model loading"}`},
			modeltest.Turn{Status: 429, Header: soon, Body: `{"error":{"code":429,"reason":"slow down"}}`},
			modeltest.Turn{Text: "Here."},
		), mode)
		ask(t, l)
		for i, want := range []string{"503 Service Unavailable: ", "429 Too Many Requests: "} {
			said := []string{"model loading", "slow down"}[i]
			if e := seen.events[i+1]; e.Err == nil || !strings.Contains(e.Err.Error(), want) || !strings.Contains(e.Err.Error(), said) {
				t.Errorf("told as %v", e.Err)
			}
		}
	})
}

func TestAnEndpointThatIsNotThereIsSaidSo(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	caller, _ := serve(t, nil)
	l, err := externalizer.New(externalizer.Options{Caller: caller, BaseURL: gone.URL, Model: "m", MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	res, err := l.Ask(t.Context(), "Well?")
	if res.Stop != externalizer.StopModel || err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%s: %v", res.Stop, err)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	caller, _ := serve(t, nil)
	for says, o := range map[string]externalizer.Options{
		"needs a caller":       {Model: "m"},
		"needs a model":        {Caller: caller},
		"unknown profile":      {Caller: caller, Model: "m", Profile: "x"},
		"another API":          {Caller: caller, Model: "m", Profile: "openai-responses"},
		"negative":             {Caller: caller, Model: "m", MaxSteps: -1},
		"limit of the loop":    {Caller: caller, Model: "m", CallTimeout: -1},
		"must be an http":      {Caller: caller, Model: "m", BaseURL: "localhost:8080"},
		"in the clear: use":    {Caller: caller, Model: "m", Key: "k", BaseURL: "http://models.example/v1"},
		"in the clear":         {Caller: caller, Model: "m", Key: "k", BaseURL: "http://127.0.0.1.example/v1"},
		"must be an http or h": {Caller: caller, Model: "m", BaseURL: "ftp://models.example/v1"},
	} {
		if _, err := externalizer.New(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, base := range []string{"", "http://localhost:1/v1", "http://[::1]:1/v1", "http://127.9.9.9/v1", "https://models.example"} {
		if _, err := externalizer.New(externalizer.Options{Caller: caller, Model: "m", Key: "k", BaseURL: base}); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestToolsThatPoseAsOthersStayBetweenTheirMarks(t *testing.T) {
	caller, _ := serve(t, map[string]string{"p": "poison"})
	model := modeltest.New(t, calls(call("c1", "mcp__p__injection", `{}`), call("c2", "mcp__p__unicode", `{}`)), modeltest.Turn{Text: "No."})
	l, _ := loop(t, caller, model)
	for id, content := range tools(ask(t, l).Messages) {
		lines := strings.Split(content, "\n")
		_, mark, ok := strings.Cut(lines[0], "result <<")
		if !ok || lines[len(lines)-1] != mark+">>" || strings.Count(content, mark) != 2 {
			t.Errorf("%s: %q", id, content)
		}
	}
}
