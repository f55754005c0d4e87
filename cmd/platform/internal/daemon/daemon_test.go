package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/check"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

func TestMain(m *testing.M) {
	serverkit.RunGuardIfAsked()
	fakeserver.RunIfAsked()
	goleak.VerifyTestMain(m)
}

// running is a platform that runs in this process on fake servers.
type running struct {
	*Platform
	t      *testing.T
	data   string
	dir    string
	policy string
	listen string // of the API, beside the socket
	front  string // of the gateway, over HTTP
	tokens string // its file of tokens
	stop   context.CancelFunc
	done   chan error
}

// fake is the manifest of a fake server. More is added to its mcp section.
func fake(name, mode, more string) string {
	argv, _ := fakeserver.Command(mode)
	return fmt.Sprintf(`package: %s
type: mcp-server
mcp:
  command: [%q]
  env: {AURORA_FAKE_SERVER: %s}
  health_timeout: 30
  stop: {close_wait: "300ms", term_wait: "300ms"}
%s`, name, argv[0], mode, more)
}

const quickRestarts = "  restart: {backoff_seconds: \"10ms\", max_backoff_seconds: \"50ms\"}\n"

// trusting is a policy that lets every call through.
const trusting = "unlisted: {unknown: low}\nreview: {first: {unknown: pin}, added: allow, changed: allow, findings: allow}\n"

// launch runs a platform that trusts its servers on manifests, given by file name.
func launch(t *testing.T, manifests map[string]string) *running {
	t.Helper()
	r := &running{t: t, data: filepath.Join(t.TempDir(), "data"), dir: t.TempDir()}
	for name, text := range manifests {
		r.write(name, text)
	}
	r.policy = filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(r.policy, []byte(trusting), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	return r
}

func (r *running) write(name, text string) {
	r.t.Helper()
	tmp := filepath.Join(r.dir, "."+name)
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) start() {
	r.t.Helper()
	o := settings.Defaults()
	o.Data, o.Manifests, o.Policy = r.data, []string{r.dir}, r.policy
	o.API.Listen, o.Gateway.Listen, o.Gateway.Tokens = r.listen, r.front, r.tokens
	ctx, stop := context.WithCancel(context.Background())
	up := make(chan *Platform, 1)
	r.stop, r.done = stop, make(chan error, 1)
	log := slog.New(slog.NewTextHandler(testLog{r.t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	go func() {
		r.done <- Run(ctx, o, log, Hooks{Up: func(p *Platform, _ []error) { up <- p }})
	}()
	select {
	case r.Platform = <-up:
	case err := <-r.done:
		r.t.Fatalf("the platform did not come up: %v", err)
	}
	r.t.Cleanup(r.end)
}

// end takes the platform down, once.
func (r *running) end() {
	r.stop()
	if r.done == nil {
		return
	}
	if err := <-r.done; err != nil {
		r.t.Errorf("the platform ended with: %v", err)
	}
	r.done = nil
}

// testLog writes log lines to a test that is not over.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	line := strings.TrimRight(string(b), "\n")
	l.t.Log(line[:min(len(line), 400)])
	return len(b), nil
}

// until polls a condition.
func (r *running) until(what string, cond func() (bool, any)) {
	r.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ok, last := cond()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s did not come; last: %v", what, last)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *running) server(name string) control.Server {
	for _, s := range r.Servers() {
		if s.Name == name {
			return s
		}
	}
	return control.Server{}
}

func (r *running) phase(name, want string) {
	r.t.Helper()
	r.until(name+" being "+want, func() (bool, any) {
		s := r.server(name)
		return s.Phase == want, s
	})
}

// call calls a tool with a message and returns the first text of the result.
func (r *running) call(tool, message string) (string, error) {
	args, _ := json.Marshal(map[string]string{"message": message})
	res, err := r.Call(context.Background(), control.CallRequest{Name: tool, Arguments: args, TimeoutMS: 20_000})
	if err != nil {
		return "", err
	}
	var out struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(res.Result, &out); err != nil || len(out.Content) == 0 {
		return "", fmt.Errorf("the result is %s", res.Result)
	}
	return out.Content[0].Text, nil
}

// events are the envelopes of a server in pending/, in the order of publication.
func (r *running) events(app string) []*amp.Envelope {
	r.t.Helper()
	entries, err := queue.Dir(filepath.Join(r.data, "kernel/inbox")).List(queue.Filter{}, queue.Page{Size: 100_000})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*amp.Envelope
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(r.data, "kernel/inbox/pending", e.Name))
		if err != nil {
			r.t.Fatal(err)
		}
		env, err := amp.Parse(raw)
		if err != nil {
			r.t.Fatalf("%s: %v", e.Name, err)
		}
		if env.Header.Source.App == app {
			out = append(out, env)
		}
	}
	return out
}

// has waits until a server has n events of a type, and returns them.
func (r *running) has(app, typ string, n int) []*amp.Envelope {
	r.t.Helper()
	var found []*amp.Envelope
	r.until(fmt.Sprintf("%d events %s of %s", n, typ, app), func() (bool, any) {
		found = slices.DeleteFunc(r.events(app), func(e *amp.Envelope) bool { return e.Payload.Type != typ })
		return len(found) >= n, len(found)
	})
	if len(found) != n {
		r.t.Errorf("%s has %d events %s, want %d", app, len(found), typ, n)
	}
	return found
}

func field(t *testing.T, e *amp.Envelope, name string) any {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(e.Payload.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data[name]
}

// What happens with a server that knows nothing of AMP reaches the Brain: one
// test for each row of the protocol's table of signals.

func TestAServerThatComesUpIsLifecycleStarted(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	e := r.has("s", "lifecycle.started", 1)[0]
	if e.Header.Method != amp.MethodLifecycle || e.Header.Source.Instance != "1" || field(t, e, "tools") != 2.0 {
		t.Errorf("the event is %+v %s", e.Header, e.Payload.Data)
	}
}

func TestWhatAServerSaysAtOnceComesAfterItsStart(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "aurora-valid", "")})
	r.has("s", "build.finished", 10)
	if first := r.events("s")[0]; first.Payload.Type != "lifecycle.started" {
		t.Errorf("the first event is %s", first.Payload.Type)
	}
}

