package httpwire_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is how long a test waits for what must come.
const testTimeout = 2 * time.Minute

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// message is the argument and the result of the tools.
type message struct {
	Message string `json:"message"`
}

// newServer is a server of the official SDK with tools that answer, count, tell
// and wait.
func newServer(t testing.TB) (*mcp.Server, *counts) {
	c := &counts{entered: make(chan struct{}, 100), left: make(chan error, 100)}
	s := mcp.NewServer(&mcp.Implementation{Name: "real", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in message) (*mcp.CallToolResult, any, error) {
		c.add("echo")
		return said(in.Message), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "progress"}, func(ctx context.Context, r *mcp.CallToolRequest, in message) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Message: "step",
			})
		}
		return said("done"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, in message) (*mcp.CallToolResult, any, error) {
		c.entered <- struct{}{}
		select {
		case <-ctx.Done():
			c.left <- ctx.Err()
		case <-time.After(testTimeout):
			c.left <- nil
		}
		return said("waited"), nil, nil
	})
	t.Cleanup(func() {
		for ss := range s.Sessions() {
			ss.Close()
		}
	})
	return s, c
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// counts is what the tools were asked for.
type counts struct {
	mu      sync.Mutex
	n       map[string]int
	entered chan struct{}
	left    chan error
}

func (c *counts) add(tool string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[tool]++
}

func (c *counts) of(tool string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[tool]
}

func stateful(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
}

func stateless(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true,
	})
}

func oldSSE(s *mcp.Server) http.Handler {
	return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil)
}

// serve answers at a loopback address until the test has ended.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// heard keeps signals.
type heard struct {
	mu   sync.Mutex
	list []signal.Signal
}

func (h *heard) Observe(_ context.Context, s signal.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, s)
	return nil
}

func (h *heard) find(kind signal.Kind, text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.list {
		b, _ := json.Marshal(s.Data)
		if s.Kind == kind && strings.Contains(s.Method+string(s.Params)+string(b), text) {
			n++
		}
	}
	return n
}

// kit is a client manager and what it was told.
type kit struct {
	*client.Manager
	*heard
}

func newKit(t testing.TB) *kit {
	t.Helper()
	k := &kit{heard: &heard{}}
	var err error
	if k.Manager, err = client.New(client.Options{Sink: k.heard, Name: "test", ProbeTimeout: testTimeout}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := k.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return k
}

// open connects to the server at that address, under the name "remote".
func (k *kit) open(t testing.TB, url string, change ...func(*httpwire.Options, *session.Config)) (*session.Session, error) {
	t.Helper()
	o := httpwire.Options{Name: "remote", URL: url}
	var cfg session.Config
	for _, f := range change {
		f(&o, &cfg)
	}
	w, err := httpwire.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return k.Connect(deadline(t), session.Conn{Server: "remote", Wire: w, Config: cfg})
}

func (k *kit) mustOpen(t testing.TB, url string, change ...func(*httpwire.Options, *session.Config)) *session.Session {
	t.Helper()
	s, err := k.open(t, url, change...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func call(t testing.TB, s *session.Session, tool, text string) (string, error) {
	t.Helper()
	args, _ := json.Marshal(message{text})
	res, err := s.Call(deadline(t), features.CallRequest{Tool: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	return textOf(res), nil
}

// textOf is the text of a result's parts, joined by line ends.
func textOf(r *features.Result) string {
	var content struct{ Content []struct{ Type, Text string } }
	json.Unmarshal(r.Raw, &content) // a result that does not decode has no text
	var parts []string
	for _, part := range content.Content {
		if part.Type == "text" {
			parts = append(parts, part.Text)
		}
	}
	return strings.Join(parts, "\n")
}

func mustEcho(t testing.TB, s *session.Session, text string) {
	t.Helper()
	if got, err := call(t, s, "echo", text); err != nil || got != text {
		t.Fatalf("echo of %.40q: %.40q, %v", text, got, err)
	}
}

// wantFault checks a fault's code, outcome and words.
func wantFault(t testing.TB, err error, code string, outcome fault.Outcome, words ...string) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("%v (%T) is no fault", err, err)
	}
	got := f.Outcome
	if got == "" {
		got = fault.OutcomeFailed
	}
	if f.Code != code || got != outcome {
		t.Errorf("%s with outcome %s, want %s with %s: %s", f.Code, got, code, outcome, f.Message)
	}
	for _, w := range words {
		if !strings.Contains(f.Message, w) {
			t.Errorf("%q is not in %q", w, f.Message)
		}
	}
	return f
}

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happened: %s", what)
		}
	}
}
