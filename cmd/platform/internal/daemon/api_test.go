package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/apitest"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// api is a client of a running platform whose every request and answer is
// checked against the description that the platform gives of itself.
type api struct {
	r     *running
	http  *http.Client
	base  string
	token string
	doc   *apitest.Doc
}

// api is a client over the socket.
func (r *running) api() *api {
	socket := r.socket
	return r.client("http://platform", "", func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	})
}

func (r *running) client(base, token string, dial func(context.Context, string, string) (net.Conn, error)) *api {
	r.t.Helper()
	a := &api{r: r, base: base, token: token, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
	r.t.Cleanup(a.http.CloseIdleConnections)
	res, raw := a.send("GET", "/v1/openapi.json", "")
	doc, err := apitest.Load(raw)
	if err == nil {
		err = doc.Answer("GET", "/v1/openapi.json", res, raw)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	a.doc = doc
	return a
}

func (a *api) request(ctx context.Context, method, path, body string) *http.Request {
	a.r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.r.t.Fatal(err)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	return req
}

func (a *api) send(method, path, body string) (*http.Response, []byte) {
	a.r.t.Helper()
	res, err := a.http.Do(a.request(context.Background(), method, path, body))
	if err != nil {
		a.r.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		a.r.t.Fatal(err)
	}
	return res, raw
}

// ask sends a request, checks what the two say, and reads the answer into into.
func (a *api) ask(status int, method, path, body string, into any) {
	a.r.t.Helper()
	if body != "" {
		if err := a.doc.Request(method, path, []byte(body)); err != nil {
			a.r.t.Errorf("%s %s %s: %v", method, path, body, err)
		}
	}
	res, raw := a.send(method, path, body)
	if err := a.doc.Answer(method, path, res, raw); err != nil {
		a.r.t.Error(err)
	}
	if res.StatusCode != status {
		a.r.t.Fatalf("%s %s %s: got %s %s, want %d", method, path, body, res.Status, raw, status)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil {
		a.r.t.Fatal(err)
	}
}

// glimpse opens a stream and leaves.
func (a *api) glimpse(path string) {
	a.r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	res, err := a.http.Do(a.request(ctx, "GET", path, ""))
	if err != nil {
		a.r.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := a.doc.Answer("GET", path, res, nil); err != nil || res.StatusCode != 200 {
		a.r.t.Fatalf("%s: %s %v", path, res.Status, err)
	}
}

// failure is what tests look for in a problem.
type failure struct {
	Code string `json:"error_code"`
	Data struct {
		Approval string `json:"approval_id"`
		Last     uint64
	}
}

// follow reads a stream of events until see says that it has seen enough. It
// returns the ids of the events that came, and the last id of all.
func (a *api) follow(path, last string, see func(typ string) bool) (ids []string, resume string) {
	a.r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req := a.request(ctx, "GET", path, "")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := a.http.Do(req)
	if err != nil {
		a.r.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := a.doc.Answer("GET", path, res, nil); err != nil || res.StatusCode != 200 {
		a.r.t.Fatalf("%s: %s %v", path, res.Status, err)
	}
	var typ string
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			resume = value
		case "event":
			typ = value
		case "data":
			if err := a.doc.Schema("Envelope", []byte(value)); err != nil {
				a.r.t.Errorf("%s: %v: %s", typ, err, value)
			}
			var e amp.Envelope
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				a.r.t.Fatal(err)
			}
			if ids = append(ids, e.Header.MessageID); see(typ) {
				return ids, resume
			}
		}
	}
	a.r.t.Fatalf("the stream ended after %d events: %v", len(ids), lines.Err())
	return nil, ""
}

func TestEveryOperationOfARunningPlatformAnswersAsItIsDescribed(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.end()
	r.policy = "" // the built-in rules ask
	r.write("s.yaml", fake("s", "echo", "")+"alias: short\n")
	r.write("bad.yaml", fake("bad", "crash-start", quickRestarts))
	r.write("lib.yaml", fake("lib", "resources", ""))
	r.write("asks.yaml", fake("asks", "elicit", "  elicitation: true\n"))
	r.write("huge.yaml", strings.Replace(fake("huge", "huge", ""), "\"]", "\", bytes=200000]", 1))
	r.start()
	r.phase("s", "ready")
	r.phase("huge", "ready")
	r.phase("lib", "ready")
	r.phase("asks", "ready")
	r.phase("bad", "failed")
	a := r.api()

	for _, path := range []string{
		"/v1/version", "/v1/status", "/metrics", "/v1/servers", "/v1/tools", "/v1/tools?server=short", "/v1/tools?format=openai",
		"/v1/tools?format=openai&profile=openai-strict&server=s", "/v1/tools?format=openai&profile=gemini", "/v1/servers/bad/logs?n=5",
		"/v1/servers/short/logs", "/v1/resources", "/v1/resources?server=lib", "/v1/resources/templates?server=lib", "/v1/prompts", "/v1/approvals", "/v1/policy/explain?tool=s.echo", "/v1/catalog/review", "/v1/catalog/diff?server=s",
	} {
		a.ask(200, "GET", path, "", nil)
	}
	a.ask(404, "GET", "/v1/tools?server=nobody", "", nil)
	a.ask(404, "GET", "/v1/servers/nobody/logs", "", nil)
	a.ask(404, "GET", "/v1/catalog/diff?server=nobody", "", nil)
	a.ask(404, "GET", "/v1/policy/explain?tool=nothing", "", nil)
	a.ask(400, "GET", "/v1/tools?format=openai&profile=nothing", "", nil)

	// A call that a person allows, one that a person denies.
	var p failure
	call := `{"name":"s.echo","arguments":{"message":"hello"}}`
	a.ask(403, "POST", "/v1/calls", call, &p)
	if p.Code != fault.ApprovalRequired || p.Data.Approval == "" {
		t.Fatalf("the call is answered with %+v", p)
	}
	yes := "/v1/approvals/" + p.Data.Approval
	a.ask(200, "GET", yes, "", nil)
	a.ask(200, "GET", "/v1/approvals?state=pending", "", nil)
	a.ask(200, "POST", yes+"/approve", `{"scope":"always","actor":"Ada"}`, nil)
	a.ask(409, "POST", yes+"/approve", `{}`, nil)
	a.ask(404, "GET", "/v1/approvals/nothing", "", nil)
	a.ask(404, "POST", "/v1/approvals/nothing/deny", `{}`, nil)
	var res struct {
		Result struct{ Content []struct{ Text string } }
	}
	if a.ask(200, "POST", "/v1/calls", call, &res); res.Result.Content[0].Text != "hello" {
		t.Errorf("the call is answered with %+v", res)
	}
	// An approval for good is listed, and good until it is revoked.
	var stands struct{ Approvals []struct{ ID, Scope string } }
	if a.ask(200, "GET", "/v1/approvals?state=approved", "", &stands); len(stands.Approvals) != 1 || stands.Approvals[0].Scope != "always" {
		t.Errorf("what stands is %+v", stands)
	}
	a.ask(200, "POST", yes+"/revoke", `{"actor":"Ada"}`, nil)
	a.ask(409, "POST", yes+"/revoke", `{}`, nil)
	a.ask(403, "POST", "/v1/calls", call, &p)
	a.ask(200, "POST", "/v1/approvals/"+p.Data.Approval+"/approve", `{"scope":"session"}`, nil)
	a.ask(404, "POST", "/v1/approvals/nothing/revoke", `{}`, nil)

	a.ask(403, "POST", "/v1/calls", `{"name":"s.echo","arguments":{"message":"bye"}}`, &p)
	a.ask(200, "POST", "/v1/approvals/"+p.Data.Approval+"/deny", `{"actor":"Ada","reason":"not now"}`, nil)
	a.ask(200, "GET", "/v1/approvals?state=denied&state=approved", "", nil)

	// The same call, not waited for.
	a.ask(202, "POST", "/v1/calls", `{"name":"s.echo","id":"later","async":true,"arguments":{"message":"hello"}}`, nil)
	a.ask(200, "GET", "/v1/calls/later?wait=true", "", nil)
	a.ask(200, "DELETE", "/v1/calls/later", "", nil)
	a.ask(404, "GET", "/v1/calls/nothing", "", nil)
	a.ask(404, "POST", "/v1/calls", `{"name":"nothing"}`, nil)
	large := `{"name":"huge.echo","arguments":{"message":"large"}}`
	a.ask(403, "POST", "/v1/calls", large, &p)
	a.ask(200, "POST", "/v1/approvals/"+p.Data.Approval+"/approve", `{}`, nil)
	var kept struct{ Artifact struct{ Size int } }
	if a.ask(200, "POST", "/v1/calls", large, &kept); kept.Artifact.Size < 100_000 {
		t.Errorf("a large result is kept as %+v", kept)
	}
	a.ask(400, "POST", "/v1/calls", `{"name":"s.echo","arguments":{"message":1}}`, nil)

	// Resources, prompts, and a server's question.
	a.ask(200, "POST", "/v1/resources/read", `{"server":"lib","uri":"note:///one"}`, nil)
	a.ask(502, "POST", "/v1/resources/read", `{"server":"s","uri":"note:///one"}`, nil)
	a.ask(200, "POST", "/v1/resources/subscribe", `{"server":"lib","uri":"note:///one"}`, nil)
	a.ask(200, "GET", "/v1/resources/subscriptions", "", nil)
	a.ask(200, "POST", "/v1/resources/unsubscribe", `{"server":"lib","uri":"note:///one"}`, nil)
	a.ask(404, "POST", "/v1/resources/unsubscribe", `{"server":"lib","uri":"note:///one"}`, nil)
	a.glimpse("/v1/resources/watch?server=lib&uri=note:///one")
	a.ask(200, "POST", "/v1/prompts/get", `{"server":"lib","prompt":"greet","arguments":{"who":"Ada"}}`, nil)
	a.ask(400, "POST", "/v1/prompts/get", `{"server":"lib","prompt":"greet"}`, nil)
	a.ask(404, "POST", "/v1/prompts/get", `{"server":"lib","prompt":"great"}`, nil)
	a.ask(200, "POST", "/v1/completions", `{"server":"lib","prompt":"greet","argument":"who","value":"Ad"}`, nil)
	a.ask(200, "POST", "/v1/servers/lib/log-level", `{"level":"warning"}`, nil)
	a.ask(403, "POST", "/v1/calls", `{"name":"asks.echo"}`, &p)
	a.ask(200, "POST", "/v1/approvals/"+p.Data.Approval+"/approve", `{}`, nil)
	a.ask(202, "POST", "/v1/calls", `{"name":"asks.echo","id":"asked","async":true}`, nil)
	r.until("the question", func() (bool, any) {
		var list struct{ Calls []struct{ ID string } }
		a.ask(200, "GET", "/v1/calls?state=input_required", "", &list)
		return len(list.Calls) == 1, list
	})
	a.ask(200, "POST", "/v1/calls/asked/input", `{"action":"decline"}`, nil)
	a.ask(200, "GET", "/v1/calls/asked?wait=true", "", nil)

	// The history has all of it, and says who allowed what.
	var page history.Page
	r.until("the history", func() (bool, any) {
		page = history.Page{}
		a.ask(200, "GET", "/v1/history?kind=approval&server=short&outcome=ok&tool=short.echo&text=hel*", "", &page)
		return page.Behind == 0, page
	})
	if len(page.Entries) != 2 || page.Entries[0].CallID != "later" || page.Entries[1].Actor != "Ada" || !page.Entries[1].Granted {
		t.Errorf("the calls that a person allowed are %+v", page)
	}
	var chain history.Chain
	if a.ask(200, "GET", "/v1/history/calls/later", "", &chain); len(chain.Events) != 6 {
		t.Errorf("the call has the events %+v", chain)
	}
	a.ask(404, "GET", "/v1/history/calls/nothing", "", nil)
	a.ask(200, "GET", "/v1/history/stats?by=tool&server=s", "", nil)
	a.ask(400, "GET", "/v1/history/stats?by=colour", "", nil)
	a.ask(400, "GET", "/v1/history?kind=colour", "", nil)
	a.ask(400, "GET", "/v1/history?since=yesterday", "", nil)
	a.ask(200, "POST", "/v1/history/rebuild", `{}`, nil)

	a.ask(200, "POST", "/v1/catalog/approve", `{"server":"short","actor":"Ada"}`, nil)
	a.ask(404, "POST", "/v1/catalog/approve", `{"server":"nobody"}`, nil)
	a.ask(409, "POST", "/v1/catalog/approve", `{"server":"s","hash":"0123"}`, nil)
	a.ask(200, "GET", "/v1/catalog/review?server=short", "", nil)
	a.ask(404, "GET", "/v1/catalog/review?server=nobody", "", nil)
	var tools struct {
		Tools []struct{ Risk, Trust, Action string }
	}
	if a.ask(200, "GET", "/v1/tools?server=short", "", &tools); tools.Tools[0].Risk != "unknown" || tools.Tools[0].Trust != "unknown" || tools.Tools[0].Action != "ask" {
		t.Errorf("the policy says %+v of the tools", tools)
	}
	a.ask(200, "GET", "/v1/catalog/review", "", nil)
	a.ask(200, "POST", "/v1/servers/short/stop", "", nil)
	a.ask(200, "GET", "/v1/servers", "", nil)
	a.ask(200, "POST", "/v1/servers/s/start", "", nil)
	a.ask(200, "POST", "/v1/servers/s/restart", "", nil)
	a.ask(503, "POST", "/v1/servers/bad/restart", "", nil)
	a.ask(404, "POST", "/v1/servers/nobody/start", "", nil)

	end := r.Position()
	seen := 0
	a.follow("/v1/events?since=0&all=true", "", func(string) bool { seen++; return uint64(seen) >= end })
	a.ask(416, "GET", "/v1/events?since=99999999", "", &p)
	if p.Data.Last < end {
		t.Errorf("the journal ends at %d, not at %d", end, p.Data.Last)
	}
	c, err := control.Dial(r.o.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pipe, err := c.Gateway(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	io.WriteString(pipe, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	if line, err := bufio.NewReader(pipe).ReadString('\n'); err != nil || !strings.Contains(line, `"id":1,"result":{}`) {
		t.Errorf("the gateway answered %q, %v", line, err)
	}
	// That connection is no longer one of HTTP: the client of this test cannot see it.
	if missing := slices.DeleteFunc(a.doc.Missing(), func(op string) bool { return op == "openGateway" }); len(missing) > 0 {
		t.Errorf("no success was seen of %v", missing)
	}
}

func TestACallThatIsDeletedIsCancelledAtItsServer(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "hang-call", "")})
	r.phase("s", "ready")
	a := r.api()
	a.ask(202, "POST", "/v1/calls", `{"name":"s.echo","id":"c","async":true}`, nil)
	r.has("s", "tool.started", 0) // it is for the record alone
	var st struct {
		State   string
		Problem failure
	}
	if a.ask(200, "GET", "/v1/calls/c", "", &st); st.State != "running" {
		t.Fatalf("the call is %+v", st)
	}
	a.follow("/v1/events?since=0&all=true&type=tool.started", "", func(string) bool { return true })
	if a.ask(200, "DELETE", "/v1/calls/c", "", &st); st.State != "failed" || st.Problem.Code != fault.Cancelled {
		t.Fatalf("the call is %+v", st)
	}
	r.until("notifications/cancelled at the server", func() (bool, any) {
		kept, err := r.call("s.kept", "")
		return strings.Contains(kept, "notifications/cancelled"), fmt.Sprint(kept, err)
	})
	if e := r.has("s", "tool.failed", 1)[0]; e.Header.CorrelationID != "c" || field(t, e, "error_code") != fault.Cancelled {
		t.Errorf("the event is %+v %s", e.Header, e.Payload.Data)
	}
}

func TestTheProgressOfACallIsSeenWhileItRuns(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "progress", "")})
	r.phase("s", "ready")
	a := r.api()
	type state struct {
		State    string
		Progress struct{ Progress, Total int }
	}
	a.ask(202, "POST", "/v1/calls", `{"name":"s.echo","id":"p","async":true,"arguments":{"times":100000,"millis":5}}`, nil)
	var st state
	seen := 0
	for range 2 { // the latest, not the first
		r.until("further progress", func() (bool, any) {
			st = state{}
			a.ask(200, "GET", "/v1/calls/p", "", &st)
			return st.Progress.Progress > seen, st
		})
		if st.State != "running" || st.Progress.Total != 100000 {
			t.Fatalf("the call is %+v", st)
		}
		seen = st.Progress.Progress
	}
	var all struct{ Calls []state }
	if a.ask(200, "GET", "/v1/calls", "", &all); len(all.Calls) != 1 || all.Calls[0].Progress.Progress < seen {
		t.Errorf("the list of calls has %+v", all)
	}
	st = state{}
	if a.ask(200, "DELETE", "/v1/calls/p", "", &st); st.State != "failed" || st.Progress.Total != 0 {
		t.Errorf("after its end the call is %+v", st)
	}
}

