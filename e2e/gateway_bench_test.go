//go:build bench

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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
	address, path, session, tool string
	conns                        chan *conn
	n                            atomic.Int64
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
	req := "POST " + c.path + " HTTP/1.1\r\nHost: " + c.address + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
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

// call calls the tool with a text of its own, size bytes or some more, and checks
// that it comes back.
func (c *caller) call(size int) error {
	n := strconv.FormatInt(c.n.Add(1), 10)
	text := "number " + n + "."
	if size > len(text) {
		text = prose(size) + text
	}
	_, answer, err := c.post(`{"jsonrpc":"2.0","id":` + n + `,"method":"tools/call","params":{"name":"` + c.tool + `","arguments":{"message":"` + text + `"}}}`)
	if err == nil && (len(answer) < size || !bytes.Contains(answer, []byte("number "+n+"."))) {
		err = fmt.Errorf("call %s was answered with %.500s", n, answer)
	}
	return err
}

// dialGateway opens a session and waits until the tool can be called.
func dialGateway(t *testing.T, address, path, tool string) *caller {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c := &caller{address: address, path: path, tool: tool, conns: make(chan *conn, 64)}
		res, _, err := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
		if err == nil {
			c.session = res.Header.Get("Mcp-Session-Id")
			_, _, err = c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		if err == nil {
			err = c.call(0)
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

// three are the manifests of three servers of one kind.
func three(server program) map[string]string {
	manifests := map[string]string{}
	for _, name := range []string{"one", "two", "three"} {
		text := fmt.Sprintf("type: mcp-server\npackage: %s\nmcp:\n  command: [%q]\n  env:\n", name, server.argv[0])
		for _, e := range server.env {
			k, v, _ := strings.Cut(e, "=")
			text += fmt.Sprintf("    %s: %q\n", k, v)
		}
		manifests[name+".yaml"] = text
	}
	return manifests
}

// TestTheGatewayOverHTTP measures the platform, with all that it checks and
// records, beside what people put in front of the same servers otherwise: a gateway
// written with the SDK, and a proxy for each server alone that records nothing.
func TestTheGatewayOverHTTP(t *testing.T) {
	server := fastEcho()
	address := freeAddress(t)
	p := startWith(t, three(server), "gateway: {listen: \""+address+"\"}\n")
	ours := dialGateway(t, address, "/mcp", "one__echo")

	others := func(make func(*testing.T, ...string) program, path, tool string) *caller {
		address, one := freeAddress(t), server.argv[0]
		gateway := make(t, address, "one="+one, "two="+one, "three="+one)
		gateway.env = server.env
		cmd := gateway.command()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
		return dialGateway(t, address, path, tool)
	}
	plain := others(baseline, "/mcp", "mcp__one__echo")
	proxied := others(perServerProxy, "/one/mcp", "echo")

	p50 := func(c *caller) func() float64 {
		return func() float64 {
			_, p50 := callsFor(t, 1, func() error { return c.call(0) })
			return float64(p50.Nanoseconds()) / 1000
		}
	}
	rate := func(c *caller, size int) func() float64 {
		return func() float64 { n, _ := callsFor(t, 32, func() error { return c.call(size) }); return n }
	}
	const sdk, proxy = "; a plain gateway of the SDK", "; a proxy per server that records nothing"
	v := turns(rounds, p50(ours), p50(plain), p50(proxied))
	one := "call through the gateway over HTTP, one at a time, p50"
	rows = append(rows,
		row{one + sdk, microseconds(v[0]), microseconds(v[1]), ratios(v[0], v[1]), ""},
		row{one + proxy, microseconds(v[0]), microseconds(v[2]), ratios(v[0], v[2]), "< 1"})

	for range 2 {
		rate(ours, 0)() // what a first load takes is kept for the next one
	}
	before := memory(t, p.cmd.Process.Pid)
	v = turns(rounds, rate(ours, 0), rate(plain, 0), rate(proxied, 0))
	after := memory(t, p.cmd.Process.Pid)
	many := "calls through the gateway over HTTP, 32 at once"
	rows = append(rows,
		row{many + sdk, perSecond(v[0]), perSecond(v[1]), ratios(v[0], v[1]), ">= 4"},
		row{many + proxy, perSecond(v[0]), perSecond(v[2]), ratios(v[0], v[2]), ">= 1.3"},
		row{"memory of the platform after that load; before", fmt.Sprintf("%.0f MiB", after), fmt.Sprintf("%.0f MiB", before), fmt.Sprintf("%.2f", after/before), "<= 1.3"})

	begun := allocated(t, p)
	const counted = 5000
	for range counted {
		if err := ours.call(0); err != nil {
			t.Fatal(err)
		}
	}
	used := allocated(t, p).minus(begun)
	rows = append(rows, row{"allocations of a call through the gateway over HTTP; their bytes",
		fmt.Sprintf("%.0f", used.objects/counted), fmt.Sprintf("%.1f KB", used.bytes/counted/1000), "", "<= 60; 8 KB"})

	for _, size := range []struct {
		bytes int
		words string
		aim   string
	}{{10 << 10, "10 KB", ">= 2.0"}, {1 << 20, "1 MB", ">= 2.8"}} {
		v = turns(3, rate(ours, size.bytes), rate(plain, size.bytes))
		rows = append(rows, row{"the same, arguments and result of " + size.words + sdk, perSecond(v[0]), perSecond(v[1]), ratios(v[0], v[1]), size.aim})
	}
}

// heap is what a process has allocated since it began.
type heap struct{ objects, bytes float64 }

func (h heap) minus(g heap) heap { return heap{h.objects - g.objects, h.bytes - g.bytes} }

// allocated asks a platform for it.
func allocated(t *testing.T, p *platform) (h heap) {
	t.Helper()
	out, err := exec.Command(bin("platform"), "metrics", "--data", p.data).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		switch value, _ := strconv.ParseFloat(f[1], 64); f[0] {
		case "go_memstats_mallocs_total":
			h.objects = value
		case "go_memstats_alloc_bytes_total":
			h.bytes = value
		}
	}
	if h.objects == 0 || h.bytes == 0 {
		t.Fatalf("the metrics do not say what was allocated: %s", out)
	}
	return h
}

// TestACallOverTheAPIWithItsEvents measures the processor time of the platform for
// calls whose ends come to the inbox, where a Brain takes them.
func TestACallOverTheAPIWithItsEvents(t *testing.T) {
	p := startWith(t, three(fastEcho()), "")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(p.data, "platform.sock"))
	}}}
	call := func() error {
		res, err := client.Post("http://platform/v1/calls", "application/json", strings.NewReader(`{"name":"mcp__one__echo","arguments":{"message":"hello"}}`))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err == nil && (res.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("hello"))) {
			err = fmt.Errorf("%s: %s", res.Status, body)
		}
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := call()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	pending := filepath.Join(p.data, "kernel", "inbox", "pending")
	micros := func(atOnce int) func() float64 {
		return func() float64 {
			const calls = 3200
			begun := processCPU(t, p.cmd.Process.Pid)
			var wg sync.WaitGroup
			for range atOnce {
				wg.Go(func() {
					for range calls / atOnce {
						if err := call(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			used := processCPU(t, p.cmd.Process.Pid) - begun
			empty(t, pending)
			return float64(used.Microseconds()) / calls
		}
	}
	for _, atOnce := range []int{1, 32} {
		v := turns(rounds, micros(atOnce))
		rows = append(rows, row{fmt.Sprintf("CPU of a call over the API with its events in the inbox, %d at once", atOnce), microseconds(v[0]), "", "", "<= 280 µs"})
	}
}

// processCPU is the processor time that a process has used, without its children.
func processCPU(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	utime, _ := strconv.ParseInt(f[11], 10, 64)
	stime, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(utime+stime) * 10 * time.Millisecond
}
