// Package httpwire carries the JSON-RPC messages of a session to and from a
// server over HTTP: Streamable HTTP of both eras (2025-03-26 to 2025-11-25 with
// sessions, 2026-07-28 without), and HTTP with SSE (2024-11-05) where the server
// turns out to be that old.
//
//	w, err := httpwire.New(httpwire.Options{
//		Name: "search", URL: "https://example.com/mcp", Authorizer: httpwire.Bearer(token),
//	})
//	s, err := manager.Connect(ctx, session.Conn{Server: "search", Wire: w})
//
// Each request is a POST of its own, and what goes wrong with it is told of that
// request alone, as a *fault.Error: whether it surely had no effect, or nobody
// knows. Nothing is sent twice, except after a challenge for authorization, which
// says that nothing was done. Only three things end the wire: the server forgot
// the session, it wants another authorization than the one that it took before,
// or the stream broke by which a server of 2024-11-05 answers.
//
// The package does not open a wire again; whoever keeps servers connected does.
// It knows nothing of what the messages are for, except where the protocol
// repeats it in headers.
package httpwire

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/headers"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/outcome"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/request"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// Options configure a Wire. URL is required; the zero value of each other field
// is a default.
type Options struct {
	Name       string      // of the server, for messages; the host of the URL
	URL        string      // of the MCP endpoint; https, or http to this machine
	Header     http.Header // of every request; what the protocol needs goes before it
	Authorizer Authorizer  // nil: nothing is added, and challenges fail

	MaxMessage  int           // bytes of one message from the server; 16 MiB
	MaxRequests int           // in flight, others wait; 300
	DialTimeout time.Duration // for a connection, TLS included; 15 s
	// AnswerTimeout is for the start of an answer to anything but a request, which
	// whoever made it gives up; 30 s.
	AnswerTimeout time.Duration

	UserAgent string                                // "aurora-platform"
	Proxy     func(*http.Request) (*url.URL, error) // nil: none, whatever the environment says
	TLS       *tls.Config                           // nil: the system's authorities
	Logger    *slog.Logger                          // nil: nothing is logged
}

// Authorizer shows a server who asks; see package request.
type Authorizer = request.Authorizer

// Bearer is the Authorizer of one token that never changes (RFC 6750, section
// 2.1). An empty token adds nothing.
func Bearer(token string) Authorizer { return request.Bearer(token) }

// Wire is a rpc.Wire over HTTP.
type Wire struct {
	o      Options
	server outcome.Server // its name
	url    *url.URL
	log    *slog.Logger
	http   *request.Client

	ctx    context.Context // of everything that the wire has open; ends with it
	cancel context.CancelFunc
	in     chan rpc.Line
	slots  chan struct{} // one taken by each request
	notes  chan *exchange
	ending chan struct{} // closed by CloseSend: the notes that are queued are the last
	noted  chan struct{} // closed when the last of them was sent
	ended  sync.Once     // the server was told
	work   sync.WaitGroup

	mu      sync.Mutex
	closing bool
	broken  error                // why the wire is over; Receive's error then
	version string               // of the protocol, once agreed on
	session string               // Mcp-Session-Id, or empty
	old     *url.URL             // where a server of 2024-11-05 wants its messages
	open    map[string]*exchange // requests in flight, by raw id
	opening chan struct{}        // nil before notifications/initialized, closed when requests may follow
	params  headers.Bound        // arguments that are repeated in headers
}

var _ rpc.Wire = (*Wire)(nil)

const metaVersion = "io.modelcontextprotocol/protocolVersion"

// stateless is the version from which on a request stands for itself: its body
// says who asks, its headers repeat what it is, and there are no sessions
// (2026-07-28, basic/transports: Streamable HTTP).
const stateless = "2026-07-28"

const (
	queueLines = 64  // from the server, not taken by Receive yet
	queueNotes = 256 // notifications and answers on their way to the server
	endTime    = 2 * time.Second
	// listenTime is how long the first requests wait for the stream of what the
	// server says by itself, so that nothing they bring about is missed.
	listenTime = 500 * time.Millisecond
)