func TestAServerThatTheProbeKillsHasNotBeenRestarted(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "discover-crash", "")})
	r.phase("s", "ready")
	if n := r.server("s").Restarts; n != 0 {
		t.Errorf("it shows %d restarts", n)
	}
}

func TestAServerThatIsStoppedAndOneThatCrashesAreToldApart(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", ""), "c.yaml": fake("c", "crash-third", quickRestarts)})
	r.phase("s", "ready")
	r.phase("c", "ready")
	if err := r.Act(t.Context(), "s", "stop"); err != nil {
		t.Fatal(err)
	}
	r.has("s", "lifecycle.stopping", 1)
	r.has("s", "lifecycle.stopped", 1)
	for i := range 3 {
		if _, err := r.call("c.echo", "x"); (err == nil) != (i < 2) {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
	crash := r.has("c", "lifecycle.crashed", 1)[0]
	if field(t, crash, "exit_code") != 2.0 || field(t, crash, "cause") != "exit" {
		t.Errorf("the crash is %s", crash.Payload.Data)
	}
	r.has("c", "lifecycle.restarting", 1)
	failed := r.has("c", "tool.failed", 1)[0]
	if field(t, failed, "error_code") != "server_crashed" || field(t, failed, "outcome") != "unknown" {
		t.Errorf("the call's event is %s", failed.Payload.Data)
	}
	r.phase("c", "ready")
	if got, err := r.call("c.echo", "again"); err != nil || got != "again" {
		t.Errorf("after the restart: %q, %v", got, err)
	}
}

func TestAServerThatCrashesAgainAndAgainIsGivenUpAndABystanderIsNot(t *testing.T) {
	r := launch(t, map[string]string{"bad.yaml": fake("bad", "crash-start", quickRestarts), "good.yaml": fake("good", "echo", "")})
	r.phase("bad", "failed")
	r.has("bad", "lifecycle.crashed", 4)
	r.has("bad", "lifecycle.restarting", 3)
	gone := r.has("bad", "lifecycle.permanently_failed", 1)[0]
	if !strings.Contains(gone.Payload.Summary+string(gone.Payload.Data), "configuration") {
		t.Errorf("the event does not quote stderr: %s", gone.Payload.Data)
	}
	if got, err := r.call("good.echo", "here"); err != nil || got != "here" {
		t.Errorf("the bystander: %q, %v", got, err)
	}
}

func TestAChangedListIsCapabilityChanged(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "rug-pull", ""), "r.yaml": fake("r", "resources", "")})
	r.phase("s", "ready")
	r.phase("r", "ready")
	if _, err := r.call("s.echo", "x"); err != nil {
		t.Fatal(err)
	}
	e := r.has("s", "capability.changed", 1)[0]
	if field(t, e, "list") != "tools" || fmt.Sprint(field(t, e, "changed")) != "[echo]" || fmt.Sprint(field(t, e, "added")) != "[shell]" {
		t.Errorf("the event is %s", e.Payload.Data)
	}
	if _, err := r.call("r.echo", "x"); err != nil {
		t.Fatal(err)
	}
	if e := r.has("r", "capability.changed", 1)[0]; field(t, e, "list") != "resources" {
		t.Errorf("the event is %s", e.Payload.Data)
	}
}

