package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/stdio"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestMain(m *testing.M) {
	fakeserver.RunIfAsked()
	os.Exit(m.Run())
}

const patience = 2 * time.Minute

// rig is a gateway in front of fake servers, which are processes of their own.
type rig struct {
	*gateway.Gateway
	host   *host.Host
	offers *offers.Reader
	gate   *policy.Gate
	view   *view.View
	url    string
}

const allowAll = "unlisted: {unknown: low}\nreview: {first: {unknown: pin}, added: allow, changed: allow, findings: allow}\n"

const asking = "actions: {critical: ask}\nrisk: {s.echo: critical}\nreview: {first: {unknown: pin}}\n"

// front puts a gateway in front of servers, given by name and mode.
func front(t testing.TB, policyFile string, servers map[string]string) *rig {
	t.Helper()
	r := &rig{view: &view.View{Approve: true}}
	var early sync.WaitGroup // the sink is used before there is a gateway
	early.Add(1)
	sink := signal.SinkFunc(func(ctx context.Context, s signal.Signal) error {
		early.Wait()
		return r.Observe(ctx, s)
	})
	m, err := client.New(client.Options{Sink: sink})
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
	parsed, err := rules.Parse("policy.yaml", []byte(policyFile))
	if err != nil {
		t.Fatal(err)
	}
	store, err := policy.OpenStore(t.Context(), filepath.Join(t.TempDir(), "policy.db"), policy.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r.gate = policy.NewGate(store, parsed, nil)
	r.host = host.New(host.Options{Client: m, Sink: sink, Gate: r.gate})
	r.offers = offers.New(offers.Options{Client: m, Sink: sink, Gate: r.gate})
	r.Gateway = gateway.New(gateway.Options{Host: r.host, Offers: r.offers, Approvals: r.gate.Approvals, Servers: func() []view.Server {
		var out []view.Server
		for _, i := range m.Infos() {
			out = append(out, view.Server{Name: i.Server, Version: i.ProtocolVersion})
		}
		return out
	}})
	early.Done()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	for name, mode := range servers {
		spawn(t, m, name, mode)
	}
	h := streamable.New(streamable.Options{Gateway: r.Gateway, Rules: access.Rules{Open: r.view}})
	srv := httptest.NewServer(h)
	r.url = srv.URL + streamable.Path
	t.Cleanup(srv.Close)
	t.Cleanup(h.Close)
	return r
}

// spawn starts a fake server and connects it.
func spawn(t testing.TB, m *client.Manager, name, mode string) {
	t.Helper()
	stdin, stdout := fakeserver.Start(t, mode)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := m.Connect(ctx, session.Conn{Server: name, Stdin: stdin, Stdout: stdout, Config: session.Config{
		Elicit: true, Debounce: 10 * time.Millisecond, Relay: handshake.Features{Elicitation: true, Sampling: true, Roots: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// ways are the ways to a gateway: both eras, over a pipe and over HTTP.
func (r *rig) ways(t *testing.T, test func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession)) {
	for _, version := range []string{"2025-03-26", "2025-11-25", "2026-07-28"} {
		for _, carrier := range []string{"stdio", "http"} {
			t.Run(version+" over "+carrier, func(t *testing.T) {
				test(t, func(o *mcp.ClientOptions) *mcp.ClientSession {
					t.Helper()
					var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: r.url}
					if carrier == "stdio" {
						transport = r.pipe(t)
					}
					return connect(t, transport, version, o)
				})
			})
		}
	}
}

func connect(t *testing.T, transport mcp.Transport, version string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	if o == nil {
		o = &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	if got := cs.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("%s was negotiated, not %s", got, version)
	}
	return cs
}

// pipe is a client's side of a pipe that the gateway serves.
func (r *rig) pipe(t *testing.T) mcp.Transport {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- stdio.Serve(t.Context(), r.Gateway, r.view, inR, outW) }()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
		if err := <-done; err != nil && !strings.Contains(err.Error(), "writing to the client") {
			t.Errorf("serving the pipe: %v", err)
		}
	})
	return &mcp.IOTransport{Reader: outR, Writer: inW}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func text(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

func TestToolsOfAllServersAreListedAndCalledUnderTheirExportedNames(t *testing.T) {
	r := front(t, allowAll, map[string]string{"one": "echo", "im.polaris.two": "modern"})
	r.ways(t, func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession) {
		cs := connect(nil)
		var names []string
		for tool, err := range cs.Tools(deadline(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		if len(names) != 7 || !slices.Contains(names, "one__echo") {
			t.Errorf("the tools are %q", names)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "echo") && !strings.Contains(name, "echo_") {
				continue
			}
			res, err := cs.CallTool(deadline(t), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"message": "hello"}})
			if err != nil || text(res) != "hello" {
				t.Errorf("%s: %v, %v", name, res, err)
			}
		}
		_, err := cs.CallTool(deadline(t), &mcp.CallToolParams{Name: "echo"})
		if err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("a name without its server: %v", err)
		}
	})
}