// New makes a wire. Nothing is sent before the first message.
func New(o Options) (*Wire, error) {
	u, err := request.CheckURL(o.URL)
	if err != nil {
		return nil, err
	}
	if err := headers.Check(o.Header); err != nil {
		return nil, err
	}
	if o.MaxMessage < 0 || o.MaxRequests < 0 || o.DialTimeout < 0 || o.AnswerTimeout < 0 {
		return nil, errors.New("a limit is negative")
	}
	o.Name = cmp.Or(o.Name, u.Host)
	o.MaxMessage = cmp.Or(o.MaxMessage, 16<<20)
	o.MaxRequests = cmp.Or(o.MaxRequests, 300)
	o.DialTimeout = cmp.Or(o.DialTimeout, 15*time.Second)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 30*time.Second)
	o.UserAgent = cmp.Or(o.UserAgent, "aurora-platform")
	if o.Authorizer == nil {
		o.Authorizer = Bearer("")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Wire{
		o: o, server: outcome.Server(o.Name), url: u, log: o.Logger.With("server", o.Name),
		in:     make(chan rpc.Line, queueLines),
		slots:  make(chan struct{}, o.MaxRequests),
		notes:  make(chan *exchange, queueNotes),
		ending: make(chan struct{}), noted: make(chan struct{}),
		open: map[string]*exchange{},
	}
	w.http = request.New(request.Options{
		Server: o.Name, Header: o.Header, UserAgent: o.UserAgent, Authorizer: o.Authorizer,
		DialTimeout: o.DialTimeout, Proxy: o.Proxy, TLS: o.TLS,
	})
	w.ctx, w.cancel = context.WithCancel(context.Background()) // ends in fail, by Close at the latest
	w.work.Go(w.sendNotes)
	return w, nil
}

// Send sends msg, in a POST of its own if it is a request. It waits while as many
// requests as may be are in flight.
func (w *Wire) Send(ctx context.Context, msg []byte) error {
	x, err := w.prepare(msg)
	if err != nil {
		return err
	}
	if x.id != nil {
		select {
		case w.slots <- struct{}{}:
			return w.start(x)
		case <-ctx.Done():
			return ctx.Err()
		case <-w.ctx.Done():
		}
		return io.ErrClosedPipe
	}
	select {
	case w.notes <- x:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ctx.Done():
	case <-w.ending:
	}
	return io.ErrClosedPipe
}

// TrySend is Send where there is room at once.
func (w *Wire) TrySend(msg []byte) bool {
	x, err := w.prepare(msg)
	if err != nil {
		return false
	}
	if x.id != nil {
		select {
		case w.slots <- struct{}{}:
			return w.start(x) == nil
		default:
			return false
		}
	}
	select {
	case w.notes <- x:
		return true
	default:
		return false
	}
}

// prepare looks into a message for what HTTP has to know of it.
func (w *Wire) prepare(msg []byte) (*exchange, error) {
	m, ok := jsonline.Scan(msg)
	if !ok {
		return nil, errors.New("the message is no JSON object")
	}
	x := &exchange{body: append([]byte{}, msg...), method: jsontext.String(m.Method)}
	if m.Method != nil && m.ID != nil {
		x.id = append([]byte{}, m.ID...)
	}
	x.version = jsontext.String(jsontext.Get(m.Params, "_meta", metaVersion))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing || w.broken != nil {
		return nil, io.ErrClosedPipe
	}
	switch x.method {
	case "notifications/cancelled":
		// What was given up is not read on, whether or not the server stops: without
		// sessions that is how it learns of it (2026-07-28, basic/transports), with
		// them it is told besides.
		if given := w.open[string(jsontext.Get(m.Params, "requestId"))]; given != nil {
			given.giveUp()
		}
	case "initialize":
		for _, probe := range w.open { // nobody waits for it any more
			if probe.method == "server/discover" {
				probe.giveUp()
			}
		}
	case "notifications/initialized":
		w.opening = make(chan struct{})
	case "server/discover": // a question about versions agrees on none
	default:
		w.version = cmp.Or(x.version, w.version)
	}
	x.after = w.opening
	return x, nil
}

// start runs a request that has its slot.
func (w *Wire) start(x *exchange) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing || w.broken != nil {
		<-w.slots
		return io.ErrClosedPipe
	}
	ctx, cancel := context.WithCancel(w.ctx)
	x.giveUp = cancel
	w.open[string(x.id)] = x
	w.work.Go(func() { w.exchange(ctx, x) })
	return nil
}

// sendNotes sends notifications and answers, one after the other, as their order
// matters and nobody waits for an answer.
func (w *Wire) sendNotes() {
	defer close(w.noted)
	for {
		select {
		case x := <-w.notes:
			w.sendNote(x)
			continue
		case <-w.ctx.Done():
			return
		case <-w.ending:
		}
		for {
			select {
			case x := <-w.notes:
				w.sendNote(x)
			default:
				return
			}
		}
	}
}