func TestTheStreamGoesOnOverARestartWithoutGapOrRepeat(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.phase("s", "ready")
	if _, err := r.call("s.echo", "one"); err != nil {
		t.Fatal(err)
	}
	ids, last := r.api().follow("/v1/events?since=0&all=true", "", func(typ string) bool { return typ == "tool.started" })
	for range 2 {
		r.end() // while there is more to read
		r.start()
		r.phase("s", "ready")
		if _, err := r.call("s.echo", "two"); err != nil {
			t.Fatal(err)
		}
		calls := 0
		more, now := r.api().follow("/v1/events?all=true", last, func(typ string) bool {
			if typ == "tool.completed" {
				calls++
			}
			return calls == 2 || calls == 1 && len(ids) > 0 && typ == "lifecycle.started"
		})
		ids, last = append(ids, more...), now
	}
	// The stream is the journal, and without all=true what the Brain is given.
	var all, inbox []string
	j := r.bus.Journal().Reader(1)
	defer j.Close()
	id := func(event []byte) string {
		var e amp.Envelope
		if err := json.Unmarshal(event, &e); err != nil {
			t.Fatal(err)
		}
		return e.Header.MessageID
	}
	for len(all) < len(ids) {
		rec, err := j.Next()
		if err != nil {
			t.Fatal(err)
		}
		for step := range rec.Before() {
			all = append(all, id(step))
		}
		all = append(all, id(rec.Event()))
		if rec.Kind == segment.Deliver {
			inbox = append(inbox, all[len(all)-1])
		}
	}
	if diff := cmp.Diff(all[:len(ids)], ids); diff != "" {
		t.Errorf("the journal, and the stream: %s", diff)
	}
	n := 0
	got, _ := r.api().follow("/v1/events?since=0", "", func(string) bool { n++; return n == len(inbox) })
	if fmt.Sprint(got) != fmt.Sprint(inbox) || len(inbox) == len(ids) {
		t.Errorf("delivered were %v of %d, the stream has %v", inbox, len(ids), got)
	}
}

