package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/egress"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestMain(m *testing.M) {
	fakeserver.RunIfAsked()
	goleak.VerifyTestMain(m)
}

// recorder keeps the steps of calls.
type recorder struct {
	mu    sync.Mutex
	steps []signal.Signal
	hooks map[signal.Kind]func(signal.Signal)
}

// on calls do with the next step of that kind.
func (r *recorder) on(kind signal.Kind, do func(signal.Signal)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks = map[signal.Kind]func(signal.Signal){kind: do}
}

func (r *recorder) Observe(_ context.Context, s signal.Signal) error {
	for s := range s.All() {
		if _, ok := s.Data.(*signal.Step); !ok {
			continue
		}
		r.mu.Lock()
		r.steps = append(r.steps, s)
		do := r.hooks[s.Kind]
		delete(r.hooks, s.Kind)
		r.mu.Unlock()
		if do != nil {
			do(s)
		}
	}
	return nil
}

// kinds are the steps so far, and forgets them.
func (r *recorder) kinds() []signal.Kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []signal.Kind
	for _, s := range r.steps {
		out = append(out, s.Kind)
	}
	r.steps = nil
	return out
}

func (r *recorder) last() *signal.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[len(r.steps)-1].Data.(*signal.Step)
}

// serve starts fake servers, by name and mode, and returns a manager of their sessions.
func serve(t testing.TB, sink signal.Sink, servers map[string]string) *client.Manager {
	t.Helper()
	m, err := client.New(client.Options{Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for name, mode := range servers {
		stdin, stdout := fakeserver.Start(t, mode)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := m.Connect(ctx, session.Conn{Server: name, Stdin: stdin, Stdout: stdout}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

var chain = []signal.Kind{
	signal.PermissionRequested, signal.PermissionResolved, signal.CallStarted, signal.ToolStarted,
	signal.CallCompleted, signal.ToolCompleted,
}

var failedChain = append(slices.Clone(chain[:4]), signal.CallFailed, signal.ToolFailed)

func TestACallLeavesItsWholeChainInOrderUnderOneID(t *testing.T) {
	rec := &recorder{}
	h := host.New(host.Options{Client: serve(t, rec, map[string]string{"plain": "echo"}), Sink: rec})
	res, err := h.Call(t.Context(), host.Call{Name: "plain.echo", Arguments: json.RawMessage(`{"message":"hello"}`), Entrance: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(res.Raw), `"hello"`) || res.IsError {
		t.Errorf("the result is %s", res.Raw)
	}
	for _, s := range rec.steps {
		if step := s.Data.(*signal.Step); s.CallID != res.CallID || step.CallID != res.CallID || s.Server != "plain" || step.Entrance != "test" {
			t.Errorf("%s is of call %q, server %q", s.Kind, s.CallID, s.Server)
		}
	}
	if last := rec.last(); last.Preview != "hello" || last.Size != int64(len(res.Raw)) {
		t.Errorf("the last step is %+v", last)
	}
	if diff := cmp.Diff(chain, rec.kinds()); diff != "" {
		t.Error(diff)
	}
}

func TestTheStepsOfACallAreOneRecordUnlessItLasts(t *testing.T) {
	records := make(chan []signal.Kind, 10)
	sink := signal.SinkFunc(func(_ context.Context, s signal.Signal) error {
		if _, ok := s.Data.(*signal.Step); ok {
			var kinds []signal.Kind
			for s := range s.All() {
				kinds = append(kinds, s.Kind)
			}
			records <- kinds
		}
		return nil
	})
	h := host.New(host.Options{Client: serve(t, &recorder{}, map[string]string{"quick": "echo", "hangs": "hang-call"}), Sink: sink})
	if _, err := h.Call(t.Context(), host.Call{Name: "quick.echo", Arguments: json.RawMessage(`{"message":"hello"}`)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(chain, <-records); diff != "" {
		t.Errorf("a quick call's record: %s", diff)
	}

	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := h.Call(ctx, host.Call{Name: "hangs.echo", Arguments: json.RawMessage(`{"message":"hello"}`)})
		ended <- err
	}()
	if diff := cmp.Diff(chain[:4], <-records); diff != "" { // comes while the call hangs
		t.Errorf("the beginning of a call that lasts: %s", diff)
	}
	hangUp()
	if err := <-ended; err == nil {
		t.Error("a call that was given up has a result")
	}
	if diff := cmp.Diff([]signal.Kind{signal.CallFailed, signal.ToolFailed}, <-records); diff != "" {
		t.Errorf("its end: %s", diff)
	}
}

func TestACallThatIsRefusedIsNeverSent(t *testing.T) {
	rec := &recorder{}
	h := host.New(host.Options{Client: serve(t, rec, map[string]string{"a": "echo", "b": "echo"}), Sink: rec})
	for _, c := range []struct {
		name, args, code string
		steps            []signal.Kind
	}{
		{"a.none", `{}`, fault.ToolNotFound, []signal.Kind{signal.ToolFailed}},
		{"echo", `{}`, fault.AmbiguousCall, []signal.Kind{signal.AmbiguousCall}},
		{"a.echo", `{"message":7}`, fault.InvalidArguments, []signal.Kind{signal.ToolFailed}},
		{"a.echo", `[1]`, fault.InvalidArguments, []signal.Kind{signal.ToolFailed}},
		{"a.echo", `{"message":`, fault.InvalidArguments, []signal.Kind{signal.ToolFailed}},
		{"a.echo", "{\"message\":\"\xff\xfe\"}", fault.InvalidArguments, []signal.Kind{signal.ToolFailed}},
	} {
		_, err := h.Call(t.Context(), host.Call{Name: c.name, Arguments: json.RawMessage(c.args)})
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != c.code {
			t.Errorf("%s(%s): %v, want %s", c.name, c.args, err, c.code)
		}
		if diff := cmp.Diff(c.steps, rec.kinds()); diff != "" {
			t.Errorf("%s(%s): %s", c.name, c.args, diff)
		}
	}
	_, err := h.Call(t.Context(), host.Call{Name: "a.echo", Arguments: json.RawMessage(`{"message":7}`)})
	if !strings.Contains(err.Error(), "/message") || !strings.Contains(err.Error(), "string") {
		t.Errorf("the error names neither field nor type: %v", err)
	}
}

func TestACrashInMidCallIsAFailureWithUnknownOutcome(t *testing.T) {
	rec := &recorder{}
	h := host.New(host.Options{Client: serve(t, rec, map[string]string{"s": "crash-third"}), Sink: rec})
	var err error
	for range 3 {
		if err != nil {
			t.Fatal(err)
		}
		rec.kinds()
		_, err = h.Call(t.Context(), host.Call{Name: "s.echo"})
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.ServerCrashed || f.Outcome != fault.OutcomeUnknown {
		t.Fatalf("the third call: %v", err)
	}
	if step := rec.last(); step.Reason == "" || step.Outcome != "unknown" {
		t.Errorf("the last step is %+v", step)
	}
	if diff := cmp.Diff(failedChain, rec.kinds()); diff != "" {
		t.Error(diff)
	}
}

type shelf struct{ sizes []int }

func (s *shelf) Put(_ context.Context, data []byte, _ string) (any, error) {
	s.sizes = append(s.sizes, len(data))
	return map[string]any{"size": len(data)}, nil
}

func TestALargeResultIsKeptWholeAndPreviewed(t *testing.T) {
	rec, shelf := &recorder{}, &shelf{}
	h := host.New(host.Options{Client: serve(t, rec, map[string]string{"s": "echo"}), Sink: rec, Store: shelf, MaxResult: 1000, MaxPreview: 50})
	text := strings.Repeat("é", 5000)
	args, _ := json.Marshal(map[string]string{"message": text})
	res, err := h.Call(t.Context(), host.Call{Name: "s.echo", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	step := rec.last()
	if len(shelf.sizes) != 1 || shelf.sizes[0] != len(res.Raw) || res.Artifact == nil || step.Artifact == nil {
		t.Errorf("kept %v of %d bytes", shelf.sizes, len(res.Raw))
	}
	if len(step.Preview) > 60 || !strings.HasPrefix(text, strings.TrimSuffix(step.Preview, "…")) {
		t.Errorf("the preview is %q", step.Preview)
	}
}

// brokenShelf is a store that cannot write.
type brokenShelf struct{}

func (brokenShelf) Put(context.Context, []byte, string) (any, error) { return nil, syscall.ENOSPC }

func TestALargeResultThatTheStoreCannotKeepIsInTheAnswerItself(t *testing.T) {
	rec := &recorder{}
	h := host.New(host.Options{Client: serve(t, rec, map[string]string{"s": "echo"}), Sink: rec, Store: brokenShelf{}, MaxResult: 1000})
	args, _ := json.Marshal(map[string]string{"message": strings.Repeat("x", 5000)})
	res, err := h.Call(t.Context(), host.Call{Name: "s.echo", Arguments: args, Answer: &host.Answer{ID: "answer-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if step := rec.last(); step.Artifact != nil || len(res.Raw) < 5000 || !bytes.Equal(step.Result, res.Raw) {
		t.Errorf("of %d bytes the event has %d, and the artifact %s", len(res.Raw), len(step.Result), step.Artifact)
	}
}

func TestNumbersAndUnknownMembersReachTheCallerAsTheyWereSent(t *testing.T) {
	rec := &recorder{}
	m := serve(t, rec, map[string]string{"s": "exact"})
	direct, err := m.Call(t.Context(), features.CallRequest{Server: "s", Tool: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	h := host.New(host.Options{Client: m, Sink: rec})
	res, err := h.Call(t.Context(), host.Call{Name: "s.echo"})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(res.Raw, direct.Raw) || !strings.Contains(string(res.Raw), "9007199254740993") {
		t.Errorf("got  %s\nsent %s", res.Raw, direct.Raw)
	}
}

func TestASchemaThatCannotBeCompiledDisablesOnlyItsCheck(t *testing.T) {
	var log bytes.Buffer
	rec := &recorder{}
	h := host.New(host.Options{
		Client: serve(t, rec, map[string]string{"s": "null-schema", "deep": "deep-schema"}), Sink: rec,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	called := 0
	for _, tool := range h.Table().Tools() {
		_, err := h.Call(t.Context(), host.Call{Name: h.Table().ExportName(tool.ID()), Arguments: json.RawMessage(`{"message":"x"}`)})
		if err != nil && tool.Source.OriginalName != "array" { // its schema wants an array: no object fits
			t.Errorf("%s: %v", tool.Name, err)
		}
		called++
	}
	if called < 6 {
		t.Errorf("only %d tools are there", called)
	}
	if !strings.Contains(log.String(), "deep") {
		t.Errorf("the log does not say which schema is not checked: %s", log.String())
	}
}

func TestAToolOfAServerThatIsDownIsNotUnknown(t *testing.T) {
	rec := &recorder{}
	m := serve(t, rec, map[string]string{"s": "echo", "other": "echo"})
	down := fault.New(fault.ServerNotReady, "server s is being restarted").Retry()
	h := host.New(host.Options{Client: m, Sink: rec, Down: func(server string) *fault.Error {
		if server == "s" {
			return down
		}
		return nil
	}})
	if _, err := h.Call(t.Context(), host.Call{Name: "s.echo"}); err != nil {
		t.Fatal(err)
	}
	m.Session("s").Close(fault.New(fault.ServerStopped, "stopped"))
	m.Session("other").Close(fault.New(fault.ServerStopped, "stopped"))
	if _, err := h.Call(t.Context(), host.Call{Name: "mcp__s__echo"}); !errors.Is(err, down) {
		t.Errorf("a tool of a server that is down: %v", err)
	}
	var f *fault.Error
	if _, err := h.Call(t.Context(), host.Call{Name: "other.echo"}); !errors.As(err, &f) || f.Code != fault.ToolNotFound {
		t.Errorf("a tool of a server that is gone: %v", err)
	}
}

func TestWhatIsPoisonedIsDataAndFlaggedForTheRecord(t *testing.T) {
	rec := &recorder{}
	redactor := redact.New(nil)
	h := host.New(host.Options{Client: serve(t, rec, map[string]string{"s": "poison"}), Sink: rec, Redact: func(raw []byte) ([]byte, []string) {
		out, hits := redactor.JSON(raw)
		return out, hits.Rules()
	}})
	for tool, want := range map[string]string{"s.injection": "", "s.unicode": "hidden_characters", "s.secrets": "secret_", "s.ansi": "hidden_characters"} {
		res, err := h.Call(t.Context(), host.Call{Name: tool})
		if err != nil {
			t.Fatal(err)
		}
		step := rec.last()
		if len(step.Flags) == 0 || !strings.Contains(strings.Join(step.Flags, " "), want) {
			t.Errorf("%s is flagged %q", tool, step.Flags)
		}
		if strings.ContainsAny(step.Preview, "\u202e\u200b\x1b") || strings.Contains(string(res.Raw), "hunter2") || strings.Contains(step.Preview, "hunter2") {
			t.Errorf("%s: the preview is %q", tool, step.Preview)
		}
	}
}

func TestACallThatCannotBeRecordedIsRefusedAndNothingIsSent(t *testing.T) {
	rec := &recorder{}
	m := serve(t, rec, map[string]string{"s": "echo"})
	full := errors.New("768 events wait: the disk is full")
	h := host.New(host.Options{Client: m, Sink: rec, Room: func(server string) error {
		if server != "s" {
			t.Errorf("asked for room of %q", server)
		}
		return full
	}})
	call := host.Call{Name: "s.echo", Arguments: json.RawMessage(`{"message":"hi"}`)}
	_, err := h.Call(t.Context(), call)
	if f := fault.From(err); f.Code != fault.NotRecorded || !f.Retryable || f.Outcome == fault.OutcomeUnknown || !strings.Contains(f.Message, "the disk is full") {
		t.Errorf("got %v", err)
	}
	if kinds := rec.kinds(); len(kinds) > 0 {
		t.Errorf("recorded %v", kinds)
	}
	// One that is answered by its record runs, and its end is recorded when there is room.
	call.Answer = &host.Answer{ID: "answer"}
	if _, err := h.Call(t.Context(), call); err != nil {
		t.Error(err)
	}
	full = nil
	call.Answer = nil
	if _, err := h.Call(t.Context(), call); err != nil {
		t.Error(err)
	}
}

// stuck is a sink that takes nothing until it is open.
type stuck struct {
	recorder
	open chan struct{}
}

func (s *stuck) Observe(ctx context.Context, sig signal.Signal) error {
	select {
	case <-s.open:
		return s.recorder.Observe(ctx, sig)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestTheEndOfACallThatIsAnsweredByItsRecordWaitsForRoomAsLongAsItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &stuck{open: make(chan struct{})}
		f := egress.Filter{Sink: sink, Logger: slog.New(slog.DiscardHandler)}
		ctx, leave := context.WithCancel(t.Context())
		record := func(id string) (took time.Duration) {
			begun := time.Now()
			f.Record(ctx, signal.Signal{Kind: signal.ToolCompleted, ID: id, Data: &signal.Step{}})
			return time.Since(begun)
		}
		if took := record(""); took != 5*time.Second {
			t.Errorf("the end of another call waited %v", took)
		}
		time.AfterFunc(time.Hour, func() { sink.open <- struct{}{} })
		if took := record("answer"); took != time.Hour || len(sink.kinds()) != 1 {
			t.Errorf("waited %v, recorded %v", took, sink.kinds())
		}
		time.AfterFunc(time.Minute, leave)
		if took := record("answer"); took != time.Minute+5*time.Second {
			t.Errorf("when the caller left it waited %v", took)
		}
	})
}
