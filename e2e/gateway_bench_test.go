//go:build bench

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// freeAddress is a loopback address that nobody listens on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// caller makes tool calls over Streamable HTTP with as little of its own as can be.
type caller struct {
	address, session, tool string
	conns                  chan *conn
	n                      atomic.Int64
}

type conn struct {
	net.Conn
	r *bufio.Reader
}

// post sends one message and returns the answer.
func (c *caller) post(body string) (*http.Response, []byte, error) {
	var k *conn
	select {
	case k = <-c.conns:
	default:
		raw, err := net.Dial("tcp", c.address)
		if err != nil {
			return nil, nil, err
		}
		k = &conn{raw, bufio.NewReader(raw)}
	}
	req := "POST /mcp HTTP/1.1\r\nHost: " + c.address + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	if c.session != "" {
		req += "Mcp-Session-Id: " + c.session + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"
	}
	req += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	if _, err := io.WriteString(k, req); err != nil {
		return nil, nil, err
	}
	res, err := http.ReadResponse(k.r, nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		return nil, nil, fmt.Errorf("%s: %s, %v", res.Status, answer, err)
	}
	c.conns <- k
	return res, answer, nil
}

// call calls the tool with a text of its own and checks that it comes back.
func (c *caller) call() error {
	n := strconv.FormatInt(c.n.Add(1), 10)
	_, answer, err := c.post(`{"jsonrpc":"2.0","id":` + n + `,"method":"tools/call","params":{"name":"` + c.tool + `","arguments":{"message":"number ` + n + `."}}}`)
	if err == nil && !bytes.Contains(answer, []byte("number "+n+".")) {
		err = fmt.Errorf("call %s was answered with %s", n, answer)
	}
	return err
}

// dialGateway opens a session and waits until the tool can be called.
func dialGateway(t *testing.T, address, tool string) *caller {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c := &caller{address: address, tool: tool, conns: make(chan *conn, 64)}
		res, _, err := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
		if err == nil {
			c.session = res.Header.Get("Mcp-Session-Id")
			_, _, err = c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		if err == nil {
			err = c.call()
		}
		if err == nil {
			return c
		}
		if time.Now().After(end) {
			t.Fatalf("the gateway at %s does not answer: %v", address, err)
		}
	}
}

// memory is the resident memory of a process in MiB.
func memory(t *testing.T, pid int) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), "VmRSS:")
	kb, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb / 1024
}

// TestTheGatewayOverHTTP measures the platform, with all that it checks and
// records, beside a plain gateway written with the SDK.
func TestTheGatewayOverHTTP(t *testing.T) {
	server := fastEcho()
	address := freeAddress(t)
	manifests := map[string]string{}
	for _, name := range []string{"one", "two", "three"} {
		text := fmt.Sprintf("type: mcp-server\npackage: %s\nmcp:\n  command: [%q]\n  env:\n", name, server.argv[0])
		for _, e := range server.env {
			k, v, _ := strings.Cut(e, "=")
			text += fmt.Sprintf("    %s: %q\n", k, v)
		}
		manifests[name+".yaml"] = text
	}
	p := startWith(t, manifests, "gateway: {listen: \""+address+"\"}\n")
	ours := dialGateway(t, address, "mcp__one__echo")

	plainAddress := freeAddress(t)
	one := server.argv[0]
	gateway := baseline(t, plainAddress, "one="+one, "two="+one, "three="+one)
	gateway.env = server.env
	base := gateway.command()
	if err := base.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Process.Signal(os.Interrupt); base.Wait() })
	plain := dialGateway(t, plainAddress, "mcp__one__echo")

	micros := func(c *caller) func() float64 {
		return func() float64 { _, p50 := callsFor(t, 1, c.call); return float64(p50.Nanoseconds()) / 1000 }
	}
	a, b, r := paired(micros(ours), micros(plain))
	rows = append(rows, row{"call through the gateway over HTTP, one at a time, p50; a plain one", fmt.Sprintf("%.0f µs", a), fmt.Sprintf("%.0f µs", b), fmt.Sprintf("%.2f", r), "< 1.2"})
	rate := func(c *caller) func() float64 {
		return func() float64 { n, _ := callsFor(t, 32, c.call); return n }
	}
	for range 2 {
		rate(ours)() // what a first load takes is kept for the next one
	}
	before := memory(t, p.cmd.Process.Pid)
	a, b, r = paired(rate(ours), rate(plain))
	after := memory(t, p.cmd.Process.Pid)
	rows = append(rows,
		row{"calls through the gateway over HTTP, 32 at once; a plain one", fmt.Sprintf("%.0f/s", a), fmt.Sprintf("%.0f/s", b), fmt.Sprintf("%.1f", r), ">= 3"},
		row{"memory of the platform after that load; before", fmt.Sprintf("%.0f MiB", after), fmt.Sprintf("%.0f MiB", before), fmt.Sprintf("%.2f", after/before), "<= 1.3"})
}
