package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

// Conn is the conversation with one client: a session of the older revisions, a
// pipe on which both eras are spoken, or a single request of the stateless one.
// It is safe for concurrent use.
type Conn struct {
	g          *Gateway
	view       *View
	subscriber *subscriber // what it hears unasked; its stream may be nil

	mu      sync.Mutex
	version string // negotiated with initialize; empty before
	caps    json.RawMessage
	calls   map[string]inFlight          // by the id as it was sent
	asked   map[string]chan *rpc.Message // the client's answers, by our id
	nextAsk int64
	mute    bool // the client's input has ended: it answers no question
	closed  bool
}

// inFlight is a request that is being answered.
type inFlight struct {
	cancel context.CancelCauseFunc
	listen bool // it would not end by itself
}

// Conn begins a conversation. out takes what is sent unasked; nil drops it.
func (g *Gateway) Conn(v *View, out rpc.Stream) *Conn {
	return &Conn{g: g, view: v, subscriber: &subscriber{view: v, out: out, level: noLogs}}
}

// Close ends the conversation: what is in flight is cancelled.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	for _, call := range c.calls {
		call.cancel(fault.New(fault.Cancelled, "the client went away"))
	}
	c.endQuestions()
	c.mu.Unlock()
	c.g.remove(c.subscriber)
}

// endInput ends what needs more of a client whose input has ended: requests that
// only listen, and questions.
func (c *Conn) endInput() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
	for _, call := range c.calls {
		if call.listen {
			call.cancel(nil)
		}
	}
	c.endQuestions()
}

// endQuestions ends the wait for the client's answers. The lock is held.
func (c *Conn) endQuestions() {
	for id, answer := range c.asked {
		close(answer)
		delete(c.asked, id)
	}
}

// Version is the revision that was negotiated, or "".
func (c *Conn) Version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// begin counts a request in. The function it returns ends it.
func (c *Conn) begin(ctx context.Context, m *rpc.Message) (context.Context, func(), *rpc.Error) {
	select {
	case c.g.slots <- struct{}{}:
	default:
		return nil, nil, &rpc.Error{Code: rpc.CodeBusy, Message: "the gateway has too many requests at once; try again later"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	id := string(m.ID)
	c.mu.Lock()
	_, twice := c.calls[id]
	full := len(c.calls) >= c.g.o.Limits.PerClient
	ok := !twice && !full && !c.closed
	if ok {
		if c.calls == nil {
			c.calls = map[string]inFlight{}
		}
		c.calls[id] = inFlight{cancel, m.Name() == methodListen}
	}
	c.mu.Unlock()
	if ok {
		return ctx, func() {
			c.mu.Lock()
			delete(c.calls, id)
			c.mu.Unlock()
			cancel(nil)
			<-c.g.slots
		}, nil
	}
	cancel(nil)
	<-c.g.slots
	switch {
	case twice:
		return nil, nil, &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "another request with that id is being answered"}
	case full:
		return nil, nil, &rpc.Error{Code: rpc.CodeBusy, Message: fmt.Sprintf("a client may make %d requests at once", c.g.o.Limits.PerClient)}
	}
	return nil, nil, &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "the session is over"}
}

// Notify takes a notification or an answer of the client.
func (c *Conn) Notify(m *rpc.Message) {
	if m.Method == nil {
		c.answered(m)
		return
	}
	if m.Name() != "notifications/cancelled" || m.Members.RequestID == nil {
		return // initialized, roots/list_changed and what nobody knows change nothing here
	}
	c.mu.Lock()
	call, ok := c.calls[string(m.Members.RequestID)]
	c.mu.Unlock()
	if ok {
		reason, _ := rpc.Text(m.Members.Reason)
		call.cancel(fault.New(fault.Cancelled, "the client gave the call up: %.200s", reason))
	}
}

