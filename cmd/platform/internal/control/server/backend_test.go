package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/apitest"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/stream"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// backend answers from memory. Its tool "hold" answers when it is told to.
type backend struct {
	mu      sync.Mutex
	journal []*stream.Event
	first   uint64 // position of journal[0]
	grown   chan struct{}
	broken  error // what reading the journal ends with
	mute    bool  // it never says that nothing came

	held    chan string // ids of calls of hold that have begun
	release chan struct{}
	lines   chan []string // of a followed log
	seen    chan control.CallRequest

	inputs    []signal.Input
	answers   chan string
	traces    chan signal.Trace
	changes   chan struct{}
	unwatched chan struct{}
}

func newBackend() *backend {
	return &backend{
		first: 1, grown: make(chan struct{}), held: make(chan string, 100), release: make(chan struct{}),
		lines: make(chan []string), seen: make(chan control.CallRequest, 100),
		answers: make(chan string, 10), traces: make(chan signal.Trace, 10), changes: make(chan struct{}), unwatched: make(chan struct{}),
	}
}

func (b *backend) Version() control.Version {
	return control.Version{Version: "1", Go: "go", Protocols: []string{"2025-11-25"}}
}
func (b *backend) Status() control.Status {
	return control.Status{Version: b.Version(), PID: 1, State: "ok", StartedAt: time.Now()}
}
func (b *backend) Servers() []control.Server {
	return []control.Server{{Name: "s", Alias: "a", Phase: "ready"}}
}

// Gateway answers each line with the line, in capitals.
func (b *backend) Gateway(_ context.Context, server string) (func(context.Context, io.Reader, io.Writer) error, error) {
	if server != "" && server != "s" {
		return nil, fault.New(control.ServerNotFound, "there is no server %q", server)
	}
	return func(ctx context.Context, in io.Reader, out io.Writer) error {
		r := bufio.NewReader(in)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return err
			}
			if _, err := out.Write(bytes.ToUpper(line)); err != nil {
				return err
			}
		}
	}, nil
}

func (b *backend) Act(_ context.Context, name, action string) error {
	if name != "s" {
		return fault.New(control.ServerNotFound, "there is no server %q", name)
	}
	if action == "restart" {
		panic("a defect")
	}
	return nil
}

func (b *backend) Tools(string) []control.Tool {
	return []control.Tool{{Tool: &catalog.Tool{Name: "s.echo", InputSchema: json.RawMessage("true"), Source: catalog.Source{Server: "s"}}, ExportName: "mcp__s__echo", Risk: "low", Trust: rules.Unknown, Action: rules.Ask}}
}

func (b *backend) Export(profile, _ string) ([]byte, error) {
	if profile == "none" {
		return nil, fault.New(control.UnknownProfile, "there is no profile %q", profile)
	}
	return []byte(`[{"type":"function","function":{"name":"mcp__s__echo"}}]`), nil
}

func (b *backend) Call(ctx context.Context, r control.CallRequest) (*control.CallResponse, error) {
	b.seen <- r
	res := &control.CallResponse{CallID: r.ID, Server: "s", Tool: r.Name, Result: json.RawMessage(`{"content":[]}`)}
	switch r.Name {
	case "hold":
		b.held <- r.ID
		select {
		case <-b.release:
		case <-ctx.Done():
			var f *fault.Error
			if errors.As(context.Cause(ctx), &f) {
				return nil, f
			}
			return nil, fault.New(fault.Cancelled, "the caller gave up")
		}
	case "linger":
		b.held <- r.ID
		<-ctx.Done()
		<-b.release
	case "panic":
		panic("a defect")
	case "fail":
		return nil, fault.New(string(r.Arguments[bytes.IndexByte(r.Arguments, ':')+2:len(r.Arguments)-2]), "no").Unknown()
	case "big":
		res.Result = json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("<x>", 1<<20) + `"}]}`)
	}
	return res, nil
}

// emit adds events to the journal.
func (b *backend) emit(events ...stream.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range events {
		e.Position = b.first + uint64(len(b.journal))
		if e.Envelope == nil {
			e.Envelope = fmt.Appendf(nil, `{"header":{"protocol":"amp/1.0","method":"m","message_id":"%d","timestamp":"2026-01-01T00:00:00Z","source":{"app":"s"}},"payload":{"type":%q}}`, e.Position, e.Type)
		}
		b.journal = append(b.journal, &e)
	}
	close(b.grown)
	b.grown = make(chan struct{})
}

func (b *backend) Position() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first + uint64(len(b.journal)) - 1
}