func TestProgressComesUnderTheClientsTokenBeforeTheAnswer(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "progress"})
	r.ways(t, func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession) {
		seen := make(chan any, 100)
		cs := connect(&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, ProgressNotificationHandler: func(_ context.Context, p *mcp.ProgressNotificationClientRequest) {
			seen <- p.Params.ProgressToken
		}})
		params := &mcp.CallToolParams{Name: "s__echo", Arguments: map[string]any{"message": "x", "times": 3, "millis": 20}}
		params.SetProgressToken("mine")
		if _, err := cs.CallTool(deadline(t), params); err != nil {
			t.Fatal(err)
		}
		select {
		case token := <-seen:
			if token != "mine" {
				t.Errorf("the token is %v", token)
			}
		case <-deadline(t).Done():
			t.Error("no progress came")
		}
	})
}

func TestAServersElicitationReachesTheClientAndItsAnswerTheServer(t *testing.T) {
	r := front(t, allowAll, map[string]string{"old": "elicit", "new": "modern"})
	r.ways(t, func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession) {
		cs := connect(&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, ElicitationHandler: func(_ context.Context, e *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if e.Params.Message == "Sure?" {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		}})
		for name, want := range map[string]string{"old__echo": "Ada", "new__ask": `"requestState":"state-1"`} {
			res, err := cs.CallTool(deadline(t), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"message": "x"}})
			if err != nil || res.IsError || !strings.Contains(text(res), want) {
				t.Errorf("%s: %v, %v", name, res, err)
			}
		}
	})
}

func TestAnApprovalIsAskedOfTheClientsUser(t *testing.T) {
	r := front(t, asking, map[string]string{"s": "echo"})
	var denials []string
	r.ways(t, func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession) {
		asked := 0
		decision := "once"
		cs := connect(&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, ElicitationHandler: func(_ context.Context, e *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked++
			if !strings.Contains(e.Params.Message, "s__echo") {
				t.Errorf("the question is %q", e.Params.Message)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision}}, nil
		}})
		call := func(message string) *mcp.CallToolResult {
			res, err := cs.CallTool(deadline(t), &mcp.CallToolParams{Name: "s__echo", Arguments: map[string]any{"message": message}})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := call("one " + t.Name()); res.IsError || asked != 1 {
			t.Errorf("allowed: %q after %d questions", text(res), asked)
		}
		decision = "deny"
		if res := call("two " + t.Name()); !res.IsError || asked != 2 {
			t.Errorf("denied: %q after %d questions", text(res), asked)
		} else {
			denials = append(denials, text(res))
		}
	})
	list, err := r.gate.Approvals.List(t.Context(), approval.Pending)
	if err != nil || len(list) != 0 {
		t.Errorf("left open: %v, %v", list, err)
	}
	for _, told := range denials {
		_, id, _ := strings.Cut(told, "platform approvals revoke ")
		if _, err := r.gate.Approvals.Show(t.Context(), id); err != nil && strings.Contains(told, "said no") || !strings.Contains(told, "s.echo") {
			t.Errorf("the model is told %q: %v", told, err)
		}
	}
}

