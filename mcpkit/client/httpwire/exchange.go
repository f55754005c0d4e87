package httpwire

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/headers"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/outcome"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/request"
	"github.com/aurorabot-dev/platform/mcpkit/client/internal/sse"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

const maxRefusal = 64 << 10 // bytes of an answer that is no success

// exchange is one message on its way to the server and, of a request, the way of
// its answer.
type exchange struct {
	body    []byte
	id      []byte             // raw; nil where no answer is wanted
	method  string             // "" of an answer
	version string             // that the message itself names
	after   chan struct{}      // nothing is sent before it is closed; may be nil
	giveUp  context.CancelFunc // nobody waits for the answer any more; nil of what has none
	denied  bool               // it failed because of who asks, not of what
}

// exchange carries one request and its answer.
func (w *Wire) exchange(ctx context.Context, x *exchange) {
	defer func() {
		x.giveUp()
		w.mu.Lock()
		if w.open[string(x.id)] == x {
			delete(w.open, string(x.id))
		}
		w.mu.Unlock()
		<-w.slots
	}()
	if x.after != nil { // nothing overtakes notifications/initialized
		select {
		case <-x.after:
		case <-ctx.Done():
			return
		}
	}
	f := w.carry(ctx, x)
	if f == nil || ctx.Err() != nil { // answered, or nobody waits
		return
	}
	w.deliver(rpc.Line{ID: x.id, Failed: f})
	w.mu.Lock()
	established := w.version != ""
	w.mu.Unlock()
	if f.Code == fault.SessionExpired || x.denied && established && f.Code == fault.NeedsAuth {
		w.fail(f)
	}
}

// carry sends the request and reads what comes back until it is answered. The
// fault, if any, is what became of it instead.
func (w *Wire) carry(ctx context.Context, x *exchange) *fault.Error {
	limit := time.Duration(0)
	if x.method == "subscriptions/listen" {
		limit = w.o.AnswerTimeout // nobody gives it up
	}
	resp, err := w.post(ctx, x, limit)
	if err != nil {
		return fault.From(err)
	}
	if x.method == "initialize" && resp.StatusCode >= 400 && resp.StatusCode < 500 && !w.isOld() {
		if older, f := w.olderEra(ctx, resp, x); older {
			return f
		}
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return w.refused(resp, x)
	}
	if w.isOld() { // the answer comes by the stream
		resp.Body.Close()
		return nil
	}
	if id := resp.Header.Get(headers.Session); id != "" {
		w.mu.Lock()
		if w.session == "" || x.method == "initialize" { // some begin one when they are probed
			w.session = id
		}
		w.mu.Unlock()
	}
	if outcome.MediaType(resp) == "text/event-stream" {
		return w.stream(ctx, x, resp)
	}
	defer resp.Body.Close()
	return w.single(x, resp)
}

// post sends a message.
func (w *Wire) post(ctx context.Context, x *exchange, limit time.Duration) (*http.Response, error) {
	w.mu.Lock()
	to, version, params := w.url, w.version, w.params
	if w.old != nil {
		to = w.old
	}
	w.mu.Unlock()
	what := x.method
	if what == "" {
		what = "an answer"
	}
	return w.do(ctx, request.Request{Verb: http.MethodPost, To: to, Body: x.body, What: what, Denied: &x.denied, Set: func(h http.Header) {
		h.Set("Accept", "application/json, text/event-stream")
		if x.version != "" {
			version = x.version
			h.Set(headers.Version, version)
		}
		if version >= stateless && x.method != "" {
			m, _ := jsonline.Scan(x.body)
			params.Describe(h, x.method, m.Params)
		}
	}}, limit)
}

// single reads an answer that is one body.
func (w *Wire) single(x *exchange, resp *http.Response) *fault.Error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(w.o.MaxMessage)+1))
	switch {
	case len(body) > w.o.MaxMessage:
		n := max(resp.ContentLength, int64(len(body)))
		w.deliver(rpc.Line{Skipped: n, ID: x.id})
		return nil
	case err != nil:
		return w.server.Cut(err, x.method)
	}
	body = bytes.TrimSpace(body)
	kind := outcome.MediaType(resp)
	switch {
	case len(body) == 0:
		return fault.New(fault.Protocol, "server %s answered %s with status %d and nothing else", w.o.Name, x.method, resp.StatusCode).Unknown()
	case body[0] != '{' && body[0] != '[' || kind == "text/html":
		return fault.New(fault.NotMCP, "what answers at the URL of server %s is no MCP server; it says to %s: %s", w.o.Name, x.method, outcome.Quote(body)).Unknown()
	}
	if !w.message(x, body) {
		return fault.New(fault.Protocol, "server %s answered %s with something else: %s", w.o.Name, x.method, outcome.Quote(body)).Unknown()
	}
	return nil
}