func (b *backend) Events(ctx context.Context, after uint64, alive time.Duration, emit func(*stream.Event) error) error {
	for {
		b.mu.Lock()
		var next *stream.Event
		if at := int(after) + 1 - int(b.first); at < 0 {
			after = b.first - 1
			b.mu.Unlock()
			continue
		} else if at < len(b.journal) {
			next = b.journal[at]
		}
		grown, broken, mute := b.grown, b.broken, b.mute
		b.mu.Unlock()
		switch {
		case next != nil:
			after = next.Position
			if err := emit(next); err != nil {
				return err
			}
			continue
		case broken != nil:
			return broken
		}
		select {
		case <-grown:
		case <-time.After(alive):
			if mute {
				continue
			}
			if err := emit(nil); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *backend) Logs(ctx context.Context, server string, n int, follow bool, emit func([]string) error) error {
	if server != "s" {
		return fault.New(control.ServerNotFound, "there is no server %q", server)
	}
	last := []string{"one", "two", "three"}
	if err := emit(last[max(0, 3-n):]); err != nil || !follow {
		return err
	}
	for {
		select {
		case l, ok := <-b.lines:
			if !ok {
				return io.ErrUnexpectedEOF
			}
			if err := emit(l); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *backend) Approvals(_ context.Context, states ...approval.State) ([]approval.Approval, error) {
	return nil, nil
}
func (b *backend) Approval(_ context.Context, id string) (approval.Approval, error) {
	return approval.Approval{}, fault.New(control.ApprovalNotFound, "there is no approval %q", id)
}
func (b *backend) Approve(context.Context, string, approval.Scope, string) (approval.Approval, error) {
	return approval.Approval{}, fault.New(control.ApprovalDecided, "it was answered")
}
func (b *backend) Revoke(context.Context, string, string) (approval.Approval, error) {
	return approval.Approval{}, fault.New(control.ApprovalDecided, "it was answered")
}
func (b *backend) Deny(context.Context, string, string, string) (approval.Approval, error) {
	return approval.Approval{}, fault.New(control.ApprovalDecided, "it was answered")
}
func (b *backend) Explain(tool string) (policy.Explanation, error) {
	return policy.Explanation{}, fault.New(fault.ToolNotFound, "there is no tool %q", tool)
}
func (b *backend) Review(string) (*review.Report, error) {
	return &review.Report{Servers: []review.ServerReport{}}, nil
}
func (b *backend) Diff(string) ([]review.ToolDiff, error)     { return nil, nil }
func (b *backend) Pin(context.Context, review.Approval) error { return nil }

func (b *backend) Resources(context.Context, string) ([]control.Item, error) {
	return []control.Item{{Server: "s", Item: json.RawMessage(`{"uri":"a:///b","name":"b"}`)}}, nil
}
func (b *backend) Templates(context.Context, string) ([]control.Item, error) { return nil, nil }
func (b *backend) Prompts(context.Context, string) ([]control.Item, error)   { return nil, nil }
func (b *backend) ReadResource(_ context.Context, r control.ReadRequest, trace signal.Trace) (*control.ReadResponse, error) {
	b.traces <- trace
	return &control.ReadResponse{CallID: "c", Server: "s", URI: r.URI, Size: 2, SHA256: "5a", Result: json.RawMessage(`{}`)}, nil
}
func (b *backend) Watch(context.Context, string, string) (<-chan struct{}, func(), error) {
	return b.changes, func() { close(b.unwatched) }, nil
}
func (b *backend) Subscribe(_ context.Context, s control.Subscription) (control.Subscription, error) {
	return s, nil
}
func (b *backend) Unsubscribe(s control.Subscription) bool { return s.URI == "a:///b" }
func (b *backend) Subscriptions() []control.Subscription {
	return []control.Subscription{{Server: "s", URI: "a:///b"}}
}
func (b *backend) GetPrompt(_ context.Context, r control.PromptRequest, _ signal.Trace) (*offers.Prompt, error) {
	return nil, fault.New(control.PromptNotFound, "there is no prompt %q", r.Prompt)
}
func (b *backend) Complete(context.Context, control.CompletionRequest) (json.RawMessage, error) {
	return json.RawMessage(`{"completion":{"values":["x"]}}`), nil
}
func (b *backend) SetLogLevel(_ context.Context, _, level string) error {
	return fault.New(fault.Protocol, "the server has no log messages")
}
func (b *backend) History(_ context.Context, f store.Filter, p store.Page) (history.Page, error) {
	return history.Page{Entries: []entry.Entry{{ID: p.Before + uint64(p.Limit), Kind: entry.Call, Type: "tool.completed", Summary: fmt.Sprintf("%+v", f), Records: []uint64{1}}}}, nil
}
func (b *backend) HistoryStats(_ context.Context, by string, f store.Filter) ([]store.Stat, error) {
	return nil, nil
}
func (b *backend) HistoryCall(_ context.Context, id string) (*history.Chain, error) {
	return nil, fault.New(history.CallNotFound, "there is no call %q", id)
}
func (b *backend) RebuildHistory(context.Context) error { return nil }
func (b *backend) Inputs() []signal.Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.inputs)
}
func (b *backend) Input(id string) (signal.Input, bool) {
	for _, in := range b.Inputs() {
		if in.CallID == id {
			return in, true
		}
	}
	return signal.Input{}, false
}
func (b *backend) AnswerInput(id string, r ask.Replies, actor string) error {
	if _, ok := b.Input(id); !ok {
		return fault.New(control.InputNotFound, "no call waits")
	}
	b.answers <- fmt.Sprintf("%s %v %s", id, r, actor)
	return nil
}

// served is an API that is served, and a client whose every answer is checked
// against the description.
type served struct {
	*backend
	t    testing.TB
	data string
	doc  *apitest.Doc
	http *http.Client
	stop context.CancelFunc
	done chan error
	log  *syncBuffer
	api  *api
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// dataDir is a data folder with a path short enough for a socket.
func dataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t testing.TB, change func(*limits, *Options)) *served {
	t.Helper()
	s := &served{backend: newBackend(), t: t, data: dataDir(t), doc: description(t), log: &syncBuffer{}, done: make(chan error, 1)}
	l, _, err := endpoint.Listen(s.data)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Backend: s.backend, Socket: l, Grace: time.Second, Logger: slog.New(slog.NewTextHandler(s.log, nil))}
	lim := defaultLimits
	if change != nil {
		change(&lim, &o)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.api = newAPI(o, lim)
	done := s.done
	go func() { done <- s.api.serve(ctx, o) }()
	s.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.Addr().String())
	}}}
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		if err := s.end(); err != nil {
			t.Errorf("the API ended with %v", err)
		}
	})
	return s
}