func (c *Conn) answered(m *rpc.Message) {
	c.mu.Lock()
	answer := c.asked[string(m.ID)]
	delete(c.asked, string(m.ID))
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// ask puts a request to the client on a stream and waits for its answer, an
// object. Without one the error says why.
func (c *Conn) ask(ctx context.Context, out rpc.Stream, method string, params json.RawMessage) (json.RawMessage, *fault.Error) {
	answer := make(chan *rpc.Message, 1)
	c.mu.Lock()
	if c.closed || c.mute {
		c.mu.Unlock()
		return nil, fault.New(fault.Cancelled, "the client went away")
	}
	if len(c.asked) >= c.g.o.Limits.PerClient {
		c.mu.Unlock()
		return nil, fault.New(fault.Busy, "the client has too many questions to answer already")
	}
	c.nextAsk++
	id := strconv.FormatInt(c.nextAsk, 10)
	if c.asked == nil {
		c.asked = map[string]chan *rpc.Message{}
	}
	c.asked[id] = answer
	c.mu.Unlock()

	b := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"method":`...)
	b = append(append(append(b, rpc.Quote(method)...), `,"params":`...), params...)
	if out == nil || !out.Send(append(b, '}')) {
		c.answered(&rpc.Message{ID: []byte(id)})
		return nil, fault.New(fault.InputRequired, "the client cannot be asked: it listens to no stream")
	}
	late := time.NewTimer(answerTime)
	defer late.Stop()
	var why *fault.Error
	select {
	case m := <-answer:
		switch {
		case m == nil:
			return nil, fault.New(fault.Cancelled, "the client went away")
		case m.Problem != nil:
			message, _ := rpc.Text(jsontext.Get(m.Problem, "message"))
			return nil, fault.New(fault.InputRequired, "the client did not answer %s: %.300s", method, message)
		case !jsontext.IsObject(m.Result):
			return nil, fault.New(fault.InputRequired, "the client's answer to %s is no object", method)
		}
		return m.Result, nil
	case <-ctx.Done():
		why = fault.New(fault.Cancelled, "the call was given up while its question waited")
	case <-late.C:
		why = fault.New(fault.InputRequired, "nobody answered within %s", answerTime)
	}
	c.mu.Lock()
	delete(c.asked, id)
	c.mu.Unlock()
	out.Send(rpc.Notification("notifications/cancelled", append(append([]byte(`{"requestId":`), id...), `,"reason":"nobody waits for the answer any more"}`...)))
	return nil, why
}

// request is one request on its way.
type request struct {
	*rpc.Message
	c      *Conn
	out    rpc.Stream      // for what belongs to the request
	modern bool            // it is stateless
	caps   json.RawMessage // what the client can do
}

// Serve answers a request. What belongs to it and comes before the answer goes to
// out. It returns nil, nil where there is nothing to answer any more, and the
// error where the answer is one.
func (c *Conn) Serve(ctx context.Context, m *rpc.Message, out rpc.Stream) ([]byte, *rpc.Error) {
	ctx, end, err := c.begin(ctx, m)
	if err != nil {
		return nil, err.For(m)
	}
	defer end()
	return c.serve(ctx, m, out)
}

// serve is Serve of a request that has begun.
func (c *Conn) serve(ctx context.Context, m *rpc.Message, out rpc.Stream) ([]byte, *rpc.Error) {
	r := &request{Message: m, c: c, out: out, modern: m.Stateless()}
	if err := r.admit(); err != nil {
		return nil, err.For(m)
	}
	reply, err := r.answer(ctx)
	if ctx.Err() != nil && (m.Name() != methodListen || isCancelled(context.Cause(ctx))) {
		return nil, nil // 2025-11-25, basic/utilities/cancellation: no answer then
	}
	if err != nil {
		return nil, err.For(m)
	}
	return reply, nil
}

// admit checks who speaks which revision.
func (r *request) admit() *rpc.Error {
	if r.modern {
		version := r.Version()
		if !slices.Contains(rpc.Versions, version) || version < rpc.Stateless {
			return rpc.UnsupportedVersion(version)
		}
		if r.Members.Meta.Capabilities == nil || !jsontext.IsObject(r.Members.Meta.Capabilities) {
			return &rpc.Error{Code: rpc.CodeInvalidParams, Message: "_meta has no object " + rpc.KeyCapabilities}
		}
		r.caps = r.Members.Meta.Capabilities
		return nil
	}
	r.c.mu.Lock()
	version := r.c.version
	r.caps = r.c.caps
	r.c.mu.Unlock()
	if version == "" && r.Name() != "initialize" && r.Name() != "ping" {
		return &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "initialize comes first"}
	}
	return nil
}

// answer carries a request out.
func (r *request) answer(ctx context.Context) ([]byte, *rpc.Error) {
	if strings.HasSuffix(r.Name(), "/list") {
		r.c.g.await(ctx)
	}
	switch r.Name() {
	case "tools/call":
		return r.call(ctx)
	case "tools/list":
		page, err := r.c.view.offer(r.c.g.o.Host.Table()).page(r.Members.Cursor)
		return r.reply(page, cacheable), err
	case "resources/list":
		return r.list(ctx, "resources", "uri", r.c.g.o.Host.Resources, exportedURI)
	case "resources/templates/list":
		return r.list(ctx, "resourceTemplates", "uriTemplate", r.c.g.o.Host.ResourceTemplates, exportedURI)
	case "resources/read":
		return r.read(ctx)
	case "prompts/list":
		return r.list(ctx, "prompts", "name", r.c.g.o.Host.Prompts, exportedPrompt)
	case "prompts/get":
		return r.get(ctx)
	case "completion/complete":
		return r.complete(ctx)
	}
	if r.modern {
		switch r.Name() {
		case "server/discover":
			return r.discover(), nil
		case methodListen:
			return r.listen(ctx)
		}
		return nil, errNoMethod
	}
	switch r.Name() {
	case "initialize":
		return r.initialize()
	case "ping":
		return r.reply(nil, 0), nil
	case "logging/setLevel":
		return r.setLevel(ctx)
	case "resources/subscribe":
		return r.subscribe(ctx)
	case "resources/unsubscribe":
		return r.unsubscribe()
	}
	return nil, errNoMethod
}

// capabilities are what every client is offered.
const capabilities = `"capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},` +
	`"prompts":{"listChanged":true},"completions":{},"logging":{}}`

// initialize opens a session (2025-11-25, basic/lifecycle).
func (r *request) initialize() ([]byte, *rpc.Error) {
	asked, ok := rpc.Text(r.Members.Version)
	if !ok {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "initialize names no protocolVersion"}
	}
	version := asked
	if !slices.Contains(rpc.Versions, version) || version >= rpc.Stateless {
		version = rpc.Versions[1] // the newest with sessions
	}
	r.c.mu.Lock()
	again := r.c.version != ""
	if !again {
		r.c.version = version
		if jsontext.IsObject(r.Members.Capabilities) {
			r.c.caps = slices.Clone(r.Members.Capabilities)
		}
	}
	r.c.mu.Unlock()
	if again {
		return nil, &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "the session is open already"}
	}
	r.c.subscriber.changes = [lists]bool{true, true, true}
	if !r.c.g.add(r.c.subscriber) {
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "the gateway has too many sessions"}
	}
	b := append(append([]byte(`"protocolVersion":`), rpc.Quote(version)...), `,`+capabilities+`,"serverInfo":`...)
	return r.reply(append(b, r.c.g.self...), 0), nil
}