// refused makes what it can of an answer that is no success: a line, where it
// holds a JSON-RPC error, or a fault.
func (w *Wire) refused(resp *http.Response, x *exchange) *fault.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what there is of it
	m, isMessage := jsonline.Scan(bytes.TrimSpace(body))
	isMessage = isMessage && m.Error != nil
	if x.method != "initialize" && outcome.Forgotten(resp, m, isMessage) {
		return fault.New(fault.SessionExpired, "server %s has forgotten the session; %s was not carried out, and a new session is opened", w.o.Name, x.method).Retry()
	}
	ours := isMessage && sameID(m.ID, x.id)
	anonymous := isMessage && (m.ID == nil || string(m.ID) == "null")
	code := resp.StatusCode
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusTooManyRequests:
	case ours, anonymous && code >= 400 && code < 500:
		// The error itself, in an answer to this request.
		b := append([]byte(`{"jsonrpc":"2.0","id":`), x.id...)
		b = append(append(append(b, `,"error":`...), m.Error...), '}')
		w.deliver(rpc.Line{Data: b, Owned: true})
		return nil
	}
	f := w.server.Status(resp, body, x.method)
	if isMessage {
		f.Data = bytes.Clone(m.Error)
	}
	if code == http.StatusTooManyRequests {
		f.Data, _ = json.Marshal(map[string]int64{"retry_after_ms": outcome.RetryAfter(resp).Milliseconds()}) // a number marshals
	}
	return f
}

// message delivers what the server sent and reports whether it answers x, which
// may be nil.
func (w *Wire) message(x *exchange, b []byte) (answered bool) {
	if x != nil && len(b) > 0 && b[0] == '[' { // a batch (2025-03-26, basic: batching)
		jsontext.Elements(b, func(v []byte) bool {
			if m, ok := jsonline.Scan(v); ok {
				answered = answered || w.answers(x, m)
			}
			return true
		})
	} else if m, ok := jsonline.Scan(b); ok && x != nil {
		answered = w.answers(x, m)
	}
	l := rpc.Line{Data: b, Owned: true}
	if x != nil {
		l.For = x.id
	}
	w.deliver(l)
	return answered
}

// answers reports whether m is the answer to x. Of the one that opens a session it
// keeps the version.
func (w *Wire) answers(x *exchange, m jsonline.Message) bool {
	if m.Method != nil || !sameID(m.ID, x.id) {
		return false
	}
	if x.method == "initialize" && m.Result != nil {
		w.mu.Lock()
		w.version = jsontext.String(jsontext.Get(m.Result, "protocolVersion"))
		w.mu.Unlock()
	}
	return true
}

// sameID reports whether two raw ids are the same. Servers that keep all numbers
// as floating point may send one back as such, and some send text.
func sameID(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	number := func(raw []byte) (float64, bool) {
		f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
		return f, err == nil
	}
	x, ok := number(a)
	y, also := number(b)
	return ok && also && x == y
}

const (
	maxResumes = 5 // in a row that bring nothing
)

// stream reads an answer that is a stream of events, and resumes it where it
// breaks and the server has said how (2025-11-25, basic/transports: resumability
// and redelivery). The stateless protocol knows no resuming.
func (w *Wire) stream(ctx context.Context, x *exchange, resp *http.Response) *fault.Error {
	at := sse.Place{Retry: -1}
	for barren := 0; ; {
		events, answered, err := w.events(x, sse.NewReader(resp.Body, w.o.MaxMessage), &at)
		resp.Body.Close()
		switch {
		case answered || ctx.Err() != nil:
			return nil
		case at.ID == "" || w.statelessNow():
			return w.server.Cut(err, x.method)
		}
		if barren++; events > 0 {
			barren = 0
		}
		for resp = nil; resp == nil; barren++ {
			if barren > maxResumes {
				return w.server.Cut(err, x.method)
			}
			if !at.Sleep(ctx, barren) {
				return nil
			}
			again, e := w.get(ctx, at.ID)
			switch {
			case e != nil:
				err = e
			case again.StatusCode == http.StatusOK && outcome.MediaType(again) == "text/event-stream":
				resp = again
			case again.StatusCode >= 500 || again.StatusCode == http.StatusTooManyRequests:
				again.Body.Close()
				at.Retry = max(at.Retry, outcome.RetryAfter(again))
			default:
				defer again.Body.Close()
				if outcome.Forgotten(again, jsonline.Message{}, false) {
					return fault.New(fault.SessionExpired, "server %s has forgotten the session before it answered %s", w.o.Name, x.method).Unknown()
				}
				body, _ := io.ReadAll(io.LimitReader(again.Body, maxRefusal))
				return w.server.Status(again, body, "the resumption of "+x.method).Unknown()
			}
		}
	}
}

// events delivers the messages of a stream until x is answered or it ends; at
// follows. The error is why it ended.
func (w *Wire) events(x *exchange, r *sse.Reader, at *sse.Place) (n int, answered bool, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return n, false, err
		}
		n++
		at.Pass(e)
		switch {
		case e.Name != "" && e.Name != "message", len(bytes.TrimSpace(e.Data)) == 0:
		case e.Skipped > 0:
			id, method := jsonline.Head(e.Data)
			if method == nil && x != nil { // the answer; its id may be beyond what was kept
				id = x.id
			}
			w.deliver(rpc.Line{Skipped: e.Skipped, ID: id, Method: method})
			if method == nil && x != nil {
				return n, true, nil
			}
		case w.message(x, e.Data):
			return n, true, nil
		}
	}
}