func TestTheAPIIsServedOnLoopbackToWhoHasTheToken(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	noted := filepath.Join(r.data, "state/api-address")
	if _, err := os.Stat(noted); !os.IsNotExist(err) {
		t.Fatalf("TCP is served unasked: %v", err)
	}
	r.end()
	r.listen = "127.0.0.1:0"
	read := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(r.data, "state", name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(raw))
	}
	var tokens []string
	for range 2 {
		r.start()
		r.phase("s", "ready")
		tokens = append(tokens, read("token"))
		a := r.client("http://"+read("api-address"), tokens[0], (&net.Dialer{}).DialContext)
		a.ask(200, "POST", "/v1/calls", `{"name":"s.echo","arguments":{"message":"x"}}`, nil)
		a.token = ""
		a.ask(401, "POST", "/v1/calls", `{"name":"s.echo","arguments":{"message":"x"}}`, nil)
		r.api().ask(200, "GET", "/v1/tools", "", nil)
		r.end()
		if _, err := os.Stat(noted); !os.IsNotExist(err) {
			t.Errorf("the address stays behind: %v", err)
		}
	}
	if tokens[0] != tokens[1] || len(tokens[0]) != 64 {
		t.Errorf("the tokens are %q", tokens)
	}
}

func TestAnAddressThatOthersCanReachIsNoSetting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "platform.yaml")
	for addr, good := range map[string]bool{"127.0.0.1:0": true, "": true, "0.0.0.0:8420": false, ":8420": false, "192.0.2.1:1": false} {
		if err := os.WriteFile(path, fmt.Appendf(nil, "api: {listen: %q}\n", addr), 0o600); err != nil {
			t.Fatal(err)
		}
		o := settings.Defaults()
		if err := o.ReadConfig(path, true); err != nil {
			t.Fatal(err)
		}
		if err := o.Validate(); (err == nil) != good {
			t.Errorf("%q: %v", addr, err)
		} else if err != nil && !strings.Contains(err.Error(), "api.listen") {
			t.Errorf("%q: the fault does not name the setting: %v", addr, err)
		}
	}
}