func TestAToolsResultIsToolCompletedAndItsFailureToolFailed(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.phase("s", "ready")
	if _, err := r.call("s.echo", "the answer"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Call(t.Context(), control.CallRequest{Name: "s.echo", Arguments: json.RawMessage(`{"message":1}`)}); err == nil {
		t.Fatal("a wrong argument was accepted")
	}
	done := r.has("s", "tool.completed", 1)[0]
	if done.Header.Method != amp.MethodToolResult || field(t, done, "preview") != "the answer" || done.Header.CorrelationID != field(t, done, "call_id") {
		t.Errorf("the event is %+v %s", done.Header, done.Payload.Data)
	}
	if failed := r.has("s", "tool.failed", 1)[0]; field(t, failed, "error_code") != fault.InvalidArguments {
		t.Errorf("the event is %s", failed.Payload.Data)
	}
}

func TestAThirdPartysNotificationIsPassedOnUnderItsMethod(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "third-party", "")})
	e := r.has("s", "mcp.notification.custom.thing", 1)[0]
	if e.Header.Method != amp.MethodNotification || field(t, e, "method") != "notifications/custom/thing" {
		t.Errorf("the event is %+v %s", e.Header, e.Payload.Data)
	}
}

func TestAppEventsArriveOnceAndInOrder(t *testing.T) {
	r := launch(t, map[string]string{"v.yaml": fake("v", "aurora-valid", ""), "d.yaml": fake("d", "aurora-dup", "")})
	for i, e := range r.has("v", "build.finished", 10) {
		if field(t, e, "n") != float64(i) {
			t.Errorf("event %d is %s", i, e.Payload.Data)
		}
	}
	r.has("d", "t", 2)
	r.until("102 duplicates and accepted", func() (bool, any) {
		ev := r.Status().Events
		return ev.Duplicate == 100, ev
	})
}

func TestMalformedEventsAreKeptAndAnnouncedAndTheNextOneArrives(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "aurora-malformed", "")})
	var good int
	r.until("the good event", func() (bool, any) {
		good = 0
		for _, e := range r.events("s") {
			if e.Payload.Type == "t" {
				good++
			}
		}
		return good > 0 && r.Status().Events.Waiting == 0, good
	})
	ev := r.Status().Events
	kept, err := filepath.Glob(filepath.Join(r.data, "kernel/inbox/rejected/*"))
	if err != nil {
		t.Fatal(err)
	}
	if ev.Rejected < 10 || int64(len(kept)) < ev.Rejected {
		t.Errorf("%d were rejected, %d are kept", ev.Rejected, len(kept))
	}
	r.has("s", "mcp.error", int(ev.Rejected))
}

func TestAHugeEventBecomesAPreviewAndTheNextOneIsAsSent(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "aurora-huge", "")})
	events := r.has("s", "t", 2)
	if field(t, events[0], "truncated") != true || field(t, events[0], "artifact") == nil || len(events[0].Payload.Data) > 10_000 {
		t.Errorf("the large event is %.300s", events[0].Payload.Data)
	}
	if string(events[1].Payload.Data) != `{"blob":"h"}` {
		t.Errorf("the small event is %s", events[1].Payload.Data)
	}
}

