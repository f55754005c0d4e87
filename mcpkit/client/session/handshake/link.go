package handshake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// link is the SDK's end of a session: its transport and its connection. The
// SDK sees the messages of the negotiation and nothing else.
type link struct {
	wire rpc.Wire
	in   chan jsonrpc.Message
	done chan struct{}
	once sync.Once

	open          atomic.Bool // the negotiation is over
	probeAnswered atomic.Bool
	broken        atomic.Bool                 // the server takes nothing more
	why           atomic.Pointer[fault.Error] // why the last request failed on its way, if it did

	mu   sync.Mutex
	sent map[int64]string // method of each request of the SDK without an answer
}

func newLink(wire rpc.Wire) *link {
	return &link{
		wire: wire, in: make(chan jsonrpc.Message, 4), done: make(chan struct{}),
		sent: map[int64]string{},
	}
}

// Connect makes link a mcp.Transport.
func (l *link) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SessionID is empty: pipes have none.
func (l *link) SessionID() string { return "" }

// Read is the next message for the SDK.
func (l *link) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-l.in:
		return m, nil
	case <-l.done:
		return nil, io.EOF
	}
}

// Write sends a message of the SDK.
func (l *link) Write(ctx context.Context, msg jsonrpc.Message) error {
	if m, ok := msg.(*jsonrpc.Request); ok {
		if id, ok := m.ID.Raw().(int64); ok {
			l.mu.Lock()
			l.sent[id] = m.Method
			l.mu.Unlock()
			l.why.Store(nil)
		} else if m.Method == rpc.MethodCancelled && !l.open.Load() {
			return nil // before initialize a notification may end what the probe did not
		}
	}
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	err = l.wire.Send(ctx, b)
	if errors.Is(err, io.ErrClosedPipe) {
		l.broken.Store(true)
		return io.EOF
	}
	return err
}

// Close ends the SDK's part.
func (l *link) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// answered routes an answer to the SDK if the request was its own.
func (l *link) answered(id int64, m jsonline.Message) bool {
	l.mu.Lock()
	method, ok := l.sent[id]
	delete(l.sent, id)
	l.mu.Unlock()
	if !ok {
		return false
	}
	if method == methodDiscover {
		l.probeAnswered.Store(true)
	}
	jid, err := jsonrpc.MakeID(float64(id))
	if err != nil {
		return false
	}
	r := &jsonrpc.Response{ID: jid, Result: bytes.Clone(m.Result)}
	if m.Error != nil {
		e := new(jsonrpc.Error)
		if err := json.Unmarshal(m.Error, e); err != nil {
			e = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "an error that is none: " + rpc.Printable(m.Error)}
		}
		r.Error = e
	}
	l.pass(r)
	return true
}

// failed answers a request of the SDK that the wire could not deliver.
func (l *link) failed(id int64, why *fault.Error) {
	l.why.Store(why)
	l.answered(id, jsonline.Message{Error: []byte(`{"code":-32000,"message":` + rpc.Quote(why.Message) + `}`)})
}

func (l *link) pass(msg jsonrpc.Message) {
	select {
	case l.in <- msg:
	case <-l.done:
	}
}