func TestAServersQuestionIsAnsweredOverTheAPI(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "elicit", "  elicitation: true\n")})
	r.phase("s", "ready")
	a := r.api()
	a.ask(202, "POST", "/v1/calls", `{"id":"c1","name":"s.echo","async":true}`, nil)
	var state struct {
		State string
		Input struct {
			Questions []struct{ ID, Kind, Message string }
		}
		Response struct{ Result json.RawMessage }
	}
	r.until("the question", func() (bool, any) {
		a.ask(200, "GET", "/v1/calls/c1", "", &state)
		return state.State == "input_required", state
	})
	if q := state.Input.Questions; len(q) != 1 || q[0].Kind != "form" || q[0].Message != "What is your name?" {
		t.Fatalf("asked %+v", q)
	}
	e := r.has("s", "tool.input_required", 1)[0]
	if e.Header.CorrelationID != "c1" {
		t.Errorf("the event is %+v", e.Header)
	}
	a.ask(400, "POST", "/v1/calls/c1/input", `{"action":"accept","content":{"nom":"Ada"}}`, nil)
	a.ask(200, "POST", "/v1/calls/c1/input", `{"action":"accept","content":{"name":"Ada"},"actor":"Ada"}`, nil)
	a.ask(404, "POST", "/v1/calls/c1/input", `{"action":"accept","content":{"name":"Ada"}}`, nil)
	a.ask(200, "GET", "/v1/calls/c1?wait=true", "", &state)
	if state.State != "completed" || !strings.Contains(string(state.Response.Result), `\"name\":\"Ada\"`) {
		t.Errorf("the call is %+v", state)
	}
}

