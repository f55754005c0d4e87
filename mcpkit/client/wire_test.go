package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client"
)

// memory is a wire to a server in this process.
type memory struct {
	answers chan []byte
	done    chan struct{}
	once    sync.Once
}

func (m *memory) Send(_ context.Context, msg []byte) error {
	if !m.TrySend(msg) {
		return io.ErrClosedPipe
	}
	return nil
}

func (m *memory) TrySend(msg []byte) bool {
	var r struct {
		ID     json.RawMessage
		Method string
	}
	json.Unmarshal(msg, &r)
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"memory","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"echo","inputSchema":{}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"from memory"}]}`,
	}[r.Method]
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result)
	switch {
	case r.ID == nil:
		return true
	case result == "":
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, r.ID)
	}
	select {
	case m.answers <- []byte(answer):
		return true
	case <-m.done:
		return false
	}
}

func (m *memory) Receive() (client.Line, error) {
	select {
	case b := <-m.answers:
		return client.Line{Data: b, Owned: true}, nil
	case <-m.done:
		return client.Line{}, io.EOF
	}
}

func (m *memory) CloseSend(time.Duration) { m.Close() }

func (m *memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func TestASessionNeedsNoPipes(t *testing.T) {
	k := newKit(t)
	wire := &memory{answers: make(chan []byte, 16), done: make(chan struct{})}
	s, err := k.Connect(deadline(t), client.Conn{Server: "remote", Wire: wire})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := call(k.Manager, deadline(t), "remote", "echo", ""); err != nil || got != "from memory" {
		t.Errorf("got %q, %v", got, err)
	}
	s.Close(nil)
	<-s.Done()
}

func TestAConnectionWithoutAWayIsRefused(t *testing.T) {
	k := newKit(t)
	for _, c := range []client.Conn{{}, {Server: "x"}, {Wire: &memory{}}} {
		if _, err := k.Connect(deadline(t), c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	wire := &memory{done: make(chan struct{})}
	if _, err := k.Connect(deadline(t), client.Conn{Server: "x", Wire: wire, Config: client.ServerConfig{MaxLine: -1}}); err == nil {
		t.Error("a negative limit was taken")
	}
	<-wire.done // and the wire is closed
}