// discover says what is spoken and offered (2026-07-28, server/discover).
func (r *request) discover() []byte {
	versions, _ := json.Marshal(rpc.Versions) // strings always marshal
	b := append(append([]byte(`"supportedVersions":`), versions...), `,`+capabilities...)
	return r.reply(b, cacheable)
}

// maxBatch is how many messages one batch may have.
const maxBatch = 64

// ServeBatch answers several messages at once (2025-03-26, basic: batching). It
// returns nil where none of them wants an answer.
func (c *Conn) ServeBatch(ctx context.Context, raw []byte, out rpc.Stream) ([]byte, *rpc.Error) {
	var parts [][]byte
	if !jsontext.Elements(raw, func(v []byte) bool { parts = append(parts, v); return true }) || !utf8.Valid(raw) {
		return nil, &rpc.Error{Code: rpc.CodeParse, Message: "the batch is not valid JSON"}
	}
	if len(parts) == 0 || len(parts) > maxBatch {
		return nil, &rpc.Error{Code: rpc.CodeInvalidRequest, Message: fmt.Sprintf("a batch has from 1 to %d messages", maxBatch)}
	}
	replies := make([][]byte, len(parts))
	var work sync.WaitGroup
	for i, part := range parts {
		m, bad := rpc.Parse(part)
		switch {
		case bad != nil:
			replies[i] = bad.Reply()
		case !m.IsRequest():
			c.Notify(m)
		default:
			work.Go(func() {
				reply, err := c.Serve(ctx, m, out)
				if err != nil {
					reply = err.Reply()
				}
				replies[i] = reply
			})
		}
	}
	work.Wait()
	replies = slices.DeleteFunc(replies, func(r []byte) bool { return r == nil })
	if len(replies) == 0 {
		return nil, nil
	}
	return append(append([]byte{'['}, bytes.Join(replies, []byte{','})...), ']'), nil
}

var errNoMethod = &rpc.Error{Code: rpc.CodeNoMethod, Message: "method not found"}

func isCancelled(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == fault.Cancelled
}