func TestAServerThatMayNotAskIsRefusedAndSaidSo(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "elicit", "")})
	r.phase("s", "ready")
	var res struct{ Result json.RawMessage }
	r.api().ask(200, "POST", "/v1/calls", `{"name":"s.echo"}`, &res)
	if !strings.Contains(string(res.Result), "-32601") {
		t.Errorf("the server was told %s", res.Result)
	}
	r.has("s", "mcp.error", 1)
}

func TestAServersQuestionIsAnsweredByFile(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "elicit", "  elicitation: true\n")})
	r.phase("s", "ready")
	r.ask("call_q1.json", `{"name":"s.echo","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)
	e := r.has("s", "tool.input_required", 1)[0]
	if e.Header.CorrelationID != "q1" || e.Header.TraceParent == "" {
		t.Errorf("the event is %+v", e.Header)
	}
	r.ask("answer_q1.json", `{"action":"accept","content":{"name":"Ada"}}`)
	done := r.has("s", "tool.completed", 1)[0]
	if preview, _ := field(t, done, "preview").(string); !strings.Contains(preview, `"name":"Ada"`) || done.Header.TraceParent == "" {
		t.Errorf("the answer is %q of %+v", preview, done.Header)
	}
}

func TestASubscribedResourcesChangesReachTheInboxAlsoAfterARestart(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "resources", "")})
	r.phase("s", "ready")
	a := r.api()
	a.ask(200, "POST", "/v1/resources/subscribe", `{"server":"s","uri":"note:///one"}`, nil)
	if _, err := r.call("s.echo", ""); err != nil {
		t.Fatal(err)
	}
	r.has("s", "mcp.notification.resources.updated", 1)
	a.ask(200, "POST", "/v1/servers/s/restart", "", nil)
	r.phase("s", "ready")
	missed := r.has("s", "mcp.notification.resources.updated", 2)[1]
	if !strings.Contains(string(missed.Payload.Data), `"aurora/missed":true`) {
		t.Errorf("after the restart came %s", missed.Payload.Data)
	}
	if _, err := r.call("s.echo", ""); err != nil {
		t.Fatal(err)
	}
	r.has("s", "mcp.notification.resources.updated", 3)
}