func TestABurstOfEventsArrivesWholeAndInOrderWhileOthersAreQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("30,000 files")
	}
	r := launch(t, map[string]string{"s.yaml": fake("s", "aurora-burst", ""), "good.yaml": fake("good", "echo", "")})
	r.phase("good", "ready")
	var wg sync.WaitGroup
	var calls atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		pace := time.NewTicker(5 * time.Millisecond) // so that its own events do not outnumber the burst
		defer pace.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-pace.C
			if got, err := r.call("good.echo", "still here"); err != nil || got != "still here" {
				t.Errorf("call %d beside the burst: %q, %v", i, got, err)
				return
			}
			calls.Add(1)
		}
	})
	r.until("30,000 events", func() (bool, any) {
		// Beside the burst there are two starts, and of each call six records.
		n := r.Status().Events.Accepted - 2 - 6*calls.Load()
		return n >= 30_000, n
	})
	cancel()
	wg.Wait()
	r.until("their files", func() (bool, any) { n := r.busCounts().Backlog; return n == 0, n })
	r.end()
	events := slices.DeleteFunc(r.events("s"), func(e *amp.Envelope) bool { return e.Payload.Type != "tick" })
	if len(events) != 30_000 {
		t.Fatalf("%d events arrived", len(events))
	}
	for i, e := range events {
		if field(t, e, "n") != float64(i) {
			t.Fatalf("event %d is %s", i, e.Payload.Data)
		}
	}
}

// A Brain asks for calls with files.

