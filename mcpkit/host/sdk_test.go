package host_test

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

// eras are the ways in which a server of the SDK is greeted.
var eras = []string{"2025-11-25", "2026-07-28"}

// join connects a server of the SDK in this process under a name, over pipes, in
// an era, and returns what ends it.
func join(t testing.TB, m *client.Manager, name, era string, server *mcp.Server, cfg session.Config) *session.Session {
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
	s, err := m.Connect(deadline(t), session.Conn{Server: name, Alias: "the-" + name, Stdin: inW, Stdout: outR, Config: cfg})
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

// manager speaks to servers in one era.
func manager(t testing.TB, sink signal.Sink, era string) *client.Manager {
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

// everything keeps all signals.
type everything struct {
	mu  sync.Mutex
	all []signal.Signal
}

func (e *everything) Observe(_ context.Context, s signal.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = slices.AppendSeq(e.all, s.All())
	return nil
}

func (e *everything) of(kinds ...signal.Kind) (found []signal.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.all {
		if slices.Contains(kinds, s.Kind) {
			found = append(found, s)
		}
	}
	return found
}

func codeOf(err error) string {
	if f := fault.From(err); f != nil {
		return f.Code
	}
	return ""
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func receive(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("in vain waited for %s", what)
	}
}
