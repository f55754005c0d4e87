package streamable_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// instant is a client whose one tool answers at once, so that a call costs what
// HTTP, the gateway and the gate cost.
type instant struct {
	host.Client
	tools  *client.Snapshot
	answer *features.Result
}

func (c instant) Tools() *client.Snapshot { return c.tools }

func (c instant) Call(context.Context, features.CallRequest) (*features.Result, error) {
	return c.answer, nil
}

// BenchmarkCall makes tool calls, 32 at once, over connections that are kept open.
func BenchmarkCall(b *testing.B) {
	store, err := policy.OpenStore(b.Context(), filepath.Join(b.TempDir(), "policy.db"), policy.StoreOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	r, err := rules.Parse("policy.yaml", []byte("unlisted: {unknown: low}\nreview: {first: {unknown: pin}}\n"))
	if err != nil {
		b.Fatal(err)
	}
	tool := &catalog.Tool{Name: "s.echo", Source: catalog.Source{Server: "s", OriginalName: "echo"},
		InputSchema: []byte(`{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`)}
	h := host.New(host.Options{
		Client: instant{tools: &client.Snapshot{Tools: []*catalog.Tool{tool}}, answer: &features.Result{Raw: []byte(`{"content":[{"type":"text","text":"Tomorrow is cloudy"}]}`)}},
		Sink:   signal.Discard, Gate: policy.NewGate(store, r, nil),
	})
	g := gateway.New(gateway.Options{Host: h, Servers: func() []view.Server { return []view.Server{{Name: "s", Version: "2026-07-28"}} }})
	handler := streamable.New(streamable.Options{Gateway: g, Rules: access.Rules{Open: &view.View{}}})
	srv := httptest.NewServer(handler)
	defer srv.Close()
	defer handler.Close()
	address := srv.Listener.Addr().String()

	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"s__echo","arguments":{"message":"What about tomorrow?"}`
	b.Run("session", func(b *testing.B) {
		k := dial(b, address)
		header, _, err := k.post(request(address, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
		if err != nil {
			b.Fatal(err)
		}
		_, session, _ := bytes.Cut(header, []byte("Mcp-Session-Id: "))
		session, _, _ = bytes.Cut(session, []byte("\r\n"))
		head := "Mcp-Session-Id: " + string(session) + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"
		repeat(b, address, func(i int) []byte {
			return request(address, head, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i+2)+call[len(`{"jsonrpc":"2.0","id":7`):]+`}}`)
		})
	})
	b.Run("stateless", func(b *testing.B) {
		const head = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: s__echo\r\n"
		repeat(b, address, func(int) []byte {
			return request(address, head, call+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		})
	})
}

// repeat makes the calls, each connection its own one again and again.
func repeat(b *testing.B, address string, request func(i int) []byte) {
	b.ReportAllocs()
	const atOnce = 32
	next := make(chan struct{}, atOnce)
	var work sync.WaitGroup
	for i := range atOnce {
		k, req := dial(b, address), request(i)
		if _, body, err := k.post(req); err != nil || !bytes.Contains(body, []byte("cloudy")) {
			b.Fatalf("%s, %v", body, err)
		}
		work.Go(func() {
			for range next {
				if _, body, err := k.post(req); err != nil || !bytes.Contains(body, []byte("cloudy")) {
					b.Errorf("%s, %v", body, err)
				}
			}
		})
	}
	for b.Loop() {
		next <- struct{}{}
	}
	close(next)
	work.Wait()
}

// conn is a client that allocates nothing for a call.
type conn struct {
	net.Conn
	r            *bufio.Reader
	header, body []byte
}

func dial(b *testing.B, address string) *conn {
	b.Helper()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { raw.Close() })
	return &conn{Conn: raw, r: bufio.NewReader(raw)}
}

// request is an HTTP request as it is sent; head is more of its header.
func request(address, head, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s",
		streamable.Path, address, head, len(body), body)
}

var contentLength = []byte("Content-Length: ")

// post sends a request and reads the answer, which is good until the next one.
func (k *conn) post(request []byte) (header, body []byte, err error) {
	if _, err := k.Write(request); err != nil {
		return nil, nil, err
	}
	k.header = k.header[:0]
	n := -1
	for {
		line, err := k.r.ReadSlice('\n')
		if err != nil {
			return nil, nil, err
		}
		k.header = append(k.header, line...)
		if len(line) == len("\r\n") {
			break
		}
		if v, ok := bytes.CutPrefix(line, contentLength); ok {
			n = 0
			for _, c := range bytes.TrimSpace(v) {
				n = n*10 + int(c-'0')
			}
		}
	}
	if n < 0 {
		return nil, nil, errors.New("the answer has no Content-Length")
	}
	if cap(k.body) < n {
		k.body = make([]byte, n)
	}
	k.body = k.body[:n]
	_, err = io.ReadFull(k.r, k.body)
	return k.header, k.body, err
}
