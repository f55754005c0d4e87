// Package hosttest is the test kit of the gate: servers of the MCP SDK that run in
// the test's process, and a sink that keeps every signal.
package hosttest

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// TraceParent is a valid traceparent.
const TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Eras are the ways in which a server of the SDK is greeted.
var Eras = []string{"2025-11-25", "2026-07-28"}

// Join connects a server of the SDK in this process under a name, over pipes, in
// an era. It runs until the end of the test.
func Join(t testing.TB, m *client.Manager, name, era string, server *mcp.Server, cfg session.Config) *session.Session {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer outW.Close()
		server.Run(ctx, &mcp.IOTransport{Reader: inR, Writer: outW})
	}()
	t.Cleanup(func() { stop(); inR.Close(); <-done })
	s, err := m.Connect(Deadline(t), session.Conn{Server: name, Alias: "the-" + name, Stdin: inW, Stdout: outR, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Info().ProtocolVersion; got != era {
		t.Fatalf("the session speaks %s, want %s", got, era)
	}
	return s
}

// only is a memory of eras that greets every server as one era asks for.
type only string

func (o only) Get(string) string {
	if o == "2025-11-25" {
		return handshake.EraInitialize
	}
	return ""
}

func (only) Set(string, string) error { return nil }

// Manager is a client manager that speaks to servers in one era.
func Manager(t testing.TB, sink signal.Sink, era string) *client.Manager {
	t.Helper()
	m, err := client.New(client.Options{Sink: sink, Eras: only(era), ProbeTimeout: 20 * time.Second})
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
	return m
}

// Signals is a sink that keeps all signals, those before others in their place.
type Signals struct {
	mu  sync.Mutex
	all []signal.Signal
}

// Observe keeps a signal.
func (e *Signals) Observe(_ context.Context, s signal.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = slices.AppendSeq(e.all, s.All())
	return nil
}

// Of are the signals of some kinds, in the order in which they came.
func (e *Signals) Of(kinds ...signal.Kind) (found []signal.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.all {
		if slices.Contains(kinds, s.Kind) {
			found = append(found, s)
		}
	}
	return found
}

// CodeOf is the code of a *fault.Error, or "".
func CodeOf(err error) string {
	if f := fault.From(err); f != nil {
		return f.Code
	}
	return ""
}

// Deadline is a context of two minutes that ends with the test.
func Deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Receive waits for a change; what names it in the failure.
func Receive(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("in vain waited for %s", what)
	}
}