func TestAModelWhoseUserDoesNotDecideIsToldToolReasonIdAndCommand(t *testing.T) {
	r := front(t, asking, map[string]string{"s": "echo"})
	r.ways(t, func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession) {
		cs := connect(&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		}})
		res, err := cs.CallTool(deadline(t), &mcp.CallToolParams{Name: "mcp__s__echo", Arguments: map[string]any{"message": t.Name()}})
		if err != nil || !res.IsError {
			t.Fatalf("got %v, %v", res, err)
		}
		list, err := r.gate.Approvals.List(t.Context(), approval.Pending)
		if err != nil || len(list) == 0 {
			t.Fatalf("open are %v, %v", list, err)
		}
		told := text(res)
		if !strings.Contains(told, "s.echo") || !strings.Contains(told, "platform approvals approve ") || !slices.ContainsFunc(list, func(a approval.Approval) bool {
			return strings.Contains(told, a.ID) && strings.Contains(told, a.Reason)
		}) {
			t.Errorf("the model is told %q; open are %+v", told, list)
		}
	})
}

func TestAClientThatCannotShowAQuestionIsToldHowToApprove(t *testing.T) {
	r := front(t, asking, map[string]string{"s": "echo"})
	r.ways(t, func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession) {
		cs := connect(nil)
		params := &mcp.CallToolParams{Name: "s__echo", Arguments: map[string]any{"message": t.Name()}}
		res, err := cs.CallTool(deadline(t), params)
		if err != nil || !res.IsError {
			t.Fatalf("got %v, %v", res, err)
		}
		_, id, ok := strings.Cut(text(res), "platform approvals approve ")
		id, _, _ = strings.Cut(id, ".")
		if !ok {
			t.Fatalf("the answer is %q", text(res))
		}
		if _, err := r.gate.Approvals.Approve(t.Context(), id, approval.Once, "Ada"); err != nil {
			t.Fatal(err)
		}
		if res, err = cs.CallTool(deadline(t), params); err != nil || res.IsError {
			t.Errorf("after the approval: %v, %v", res, err)
		}
	})
}

