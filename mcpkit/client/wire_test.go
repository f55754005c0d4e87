package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// memory is a wire to a server in this process.
type memory struct {
	results map[string]string   // by method; others are unknown
	lines   map[string]rpc.Line // whole answers by method, instead

	in   chan rpc.Line
	done chan struct{}
	once sync.Once
	mu   sync.Mutex
	sent []string
}

func newMemory() *memory {
	return &memory{
		results: map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"memory","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"echo","inputSchema":{}}]}`,
			"tools/call": `{"content":[{"type":"text","text":"from memory"}]}`,
		},
		lines: map[string]rpc.Line{},
		in:    make(chan rpc.Line, 256),
		done:  make(chan struct{}),
	}
}

func (m *memory) push(format string, args ...any) {
	m.in <- rpc.Line{Data: fmt.Appendf(nil, format, args...), Owned: true}
}

// has reports how many messages of the client contain text.
func (m *memory) has(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sent {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

func (m *memory) Send(_ context.Context, msg []byte) error {
	if !m.TrySend(msg) {
		return io.ErrClosedPipe
	}
	return nil
}

func (m *memory) TrySend(msg []byte) bool {
	select {
	case <-m.done:
		return false
	default:
	}
	m.mu.Lock()
	m.sent = append(m.sent, string(msg))
	m.mu.Unlock()
	var r struct {
		ID     json.RawMessage
		Method string
	}
	json.Unmarshal(msg, &r)
	line, whole := m.lines[r.Method]
	result := m.results[r.Method]
	switch {
	case r.ID == nil || r.Method == "":
	case whole:
		line.ID = r.ID
		line.Data = []byte(strings.ReplaceAll(string(line.Data), "ID", string(r.ID)))
		m.in <- line
	case result != "":
		m.push(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result)
	default:
		m.push(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, r.ID)
	}
	return true
}

func (m *memory) Receive() (rpc.Line, error) {
	select {
	case l := <-m.in:
		return l, nil
	case <-m.done:
		return rpc.Line{}, io.EOF
	}
}

func (m *memory) CloseSend(time.Duration) { m.Close() }

func (m *memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func (k *kit) connectMemory(t *testing.T, m *memory, cfg session.Config) *session.Session {
	t.Helper()
	s, err := k.Connect(deadline(t), session.Conn{Server: "memory", Wire: m, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(nil); <-s.Done() })
	return s
}

func TestASessionNeedsNoPipes(t *testing.T) {
	k := newKit(t)
	k.connectMemory(t, newMemory(), session.Config{})
	if got, err := call(k.Manager, deadline(t), "memory", "echo", ""); err != nil || got != "from memory" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAConnectionWithoutAWayIsRefused(t *testing.T) {
	k := newKit(t)
	for _, c := range []session.Conn{{}, {Server: "x"}, {Wire: newMemory()}} {
		if _, err := k.Connect(deadline(t), c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	wire := newMemory()
	if _, err := k.Connect(deadline(t), session.Conn{Server: "x", Wire: wire, Config: session.Config{MaxLine: -1}}); err == nil {
		t.Error("a negative limit was taken")
	}
	<-wire.done // and the wire is closed
}

func TestAGreetingThatCannotBeReadFailsAtOnce(t *testing.T) {
	for name, line := range map[string]rpc.Line{
		"too long":     {Skipped: 1 << 30},
		"no JSON":      {Data: []byte(`{"jsonrpc":"2.0","id":ID,"result":{`)},
		"wrong types":  {Data: []byte(`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":7}}`)},
		"odd error":    {Data: []byte(`{"jsonrpc":"2.0","id":ID,"error":"no"}`)},
		"empty result": {Data: []byte(`{"jsonrpc":"2.0","id":ID,"result":{}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			k, m := newKit(t), newMemory()
			m.lines["initialize"] = line
			ctx := deadline(t)
			if _, err := k.Connect(ctx, session.Conn{Server: "memory", Wire: m}); err == nil || ctx.Err() != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestARequestBeyondTheLimitIsAnswered(t *testing.T) {
	k, m := newKit(t), newMemory()
	k.connectMemory(t, m, session.Config{})
	m.in <- rpc.Line{Skipped: 1 << 30, ID: []byte(`"q"`), Method: []byte(`"sampling/createMessage"`)}
	eventually(t, "an answer", func() bool { return m.has(`"id":"q","error":{"code":-32600`) == 1 })
}

func TestALogLineWithAMethodIsNoNotification(t *testing.T) {
	k, m := newKit(t), newMemory()
	s := k.connectMemory(t, m, session.Config{})
	m.push(`{"level":"info","method":"GET","path":"/"}`)
	m.push(`{"jsonrpc":"2.0","method":7}`)
	eventually(t, "both counted", func() bool { return s.Problems()["stdout_junk"] == 2 })
	if n := len(k.of(signal.Notification)); n != 0 {
		t.Errorf("%d were passed on", n)
	}
}

func TestOnlySoManyRequestsOfAServerWaitAndItMayCancelThem(t *testing.T) {
	k, m := newKit(t), newMemory()
	var began sync.WaitGroup
	began.Add(64)
	cancelled := make(chan struct{}, 64)
	m.lines["tools/call"] = rpc.Line{Data: []byte(`{"jsonrpc":"2.0","method":"notifications/custom/began"}`)}
	s := k.connectMemory(t, m, session.Config{Elicit: true})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Call(t.Context(), features.CallRequest{Server: "memory", Tool: "echo", Ask: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			began.Done()
			<-ctx.Done()
			cancelled <- struct{}{}
			return nil, ctx.Err()
		}})
	}()
	k.waitOf(t, signal.Notification, 1)
	for i := range 70 {
		m.push(`{"jsonrpc":"2.0","id":"e%d","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}`, i)
	}
	began.Wait()
	eventually(t, "six refusals", func() bool { return m.has("-32000") == 6 })
	m.push(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"e7"}}`)
	<-cancelled
	s.Close(nil)
	<-ended
}

func TestAServerIsToldOfTheCallsThatAClosedSessionGivesUp(t *testing.T) {
	k, m := newKit(t), newMemory()
	m.lines["tools/call"] = rpc.Line{Data: []byte(`{"jsonrpc":"2.0","method":"notifications/custom/began"}`)}
	s := k.connectMemory(t, m, session.Config{})
	failed := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := call(k.Manager, t.Context(), "memory", "echo", "")
			failed <- err
		}()
	}
	k.waitOf(t, signal.Notification, 3)
	s.Close(fault.New(fault.ServerStopped, "it was disabled"))
	for range 3 {
		if f := faultOf(t, <-failed); f.Code != fault.ServerStopped || f.Outcome != fault.OutcomeUnknown {
			t.Errorf("got %v", f)
		}
	}
	if n := m.has(`"notifications/cancelled"`); n != 3 || m.has("it was disabled") != 3 {
		t.Errorf("%d were said to be cancelled", n)
	}
	if _, err := s.Call(deadline(t), features.CallRequest{Tool: "echo"}); faultOf(t, err).Code != fault.ServerStopped {
		t.Errorf("a call of a closed session: %v", err)
	}
}

func TestARefusalOfPingIsASignOfLife(t *testing.T) {
	k, m := newKit(t), newMemory()
	s := k.connectMemory(t, m, session.Config{PingInterval: 10 * time.Millisecond, PingTimeout: testTimeout})
	eventually(t, "three pings", func() bool { return m.has(`"method":"ping"`) >= 3 })
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

func TestStatelessRequestsSayWhatTheClientOffers(t *testing.T) {
	k, m := newKit(t), newMemory()
	m.results["server/discover"] = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
	k.connectMemory(t, m, session.Config{
		Roots:    []*mcp.Root{{URI: "file:///srv"}},
		Sampling: true,
		Elicit:   true,
	})
	if _, err := call(k.Manager, deadline(t), "memory", "echo", ""); err != nil {
		t.Fatal(err)
	}
	// The SDK's own requests and ours must say the same.
	meta := func(method string) map[string]any {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, msg := range m.sent {
			var r struct {
				Method string
				Params struct {
					Meta map[string]any `json:"_meta"`
				}
			}
			if json.Unmarshal([]byte(msg), &r); r.Method == method {
				delete(r.Params.Meta, "progressToken")
				return r.Params.Meta
			}
		}
		t.Fatalf("no %s was sent", method)
		return nil
	}
	if d := cmp.Diff(meta("server/discover"), meta("tools/call")); d != "" {
		t.Error(d)
	}
}

func TestAStatelessRequestSaysWhatAFarClientOffersAsFarAsTheServerMayUseIt(t *testing.T) {
	k, m := newKit(t), newMemory()
	m.results["server/discover"] = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
	s := k.connectMemory(t, m, session.Config{Relay: handshake.Features{Elicitation: true}})
	if _, err := s.Call(deadline(t), features.CallRequest{Tool: "echo", Capabilities: []byte(`{"elicitation": {"url":{}},"sampling":{},"unheard":{"of":1}}`)}); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.sent[len(m.sent)-1]
	if strings.Count(last, "clientCapabilities") != 1 || !strings.Contains(last, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}`) {
		t.Errorf("sent %s", last)
	}
}