func (w *Wire) sendNote(x *exchange) {
	if x.method == "notifications/cancelled" && w.statelessNow() {
		return // the end of its stream has said so
	}
	resp, err := w.post(w.ctx, x, w.o.AnswerTimeout)
	switch {
	case err != nil:
		w.log.Debug("a message did not reach the server", "method", x.method, "error", err)
	default:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			w.log.Debug("the server refused a message", "method", x.method, "status", resp.StatusCode, "answer", outcome.Quote(body))
		}
	}
	if x.method != "notifications/initialized" {
		return
	}
	if w.statelessNow() || w.isOld() {
		close(x.after)
		return
	}
	var once sync.Once
	listening := func() { once.Do(func() { close(x.after) }) }
	late := time.AfterFunc(listenTime, listening)
	w.work.Go(func() {
		defer late.Stop()
		defer listening()
		w.listen(listening)
	})
}

// Receive waits for the next message, or for the news that a request failed. Its
// error is io.EOF after CloseSend and Close, or a *fault.Error.
func (w *Wire) Receive() (rpc.Line, error) {
	select {
	case l := <-w.in:
		return l, nil
	case <-w.ctx.Done():
	}
	select {
	case l := <-w.in: // what came before the end counts
		return l, nil
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return rpc.Line{}, w.broken
}

// deliver hands a line to Receive. It waits for room, unless the wire is over.
func (w *Wire) deliver(l rpc.Line) {
	select {
	case w.in <- l:
	case <-w.ctx.Done():
	}
}

// fail ends the wire. Only the first reason counts.
func (w *Wire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = err
	}
	w.cancel()
}

// CloseSend sends what is queued, for no longer than timeout, gives up what is in
// flight, and ends the session (2025-11-25, basic/transports: session
// management). Receive returns io.EOF after what has arrived.
func (w *Wire) CloseSend(timeout time.Duration) {
	w.mu.Lock()
	first := !w.closing
	w.closing = true
	if first {
		close(w.ending)
	}
	w.mu.Unlock()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-w.noted:
	case <-t.C:
	}
	w.endSession(timeout)
	w.fail(io.EOF)
}

// Close gives up everything and waits until it has ended.
func (w *Wire) Close() error {
	w.mu.Lock()
	alive := w.broken == nil
	w.closing = true
	w.mu.Unlock()
	if alive {
		w.endSession(endTime / 2)
	}
	w.fail(io.EOF)
	done := make(chan struct{})
	go func() {
		w.work.Wait()
		w.http.CloseIdle()
		close(done)
	}()
	t := time.NewTimer(endTime)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-t.C:
		return fmt.Errorf("closing the connection to server %s: an authorization does not end", w.o.Name)
	}
}

// endSession tells the server that its session is over.
func (w *Wire) endSession(limit time.Duration) {
	w.ended.Do(func() {
		w.mu.Lock()
		session := w.session
		w.mu.Unlock()
		if session == "" {
			return
		}
		ctx, cancel := context.WithTimeout(w.ctx, limit)
		defer cancel()
		resp, err := w.do(ctx, request.Request{Verb: http.MethodDelete, To: w.url}, limit)
		if err != nil {
			w.log.Debug("the server was not told that its session is over", "error", err)
			return
		}
		resp.Body.Close()
	})
}

// Tools is told of each reading of the server's list of tools, as raw objects.
// It returns for each why it cannot be called over this wire, or "": under the
// stateless protocol a tool whose x-mcp-header is wrong must not be offered
// (2026-07-28, SEP-2243).
func (w *Wire) Tools(list []json.RawMessage) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version < stateless {
		return make([]string, len(list))
	}
	bound, reasons := headers.Bind(list)
	w.params = bound
	return reasons
}

func (w *Wire) statelessNow() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.version >= stateless
}

func (w *Wire) isOld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.old != nil
}

// do sends a request with the version and the session, as far as they are known.
func (w *Wire) do(ctx context.Context, r request.Request, limit time.Duration) (*http.Response, error) {
	set := r.Set
	r.Set = func(h http.Header) {
		w.mu.Lock()
		if w.version != "" {
			h.Set(headers.Version, w.version)
		}
		if w.session != "" {
			h.Set(headers.Session, w.session)
		}
		w.mu.Unlock()
		if set != nil {
			set(h)
		}
	}
	return w.http.Do(ctx, r, limit)
}