func TestResultsArePassedOnByteForByte(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "exact"})
	c := r.Conn(r.view, nil)
	defer c.Close()
	serve := func(raw string) string {
		m, bad := rpc.Parse([]byte(raw))
		if bad != nil {
			t.Fatal(bad)
		}
		reply, bad := c.Serve(t.Context(), m, nil)
		if bad != nil {
			t.Fatal(bad)
		}
		return string(reply)
	}
	serve(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	got := serve(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"s__echo","arguments":{"message":"x"}}}`)
	if want := `{"jsonrpc":"2.0","id":2,"result":` + fakeserver.Exact + `}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	modern := serve(`{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"s__echo","arguments":{"message":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	for _, part := range []string{`"id":"a\u0062"`, `"structuredContent":{"id":9007199254740993,"rate":1.10,"tiny":1e-400,"a":1,"a":2}`, `"resultType":"complete"`, `"x-own":[ ]`} {
		if !strings.Contains(modern, part) || !json.Valid([]byte(modern)) {
			t.Errorf("%s is not in %s", part, modern)
		}
	}
}

func TestResourcesAndPromptsHaveNamesThatLeadBack(t *testing.T) {
	r := front(t, allowAll, map[string]string{"a": "resources", "b": "resources"})
	r.ways(t, func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession) {
		cs := connect(nil)
		seen := map[string]bool{}
		for res, err := range cs.Resources(deadline(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[res.URI] {
				t.Errorf("%s is there twice", res.URI)
			}
			seen[res.URI] = true
			got, err := cs.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: res.URI})
			if err != nil || len(got.Contents) == 0 || got.Contents[0].URI != res.URI {
				t.Errorf("%s: %+v, %v", res.URI, got, err)
			}
		}
		if len(seen) != 4 {
			t.Errorf("the resources are %v", seen)
		}
		prompts := 0
		for p, err := range cs.Prompts(deadline(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			prompts++
			if !strings.HasPrefix(p.Name, "a__") && !strings.HasPrefix(p.Name, "b__") {
				t.Errorf("a prompt is called %s", p.Name)
			}
			args := map[string]string{}
			for _, a := range p.Arguments {
				args[a.Name] = "x"
			}
			if _, err := cs.GetPrompt(deadline(t), &mcp.GetPromptParams{Name: p.Name, Arguments: args}); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
		if prompts != 2 {
			t.Errorf("%d prompts", prompts)
		}
		if _, err := cs.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: "nowhere://x"}); err == nil {
			t.Error("a resource of nobody was read")
		}
	})
}

func TestAChangeOfToolsIsTold(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "rug-pull"})
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		told := make(chan struct{}, 10)
		cs := connect(t, &mcp.StreamableClientTransport{Endpoint: r.url}, version, &mcp.ClientOptions{
			Capabilities:           &mcp.ClientCapabilities{},
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told <- struct{}{} },
		})
		if version == "2025-11-25" { // the server changes once
			defer func() {
				select {
				case <-told:
				case <-deadline(t).Done():
					t.Errorf("%s: nothing was told", version)
				}
			}()
			continue
		}
		if _, err := cs.CallTool(deadline(t), &mcp.CallToolParams{Name: "s__echo", Arguments: map[string]any{"message": "x"}}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-told:
		case <-deadline(t).Done():
			t.Errorf("%s: nothing was told", version)
		}
	}
}

func TestAViewShowsAndCallsNothingElse(t *testing.T) {
	r := front(t, allowAll, map[string]string{"one": "echo", "two": "echo"})
	r.view.Servers, r.view.Tools = []string{"t*"}, []string{"two.e*"}
	cs := connect(t, r.pipe(t), "2025-11-25", nil)
	list, err := cs.ListTools(deadline(t), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "two__echo" {
		t.Errorf("the tools are %+v, %v", list, err)
	}
	if _, err := cs.CallTool(deadline(t), &mcp.CallToolParams{Name: "one__echo"}); err == nil {
		t.Error("a tool that is not shown was called")
	}
}

func TestOneServerIsOfferedUnderItsOwnNames(t *testing.T) {
	r := front(t, allowAll, map[string]string{"one": "echo", "two": "resources"})
	cs := connect(t, &mcp.StreamableClientTransport{Endpoint: r.url + "/two"}, "2025-11-25", nil)
	res, err := cs.ListResources(deadline(t), nil)
	if err != nil || len(res.Resources) == 0 || strings.HasPrefix(res.Resources[0].URI, "mcp+") {
		t.Errorf("the resources are %+v, %v", res, err)
	}
	cs = connect(t, &mcp.StreamableClientTransport{Endpoint: r.url + "/one"}, "2026-07-28", nil)
	if got, err := cs.CallTool(deadline(t), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "hi"}}); err != nil || text(got) != "hi" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestACallThatIsCancelledEndsAtTheServer(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "hang-call"})
	r.ways(t, func(t *testing.T, connect func(*mcp.ClientOptions) *mcp.ClientSession) {
		cs := connect(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // by when the call has arrived
		defer cancel()
		if _, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "s__echo", Arguments: map[string]any{"message": "x"}}); err == nil {
			t.Fatal("the call was answered")
		}
	})
	conn := connect(t, r.pipe(t), "2025-11-25", nil)
	end := time.Now().Add(patience)
	for {
		res, err := conn.CallTool(deadline(t), &mcp.CallToolParams{Name: "s__kept", Arguments: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text(res), "notifications/cancelled"); n == 6 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%d calls of 6 were cancelled at the server: %s", n, text(res))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