func (r *running) ask(name, content string) {
	r.t.Helper()
	dir := filepath.Join(r.data, "kernel/outbox/pending")
	if err := os.WriteFile(filepath.Join(dir, "."+name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "."+name), filepath.Join(dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

func TestARequestFileIsAnsweredOnceWithItsWholeResult(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.phase("s", "ready")
	r.ask("call_req-1.json", `{"name":"s.echo","arguments":{"message":"by file"}}`)
	e := r.has("s", "tool.completed", 1)[0]
	if e.Header.CorrelationID != "req-1" || !strings.Contains(fmt.Sprint(field(t, e, "result")), "by file") {
		t.Errorf("the answer is %+v %s", e.Header, e.Payload.Data)
	}
	done := filepath.Join(r.data, "kernel/outbox/done/call_req-1.json")
	r.until("the request in done/", func() (bool, any) { _, err := os.Stat(done); return err == nil, err })

	r.ask("call_req-1.json", `{"name":"s.echo","arguments":{"message":"again"}}`)
	r.ask("call_req-2.json", `{"name":"s.echo","arguments":`)
	r.ask("call_req-3.json", `{"name":"s.echo","arguments":{},"urgent":true}`)
	r.ask("call_req-4.json", `{"arguments":{}}`)
	r.ask("hello.json", `{}`)
	r.has(bridge.PlatformApp, "mcp.error", 5)
	for _, name := range []string{"call_req-1.json", "call_req-2.json", "call_req-3.json", "call_req-4.json", "hello.json"} {
		reason, err := os.ReadFile(filepath.Join(r.data, "kernel/outbox/failed", name+".reason"))
		if err != nil || len(reason) < 10 {
			t.Errorf("%s: the reason is %q, %v", name, reason, err)
		}
	}
	r.ask("call_req-5.json", `{"name":"s.nothing"}`)
	if e := r.has(bridge.PlatformApp, "tool.failed", 1)[0]; e.Header.CorrelationID != "req-5" || field(t, e, "error_code") != fault.ToolNotFound {
		t.Errorf("the answer is %+v %s", e.Header, e.Payload.Data)
	}
	r.has("s", "tool.completed", 1)
}

func TestARequestThatWasUnderWayIsAnsweredAsUnknownAndNotRunAgain(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.phase("s", "ready")
	r.end()
	// As a platform leaves it that was killed in mid-call.
	if err := os.WriteFile(filepath.Join(r.data, "kernel/outbox/processing/call_lost.json"), []byte(`{"name":"s.echo"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	e := r.has(bridge.PlatformApp, "tool.failed", 1)[0]
	if e.Header.CorrelationID != "lost" || field(t, e, "outcome") != "unknown" {
		t.Errorf("the answer is %+v %s", e.Header, e.Payload.Data)
	}
	r.end()
	r.start()
	r.phase("s", "ready")
	r.has(bridge.PlatformApp, "tool.failed", 1)
	r.has("s", "tool.completed", 0)
}

// asking is a policy under which a person is asked about every call.
const asking = "unlisted: {unknown: high}\nreview: {first: {unknown: pin}}\n"

// pending is the only question that is open.
func (r *running) pending() (a approval.Approval) {
	r.t.Helper()
	r.until("a question", func() (bool, any) {
		list, err := r.Approvals(context.Background(), approval.Pending)
		if len(list) == 1 {
			a = list[0]
		}
		return len(list) == 1, err
	})
	return a
}

func TestARequestThatWaitsForAPersonGoesOnOverARestart(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	if err := os.WriteFile(r.policy, []byte(asking), 0o600); err != nil {
		t.Fatal(err)
	}
	r.end()
	r.start()
	r.phase("s", "ready")
	r.ask("call_w1.json", `{"name":"s.echo","arguments":{"message":"at last"},"wait":true}`)
	question := r.pending()
	waiting := filepath.Join(r.data, "kernel/outbox/waiting/call_w1.json")
	if _, err := os.Stat(waiting); err != nil {
		t.Error(err)
	}
	r.end()
	if _, err := os.Stat(waiting); err != nil {
		t.Errorf("the request did not stay: %v", err)
	}
	r.start() // the request is older than the platform, and than its server
	if again := r.pending(); again.ID != question.ID {
		t.Errorf("another question was asked: %s after %s", again.ID, question.ID)
	}
	r.has("s", "tool.failed", 0)
	if _, err := r.Approve(t.Context(), question.ID, approval.Once, "Ada"); err != nil {
		t.Fatal(err)
	}
	e := r.has("s", "tool.completed", 1)[0]
	if e.Header.CorrelationID != "w1" || !strings.Contains(fmt.Sprint(field(t, e, "result")), "at last") {
		t.Errorf("the answer is %+v %s", e.Header, e.Payload.Data)
	}
	done := filepath.Join(r.data, "kernel/outbox/done/call_w1.json")
	r.until("the request in done/", func() (bool, any) { _, err := os.Stat(done); return err == nil, err })

	r.ask("call_w2.json", `{"name":"s.echo","arguments":{"message":"no"},"wait":true}`)
	if _, err := r.Deny(t.Context(), r.pending().ID, "Ada", "not today"); err != nil {
		t.Fatal(err)
	}
	if e := r.has("s", "tool.failed", 1)[0]; field(t, e, "error_code") != fault.Denied {
		t.Errorf("the answer is %s", e.Payload.Data)
	}

	// Without wait, or when its time is up, a request ends with the question's
	// handle, which another request may name.
	r.ask("call_w3.json", `{"name":"s.echo","arguments":{"message":"later"},"wait":true,"timeout_ms":50}`)
	if e := r.has("s", "tool.failed", 2)[1]; field(t, e, "error_code") != fault.ApprovalRequired {
		t.Errorf("the answer is %s", e.Payload.Data)
	}
	handle := r.pending().ID
	if _, err := r.Approve(t.Context(), handle, approval.Once, "Ada"); err != nil {
		t.Fatal(err)
	}
	r.ask("call_w4.json", `{"name":"s.echo","arguments":{"message":"later"},"approval":"`+handle+`"}`)
	r.has("s", "tool.completed", 2)
}

// As a platform leaves it that was killed while a person was asked.
func TestARequestThatWaitedWhenThePlatformDiedAsksAgain(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	if err := os.WriteFile(r.policy, []byte(asking), 0o600); err != nil {
		t.Fatal(err)
	}
	r.end()
	if err := os.WriteFile(filepath.Join(r.data, "kernel/outbox/waiting/call_lost.json"), []byte(`{"name":"s.echo","wait":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	if _, err := r.Approve(t.Context(), r.pending().ID, approval.Once, "Ada"); err != nil {
		t.Fatal(err)
	}
	if e := r.has("s", "tool.completed", 1)[0]; e.Header.CorrelationID != "lost" {
		t.Errorf("the answer is %+v", e.Header)
	}
}

func TestARequestThatIsOlderThanThePlatformIsCarriedOut(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.end()
	r.ask("call_early.json", `{"name":"s.echo","arguments":{"message":"early"}}`)
	r.ask("call_lost.json", `{"name":"nobody.echo"}`)
	r.start()
	r.has("s", "tool.completed", 1)
	if e := r.has(bridge.PlatformApp, "tool.failed", 1)[0]; field(t, e, "error_code") != fault.ToolNotFound {
		t.Errorf("the answer is %s", e.Payload.Data)
	}
}

func TestAFurtherRequestWithAKeyIsAnsweredAndNotRun(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.phase("s", "ready")
	r.ask("call_k1.json", `{"name":"s.echo","arguments":{"message":"once"},"idempotency_key":"k"}`)
	r.has("s", "tool.completed", 1)
	r.ask("call_k2.json", `{"name":"s.echo","arguments":{"message":"once"},"idempotency_key":"k","provenance":["k1"]}`)
	e := r.has("s", "tool.completed", 2)[1]
	if e.Header.CorrelationID != "k2" || field(t, e, "replayed") != true {
		t.Errorf("the answer is %+v %s", e.Header, e.Payload.Data)
	}
}

func TestAFailureThatIsToldAgainForItsKeySaysSo(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "error-call", "")})
	r.phase("s", "ready")
	a := r.api()
	for _, want := range []bool{false, true} {
		var p control.Problem
		a.ask(502, "POST", "/v1/calls", `{"name":"s.echo","arguments":{"message":"x"},"idempotency_key":"k"}`, &p)
		if p.Code != fault.Protocol || p.Replayed != want {
			t.Errorf("the problem is %+v, want replayed %v", p, want)
		}
	}
	for i, e := range r.has("s", "tool.failed", 2) {
		if got := field(t, e, "replayed"); (got == true) != (i == 1) {
			t.Errorf("event %d says %v", i, got)
		}
	}
}

// Manifests change while the platform runs.

func TestManifestsComeAndGoWithoutTouchingOtherServers(t *testing.T) {
	r := launch(t, map[string]string{"a.yaml": fake("a", "echo", ""), "b.yaml": fake("b", "echo", "")})
	r.phase("a", "ready")
	r.phase("b", "ready")
	pid := r.server("a").PID

	r.write("c.yaml", fake("c", "echo", ""))
	r.phase("c", "ready")
	r.write("b.yaml", fake("b", "echo", "")+"disabled: true\n")
	r.phase("b", "disabled")
	if _, err := r.call("b.echo", "x"); err == nil {
		t.Error("a tool of a disabled server can be called")
	}
	if err := os.Remove(filepath.Join(r.dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	r.phase("c", "")
	r.write("a.yaml", "package: a\ntype: mcp-server\nmcp: {comand: [x]}\n")
	r.until("the fault of a bad edit", func() (bool, any) { return len(r.Faults()) > 0, r.Faults() })
	if s := r.server("a"); s.Phase != "ready" || s.PID != pid {
		t.Errorf("a bad edit touched the running server: %+v", s)
	}
	r.write("a.yaml", fake("a", "echo", ""))
	r.until("the faults' end", func() (bool, any) { return len(r.Faults()) == 0, r.Faults() })
	if s := r.server("a"); s.PID != pid {
		t.Errorf("a mended manifest restarted the server: %+v", s)
	}
}

func TestTheLogOfAServerThatWasRemovedCanStillBeRead(t *testing.T) {
	r := launch(t, map[string]string{"gone.yaml": fake("com.Example.gone", "crash-start", quickRestarts)})
	r.phase("com.Example.gone", "failed")
	if err := os.Remove(filepath.Join(r.dir, "gone.yaml")); err != nil {
		t.Fatal(err)
	}
	r.phase("com.Example.gone", "")
	read := func(name string) (text string, err error) {
		err = r.Logs(t.Context(), name, 10, false, func(lines []string) error { text += strings.Join(lines, "\n"); return nil })
		return text, err
	}
	if text, err := read("com.Example.gone"); err != nil || !strings.Contains(text, "the configuration is missing") {
		t.Errorf("its log is %q, %v", text, err)
	}
	for _, name := range []string{"nobody", "../state/token", "..", "", "_guard"} {
		var f *fault.Error
		if text, err := read(name); !errors.As(err, &f) || f.Code != control.ServerNotFound {
			t.Errorf("the log of %q is %q, %v", name, text, err)
		}
	}
}

func TestASecondPlatformOnTheSameFolderIsRefused(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	o := settings.Defaults()
	o.Data, o.Manifests = r.data, []string{r.dir}
	err := Run(t.Context(), o, slog.New(slog.DiscardHandler), Hooks{})
	var running *settings.RunningError
	if !errors.As(err, &running) || running.PID != fmt.Sprint(os.Getpid()) {
		t.Errorf("got %v", err)
	}
}

func TestAppEventsAreNotRepeatedAfterARestartOfThePlatform(t *testing.T) {
	r := launch(t, map[string]string{"v.yaml": fake("v", "aurora-valid", "")})
	r.has("v", "build.finished", 10)
	r.end()
	// The Brain takes what is there.
	pending := filepath.Join(r.data, "kernel/inbox/pending")
	files, err := filepath.Glob(filepath.Join(pending, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	r.until("ten duplicates", func() (bool, any) {
		ev := r.Status().Events
		return ev.Duplicate == 10, ev
	})
	r.has("v", "build.finished", 0)
}

// What the policy does, through the daemon.

func TestAnUnknownServersToolWaitsForApprovalAlsoOverARestart(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.end()
	r.policy = "" // the built-in rules
	r.start()
	r.phase("s", "ready")
	_, err := r.call("s.echo", "may I")
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.ApprovalRequired {
		t.Fatalf("got %v", err)
	}
	asked := r.has("s", "permission.requested", 1)[0]
	id, _ := field(t, asked, "approval").(string)
	r.end()
	r.start()
	r.phase("s", "ready")
	if _, err := r.Approve(t.Context(), id, approval.Once, "Ada"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.call("s.echo", "may I"); err != nil || got != "may I" {
		t.Errorf("after the approval: %q, %v", got, err)
	}
	if _, err := r.call("s.echo", "something else"); !errors.As(err, &f) || f.Code != fault.ApprovalRequired {
		t.Errorf("an approval was good for other arguments: %v", err)
	}
}

func TestACallOfWhoMayApproveItLeavesNothingButItsEndInTheInbox(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.end()
	r.policy = ""
	r.start()
	r.phase("s", "ready")
	a := r.api()
	var res control.CallResponse
	a.ask(200, "POST", "/v1/calls", `{"name":"s.echo","arguments":{"message":"typed"},"approved_by":"Ada"}`, &res)
	r.has("s", "tool.completed", 1)
	for _, e := range r.events("s") {
		if e.Payload.Type == "permission.requested" || e.Payload.Type == "tool.failed" {
			t.Errorf("left is %s: %s", e.Payload.Type, e.Payload.Data)
		}
	}
	used, err := r.Approvals(t.Context())
	if err != nil || len(used) != 1 || used[0].State != approval.Used || used[0].Actor != "Ada" || used[0].CallID != res.CallID {
		t.Errorf("kept is %+v, %v", used, err)
	}
	a.ask(403, "POST", "/v1/calls", `{"name":"s.echo","arguments":{"message":"typed"}}`, nil)
}

func TestAToolOfAStoppedServerSaysSoAndIsNotUnknown(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", ""), "t.yaml": fake("t", "echo", "")})
	r.phase("s", "ready")
	r.phase("t", "ready")
	if _, err := r.call("s.echo", "x"); err != nil {
		t.Fatal(err)
	}
	if err := r.Act(t.Context(), "s", "stop"); err != nil {
		t.Fatal(err)
	}
	_, err := r.call("s.echo", "x")
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.ServerStopped || len(f.Candidates) > 0 {
		t.Errorf("got %v", err)
	}
}

func TestAServerAtAnOpenURLIsAFaultAndNotForgotten(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", ""), "far.yaml": "package: far\ntype: mcp-server\nmcp: {url: \"http://192.0.2.1/mcp\"}\n"})
	if len(r.Faults()) != 1 || !strings.Contains(r.Faults()[0].Error(), "needs https") {
		t.Errorf("the faults are %v", r.Faults())
	}
	o := settings.Defaults()
	o.Data, o.Manifests = r.data, []string{r.dir}
	res, err := check.Run(t.Context(), o, false, slog.New(slog.DiscardHandler))
	if err != nil || res.OK() || len(res.Faults) != 1 {
		t.Errorf("check says %+v, %v", res, err)
	}
}

func TestManifestsThatCannotBeReadForAMomentStopNothing(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.phase("s", "ready")
	pid := r.server("s").PID
	if err := os.Rename(r.dir, r.dir+".away"); err != nil {
		t.Fatal(err)
	}
	r.until("the fault", func() (bool, any) { return len(r.Faults()) > 0, r.Faults() })
	if err := os.Rename(r.dir+".away", r.dir); err != nil {
		t.Fatal(err)
	}
	r.until("no fault", func() (bool, any) { return len(r.Faults()) == 0, r.Faults() })
	if s := r.server("s"); s.PID != pid {
		t.Errorf("the server is %+v", s)
	}
}

func TestAChangedPolicyFileTakesEffectAndAFaultyOneIsSaid(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.phase("s", "ready")
	change := func(text string) {
		if err := os.WriteFile(r.policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("risk: {s.echo: critical}\n")
	r.until("a refusal", func() (bool, any) {
		_, err := r.call("s.echo", "x")
		var f *fault.Error
		return errors.As(err, &f) && f.Code == fault.Denied, err
	})
	change("risk: {s.echo: harmless}\n")
	r.until("the fault in the state", func() (bool, any) {
		problems := r.Status().Problems
		return strings.Contains(strings.Join(problems, " "), "harmless"), problems
	})
	if _, err := r.call("s.echo", "x"); err == nil {
		t.Error("a faulty policy let a denied call through")
	}
	if err := os.Remove(r.policy); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(r.policy, 0o600); err != nil {
		t.Fatal(err)
	}
	r.until("the pipe in the state", func() (bool, any) {
		problems := r.Status().Problems
		return strings.Contains(strings.Join(problems, " "), "no regular file"), problems
	})
	if err := os.Remove(r.policy); err != nil {
		t.Fatal(err)
	}
	change(trusting)
	r.until("the call's success", func() (bool, any) { _, err := r.call("s.echo", "x"); return err == nil, err })
}

func TestAServerThatIsTrustedOnlyLaterIsApprovedThenAsAtFirstSight(t *testing.T) {
	r := &running{t: t, data: filepath.Join(t.TempDir(), "data"), dir: t.TempDir(), policy: filepath.Join(t.TempDir(), "policy.yaml")}
	r.write("s.yaml", fake("s", "echo", ""))
	change := func(text string) {
		t.Helper()
		if err := os.WriteFile(r.policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("{}\n")
	r.start()
	r.phase("s", "ready")
	var f *fault.Error
	if _, err := r.call("s.echo", "x"); !errors.As(err, &f) || f.Code != fault.ApprovalRequired {
		t.Fatalf("a stranger's tool gives %v", err)
	}
	change("trust: {s: internal}\n")
	r.until("the call's success", func() (bool, any) { _, err := r.call("s.echo", "x"); return err == nil, err })
}

func TestAResourceThatIsReadIsResourceObserved(t *testing.T) {
	r := launch(t, map[string]string{"s.yaml": fake("s", "resources", "")})
	r.phase("s", "ready")
	res, err := r.offers.ReadResource(t.Context(), offers.Read{Server: "s", URI: "note:///one"})
	if err != nil || !strings.Contains(string(res.Raw), "the content of note:///one") {
		t.Fatalf("%+v, %v", res, err)
	}
	e := r.has("s", "resource.observed", 1)[0]
	hash, _ := field(t, e, "sha256").(string)
	if e.Header.Method != amp.MethodResource || field(t, e, "uri") != "note:///one" || field(t, e, "size") != float64(len(res.Raw)) || len(hash) != 64 {
		t.Errorf("the event is %+v %s", e.Header, e.Payload.Data)
	}
	if _, err := r.offers.ReadResource(t.Context(), offers.Read{Server: "nobody", URI: "note:///one"}); err == nil {
		t.Error("a server that is not there was read")
	}
	r.has("s", "resource.observed", 1)
}
