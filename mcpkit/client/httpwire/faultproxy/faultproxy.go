// Package faultproxy is a test kit: it stands between a client and an MCP server
// over HTTP and does to chosen requests what networks and proxies do to them.
//
//	p := faultproxy.New(t, server.URL)
//	p.Once(faultproxy.Method("tools/call"), faultproxy.CutAnswer(0)) // the call arrives, its answer does not
//	client.Connect(p.URL)
//
// What no fault is set for passes as it is. The proxy listens on loopback, speaks
// HTTP/1.1 to the client and ends with the test. It knows of MCP only the method
// in a message.
package faultproxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	URL string // instead of the server's

	target string
	http   *http.Client
	over   chan struct{} // closed at the test's end

	mu     sync.Mutex
	rules  []*rule
	frozen chan struct{} // not nil: nothing passes until it is closed
	seen   []Request
}

// Request is a request as it came from the client.
type Request struct {
	Verb   string // of HTTP
	Path   string // with the query
	Method string // of the JSON-RPC message, or empty
	Header http.Header
	Body   []byte
}

// Match chooses requests.
type Match func(Request) bool

// Fault deals with one request in the place of the proxy.
type Fault func(*Exchange)

// rule is a fault for one request.
type rule struct {
	match Match
	fault Fault
}

// New starts a proxy before the server at the URL target.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		target: strings.TrimSuffix(target, "/"), over: make(chan struct{}),
		http: &http.Client{
			Transport:     &http.Transport{DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	s := httptest.NewServer(http.HandlerFunc(p.serve))
	p.URL = s.URL
	t.Cleanup(func() {
		close(p.over)
		s.CloseClientConnections()
		s.Close()
		p.http.CloseIdleConnections()
	})
	return p
}

// Once sets a fault for the next request that matches and has none yet.
func (p *Proxy) Once(m Match, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &rule{m, f})
}

// Freeze makes the way half-open: connections stand and are accepted, and nothing
// passes in either direction. Call the function to end it.
func (p *Proxy) Freeze() (thaw func()) {
	frozen := make(chan struct{})
	p.mu.Lock()
	p.frozen = frozen
	p.mu.Unlock()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.frozen = nil
		p.mu.Unlock()
		close(frozen)
	})
}

// Seen are the requests so far that match, as they came.
func (p *Proxy) Seen(m Match) (list []Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		if m(r) {
			list = append(list, r)
		}
	}
	return list
}

// Method matches requests whose message has the JSON-RPC method.
func Method(name string) Match { return func(r Request) bool { return r.Method == name } }

// Verb matches requests by their HTTP method.
func Verb(name string) Match { return func(r Request) bool { return r.Verb == name } }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	x := &Exchange{Request: Request{Verb: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: body}, p: p, w: w, in: r}
	var m struct{ Method string }
	if json.Unmarshal(body, &m) == nil {
		x.Method = m.Method
	}
	p.mu.Lock()
	p.seen = append(p.seen, x.Request)
	var fault Fault
	for i, rule := range p.rules {
		if rule.match(x.Request) {
			fault = rule.fault
			p.rules = append(p.rules[:i:i], p.rules[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	x.thaw()
	if fault == nil {
		fault = Pass
	}
	fault(x)
}

// Exchange is a request that a fault deals with.
type Exchange struct {
	Request
	p  *Proxy
	w  http.ResponseWriter
	in *http.Request
}

// thaw waits while the proxy is frozen.
func (x *Exchange) thaw() {
	x.p.mu.Lock()
	frozen := x.p.frozen
	x.p.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-x.in.Context().Done():
		case <-x.p.over:
		}
	}
}

// Forward sends the request to the server, or nothing where that fails.
func (x *Exchange) Forward() *http.Response {
	r, err := http.NewRequestWithContext(x.in.Context(), x.Verb, x.p.target+x.Path, bytes.NewReader(x.Body))
	if err != nil {
		return nil
	}
	r.Header = x.Header.Clone()
	resp, err := x.p.http.Do(r)
	if err != nil {
		return nil
	}
	return resp
}

// Relay passes an answer on as it comes, but no more than n bytes of its body, or
// all where n is negative. It reports whether that was all of it.
func (x *Exchange) Relay(resp *http.Response, n int) (whole bool) {
	if resp == nil {
		x.Cut()
		return false
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		x.w.Header()[name] = values
	}
	if resp.ContentLength >= 0 {
		x.w.Header().Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	x.w.WriteHeader(resp.StatusCode)
	out := http.NewResponseController(x.w)
	out.Flush()
	for buf := make([]byte, 4<<10); n != 0; {
		piece := buf
		if n > 0 {
			piece = buf[:min(n, len(buf))]
		}
		read, err := resp.Body.Read(piece)
		x.thaw()
		if _, e := x.w.Write(piece[:read]); e != nil {
			return false
		}
		out.Flush()
		if n > 0 {
			n -= read
		}
		if err != nil {
			return true
		}
	}
	return false
}

// Cut resets the client's connection.
func (x *Exchange) Cut() {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the body has begun: the server itself cuts
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// Pass is no fault.
func Pass(x *Exchange) { x.Relay(x.Forward(), -1) }

// Answer answers in the server's place, which sees nothing of the request. Header
// is lines of "Name: value".
func Answer(status int, body string, header ...string) Fault {
	return func(x *Exchange) {
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			x.w.Header().Set(name, value)
		}
		x.w.WriteHeader(status)
		io.WriteString(x.w, body)
	}
}

// CutRequest resets the connection before the server sees anything.
func CutRequest(x *Exchange) { x.Cut() }

// CutAnswer passes the request on and n bytes of the answer's body back, then it
// resets the connection. With 0 not even the answer's header comes back.
func CutAnswer(n int) Fault {
	return func(x *Exchange) {
		resp := x.Forward()
		if n == 0 {
			if resp != nil {
				resp.Body.Close()
			}
			x.Cut()
			return
		}
		x.Relay(resp, n)
		panic(http.ErrAbortHandler)
	}
}

// Truncate passes n bytes of the answer's body back and ends it as if it were
// whole.
func Truncate(n int) Fault {
	return func(x *Exchange) {
		resp := x.Forward()
		if resp == nil {
			x.Cut()
			return
		}
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
		x.Relay(resp, n)
	}
}

// Delay passes the request on after d.
func Delay(d time.Duration) Fault {
	return func(x *Exchange) {
		select {
		case <-time.After(d):
			Pass(x)
		case <-x.in.Context().Done():
		}
	}
}

// Swallow passes the request on and never answers.
func Swallow(x *Exchange) {
	if resp := x.Forward(); resp != nil {
		defer resp.Body.Close()
	}
	select {
	case <-x.in.Context().Done():
	case <-x.p.over:
	}
}

// Twice passes the request on twice and passes the second answer back, as a proxy
// does that tries again by itself.
func Twice(x *Exchange) {
	if resp := x.Forward(); resp != nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	Pass(x)
}

// Echoed passes the body of the answer back two times over, one behind the other.
func Echoed(x *Exchange) {
	resp := x.Forward()
	if resp == nil {
		x.Cut()
		return
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(append(body, body...)))
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	x.Relay(resp, -1)
}
