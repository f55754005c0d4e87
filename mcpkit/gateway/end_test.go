package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/stdio"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// catalogue is a host of which only the catalogue is asked for.
type catalogue struct{ gateway.Host }

func (catalogue) Table() *catalog.Table { return catalog.NewTable("mcp", nil) }

func TestRequestsThatCameBeforeTheEndOfInputAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settled := make(chan struct{})
		g := gateway.New(gateway.Options{Host: catalogue{}, Settled: settled})
		time.AfterFunc(4*time.Second, func() { close(settled) }) // a server that takes this long to start
		in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`)
		var out bytes.Buffer
		if err := stdio.Serve(t.Context(), g, &view.View{}, in, &out); err != nil {
			t.Fatal(err)
		}
		if want := `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`; !strings.Contains(out.String(), want) {
			t.Errorf("tools/list was not answered:\n%s", out.String())
		}
	})
}

func TestRequestsLeftAtTheEndOfInputEndWithTheGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		g := gateway.New(gateway.Options{Host: catalogue{}, Settled: make(chan struct{})})
		in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n")
		ended := make(chan error)
		go func() { ended <- stdio.Serve(ctx, g, &view.View{}, in, io.Discard) }()
		synctest.Wait() // the input has ended, and the list waits for servers
		begun := time.Now()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the end took %s", took)
		}
	})
}

// listener hands out one end of pipes in memory.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { close(l.closed); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *listener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

func TestTheEndWaitsForNoConnectionThatNothingGoesOnOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateway.New(gateway.Options{Host: catalogue{}})
		h := streamable.New(streamable.Options{Gateway: g, Rules: access.Rules{Open: &view.View{}}})
		l := &listener{make(chan net.Conn), make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- streamable.Serve(ctx, l, h) }()

		unused := l.dial()
		idle := l.dial()
		listening := l.dial()
		ask := func(c net.Conn, body, last string) {
			t.Helper()
			io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
				"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: "+last+"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		}
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		ask(idle, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`, "tools/list")
		readUntil(t, idle, `"tools":[]`)
		ask(listening, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`, "subscriptions/listen")
		readUntil(t, listening, "acknowledged")
		for _, c := range []net.Conn{idle, listening} {
			go io.Copy(io.Discard, c)
		}
		synctest.Wait()
		begun := time.Now()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("the end took %s", took)
		}
		if _, err := unused.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the unused connection is open: %v", err)
		}
	})
}

// readUntil reads lines until one has text in it.
func readUntil(t *testing.T, c net.Conn, text string) {
	t.Helper()
	r := bufio.NewReaderSize(c, 1)
	var line strings.Builder
	for !strings.Contains(line.String(), text) {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("%v after %q", err, line.String())
		}
		line.WriteByte(b)
	}
}