// end ends the API, once.
func (s *served) end() error {
	s.stop()
	if s.done == nil {
		return nil
	}
	done := s.done
	s.done = nil
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("the API does not end")
	}
}

func (s *served) request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://platform"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	return req
}

func (s *served) do(method, path, body string, header ...string) (*http.Response, string) {
	s.t.Helper()
	res, err := s.http.Do(s.request(context.Background(), method, path, body, header...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if method == "HEAD" {
		return res, ""
	}
	if err := s.doc.Answer(method, path, res, raw); err != nil {
		s.t.Error(err)
	}
	return res, string(raw)
}

// refused checks that a request fails with a status and code.
func (s *served) refused(status int, code, method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	res, raw := s.do(method, path, body, header...)
	var p control.Problem
	if err := json.Unmarshal([]byte(raw), &p); err != nil || res.StatusCode != status || p.Code != code {
		s.t.Errorf("%s %s %.100q: got %s %.300s, want %d %s", method, path, body, res.Status, raw, status, code)
	}
	return res
}

func (s *served) state(method, path string) (st control.CallState) {
	s.t.Helper()
	res, raw := s.do(method, path, "")
	if err := json.Unmarshal([]byte(raw), &st); err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %s %s", method, path, res.Status, raw)
	}
	return st
}

func receive[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
	}
	return v
}

func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// block is one block of an event stream.
type block struct{ id, event, data, comment string }

// follower reads an event stream.
type follower struct {
	t   testing.TB
	res *http.Response
	r   *bufio.Reader
	end context.CancelFunc
}

func (s *served) follow(path string, header ...string) *follower {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	res, err := s.http.Do(s.request(ctx, "GET", path, "", header...))
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") == "application/problem+json" {
		raw, _ := io.ReadAll(res.Body)
		s.t.Fatalf("%s: %s %s", path, res.Status, raw)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return &follower{s.t, res, bufio.NewReader(res.Body), cancel}
}

// next is the next block, or an error at the end of the stream.
func (f *follower) next() (b block, err error) {
	for {
		line, err := f.r.ReadString('\n')
		if err != nil {
			return b, err
		}
		line = line[:len(line)-1]
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			b.id = value
		case "event":
			b.event = value
		case "data":
			b.data = value
		case "":
			if line == "" {
				return b, nil
			}
			b.comment = value
		}
	}
}

// want reads blocks and compares their ids and events; the first block of a
// stream has only an id.
func (f *follower) want(blocks ...string) {
	f.t.Helper()
	for _, want := range blocks {
		b, err := f.next()
		if got := strings.TrimSpace(b.id + " " + b.event); err != nil || got != want {
			f.t.Fatalf("got %q %v, want %q", got, err, want)
		}
	}
}
