package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestMain(m *testing.M) {
	fakeserver.RunIfAsked()
	goleak.VerifyTestMain(m)
}

// testTimeout is how long a test waits for what must come.
const testTimeout = 2 * time.Minute

// kit is a manager, what it was heard to say, and what it logged.
type kit struct {
	*client.Manager
	*heard
	log *lockedBuffer
}

// newKit makes a manager that is closed after the test's processes were killed.
func newKit(t testing.TB, change ...func(*client.Options)) *kit {
	t.Helper()
	k := &kit{heard: &heard{}, log: &lockedBuffer{}}
	opts := client.Options{Sink: k.heard, Logger: slog.New(slog.NewTextHandler(k.log, nil)), Name: "test"}
	for _, f := range change {
		f(&opts)
	}
	m, err := client.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	k.Manager = m
	t.Cleanup(func() {
		ctx, cancel := contextWithTimeout(testTimeout)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return k
}

// conn starts a server of that mode; the server's name is the mode.
func (k *kit) conn(t testing.TB, mode string, options ...string) session.Conn {
	t.Helper()
	in, out := fakeserver.Start(t, mode, options...)
	return session.Conn{Server: mode, Instance: "1", Stdin: in, Stdout: out}
}

func (k *kit) connect(t testing.TB, mode string, options ...string) *session.Session {
	t.Helper()
	return k.connectWith(t, session.Config{}, mode, options...)
}

func (k *kit) connectWith(t testing.TB, cfg session.Config, mode string, options ...string) *session.Session {
	t.Helper()
	c := k.conn(t, mode, options...)
	c.Config = cfg
	s, err := k.Connect(deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (k *kit) echo(t testing.TB, server, message string) {
	t.Helper()
	if got, err := call(k.Manager, deadline(t), server, "echo", message); err != nil || got != message {
		t.Fatalf("echo of %q by %s: %q, %v", message, server, got, err)
	}
}

func call(m *client.Manager, ctx context.Context, server, tool, message string) (string, error) {
	args, _ := json.Marshal(map[string]string{"message": message})
	res, err := m.Call(ctx, features.CallRequest{Server: server, Tool: tool, Arguments: args})
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

func (k *kit) toolNames() (names []string) {
	for _, tool := range k.Tools().Tools {
		names = append(names, tool.Source.OriginalName)
	}
	return names
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func faultOf(t testing.TB, err error) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("%v (%T) is no fault", err, err)
	}
	return f
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", testTimeout, what)
		}
	}
}

// heard is a sink that keeps everything.
type heard struct {
	mu  sync.Mutex
	all []signal.Signal
}

func (h *heard) Observe(_ context.Context, s signal.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, s)
	return nil
}

func (h *heard) of(kind signal.Kind) (found []signal.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.all {
		if s.Kind == kind {
			found = append(found, s)
		}
	}
	return found
}

// fault is the latest report with that code, or nil.
func (h *heard) fault(code string) (f *signal.Fault) {
	for _, s := range h.of(signal.Problem) {
		if d := s.Data.(*signal.Fault); d.Code == code {
			f = d
		}
	}
	return f
}

func (h *heard) waitFault(t testing.TB, code string) *signal.Fault {
	t.Helper()
	eventually(t, "a report of "+code, func() bool { return h.fault(code) != nil })
	return h.fault(code)
}

func (h *heard) waitOf(t testing.TB, kind signal.Kind, n int) []signal.Signal {
	t.Helper()
	eventually(t, fmt.Sprintf("%d signals %s", n, kind), func() bool { return len(h.of(kind)) >= n })
	return h.of(kind)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

func contextWithTimeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
