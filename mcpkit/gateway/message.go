package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// stateless is the revision from which on there are no sessions: each request
// says who asks (2026-07-28, basic).
const stateless = "2026-07-28"

// Versions are the protocol revisions that clients may speak, newest first.
var Versions = []string{stateless, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Codes of JSON-RPC and of the protocol.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeBusy           = -32000
	CodeHeaderMismatch = -32020 // 2026-07-28: a header contradicts the body
	codeNoCapability   = -32021
	codeVersion        = -32022
)

// Keys of _meta (2026-07-28, basic: meta).
const (
	keyVersion      = "io.modelcontextprotocol/protocolVersion"
	keyClient       = "io.modelcontextprotocol/clientInfo"
	keyCapabilities = "io.modelcontextprotocol/clientCapabilities"
	keyLevel        = "io.modelcontextprotocol/logLevel"
	keyServer       = "io.modelcontextprotocol/serverInfo"
	keySubscription = "io.modelcontextprotocol/subscriptionId"
)

// maxID is how many bytes the id of a request may have.
const maxID = 256

// Message is one JSON-RPC message of a client, its parts as they were sent.
type Message struct {
	ID, Method, Params, Result, Problem []byte
	name                                string // of the method
	p                                   params
}

// Parse reads a message. The error is what to answer where it is none.
func Parse(raw []byte) (*Message, *Error) {
	m, ok := jsonline.Scan(raw)
	if !ok || !utf8.Valid(raw) {
		return nil, &Error{Code: codeParse, Message: "the message is not valid JSON"}
	}
	msg := &Message{ID: m.ID, Method: m.Method, Params: m.Params, Result: m.Result, Problem: m.Error}
	switch {
	case string(m.Version) != `"2.0"`:
		return nil, &Error{Code: codeInvalidRequest, Message: `the message is no JSON-RPC 2.0 message`}
	case m.ID != nil && !validID(m.ID):
		return nil, &Error{Code: codeInvalidRequest, Message: "an id is a string or a whole number of at most 256 bytes"}
	case m.Method == nil && (m.ID == nil || m.Result == nil && m.Error == nil):
		return nil, &Error{Code: codeInvalidRequest, Message: "the message is neither request, notification nor answer", id: m.ID}
	case m.Method == nil:
		return msg, nil
	}
	if msg.name, ok = text(m.Method); !ok {
		return nil, &Error{Code: codeInvalidRequest, Message: "the method is no string", id: m.ID}
	}
	if err := msg.p.read(m.Params); err != nil {
		err.id = m.ID
		return nil, err
	}
	return msg, nil
}

// Name is the method, or "" of an answer.
func (m *Message) Name() string { return m.name }

// IsRequest reports whether the message wants an answer.
func (m *Message) IsRequest() bool { return m.Method != nil && m.ID != nil }

// Stateless reports whether the message says itself which revision it speaks.
func (m *Message) Stateless() bool { return m.p.meta.version != nil }

// Version is the revision that the message says it speaks, or "".
func (m *Message) Version() string { v, _ := text(m.p.meta.version); return v }

// HasMeta reports whether the message has a _meta.
func (m *Message) HasMeta() bool { return m.p.meta.raw != nil }

// Subject is what a request is about: the name of a tool or prompt, or the URI of
// a resource, for the methods that must repeat it in a header (2026-07-28,
// basic/transports: headers).
func (m *Message) Subject() (subject string, has bool) {
	switch m.name {
	case "tools/call", "prompts/get":
		return m.p.name, true
	case "resources/read":
		return m.p.uri, true
	}
	return "", false
}

func validID(id []byte) bool {
	if len(id) > maxID {
		return false
	}
	if id[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil
}

// params are the members of a request's params that the gateway reads.
type params struct {
	name, uri, cursor           string
	arguments, inputs, state    []byte
	ref, argument, context      []byte // of completion/complete
	level, notifications        []byte
	capabilities, version, info []byte // of initialize
	requestID, reason           []byte // of notifications/cancelled
	meta                        meta
}

// meta is what the gateway reads of _meta.
type meta struct {
	raw, token                  []byte
	version, info, capabilities []byte
	level                       []byte
	trace                       signal.Trace
}

func (p *params) read(raw []byte) (err *Error) {
	if raw == nil {
		return nil
	}
	str := func(name string, v []byte, into *string) {
		s, ok := text(v)
		if !ok && err == nil {
			err = &Error{Code: codeInvalidParams, Message: name + " is no string"}
		}
		*into = s
	}
	ok := jsonline.Members(raw, func(name, v []byte) bool {
		switch string(name) {
		case "name":
			str("name", v, &p.name)
		case "uri":
			str("uri", v, &p.uri)
		case "cursor":
			str("cursor", v, &p.cursor)
		case "arguments":
			p.arguments = v
		case "inputResponses":
			p.inputs = v
		case "requestState":
			p.state = v
		case "ref":
			p.ref = v
		case "argument":
			p.argument = v
		case "context":
			p.context = v
		case "level":
			p.level = v
		case "notifications":
			p.notifications = v
		case "capabilities":
			p.capabilities = v
		case "protocolVersion":
			p.version = v
		case "clientInfo":
			p.info = v
		case "requestId":
			p.requestID = v
		case "reason":
			p.reason = v
		case "_meta":
			p.meta.read(v)
		}
		return true
	})
	if !ok {
		return &Error{Code: codeInvalidParams, Message: "params is no object"}
	}
	return err
}

func (m *meta) read(raw []byte) {
	m.raw = raw
	jsonline.Members(raw, func(name, v []byte) bool {
		switch string(name) {
		case "progressToken":
			m.token = v
		case keyVersion:
			m.version = v
		case keyClient:
			m.info = v
		case keyCapabilities:
			m.capabilities = v
		case keyLevel:
			m.level = v
		case "traceparent":
			m.trace.Parent, _ = text(v)
		case "tracestate":
			m.trace.State, _ = text(v)
		case "baggage":
			m.trace.Baggage, _ = text(v)
		}
		return true
	})
}

// text is the string that raw stands for.
func text(raw []byte) (s string, ok bool) {
	if n := len(raw); n < 2 || raw[0] != '"' {
		return "", false
	} else if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : n-1]), true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// quote is s as JSON.
func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage
	id      []byte // of the request that is answered; nil: unknown
}

func (e *Error) Error() string { return e.Message }

// Reply is the whole answer.
func (e *Error) Reply() []byte {
	id := e.id
	if id == nil {
		id = []byte("null")
	}
	b := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"error":{"code":`...)
	b = append(strconv.AppendInt(b, int64(e.Code), 10), `,"message":`...)
	b = append(b, quote(e.Message)...)
	if e.Data != nil {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	return append(b, "}}"...)
}

// Status is the HTTP status that the stateless protocol wants with an error
// (2026-07-28, basic/transports).
func (e *Error) Status() int {
	switch e.Code {
	case codeNoMethod:
		return http.StatusNotFound
	case codeParse, codeInvalidRequest, codeInvalidParams, CodeHeaderMismatch, codeNoCapability, codeVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// For is the error as the answer to a message.
func (e *Error) For(m *Message) *Error {
	out := *e
	out.id = m.ID
	return &out
}

// failure is an error of the platform or a server as JSON-RPC. What a server
// answered is passed on as it is.
func failure(err error) *Error {
	f := fault.From(err)
	if f.Code == fault.Protocol {
		if code, err := strconv.Atoi(string(jsonline.Get(f.Data, "code"))); err == nil {
			message, _ := text(jsonline.Get(f.Data, "message"))
			return &Error{Code: code, Message: message, Data: jsonline.Get(f.Data, "data")}
		}
	}
	out := &Error{Code: codeInternal, Message: f.Message}
	switch f.Code {
	case fault.ToolNotFound, fault.InvalidArguments, fault.AmbiguousCall:
		out.Code = codeInvalidParams
	case fault.Busy:
		out.Code = codeBusy
	}
	out.Data, _ = json.Marshal(f) // a fault always marshals, or there is no data
	return out
}

// result is the answer to a request.
func result(id, raw []byte) []byte {
	b := make([]byte, 0, len(`{"jsonrpc":"2.0","id":,"result":}`)+len(id)+len(raw))
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(b, `,"result":`...), raw...), '}')
}

// notification is a message without an answer.
func notification(method string, params []byte) []byte {
	b := append(append([]byte(`{"jsonrpc":"2.0","method":`), quote(method)...), `,"params":`...)
	return append(append(b, params...), '}')
}

// with is the object raw with member name set to value, at its beginning; members
// with names in drop, and an older one of that name, are left out.
func with(raw []byte, name string, value []byte, drop ...string) []byte {
	b := append(make([]byte, 0, len(raw)+len(name)+len(value)+8), '{')
	if name != "" {
		b = append(append(append(b, quote(name)...), ':'), value...)
	}
	jsonline.Members(raw, func(n, v []byte) bool {
		if string(n) == name || slices.Contains(drop, string(n)) {
			return true
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(string(n))...), ':'), v...)
		return true
	})
	return append(b, '}')
}

var errNoMethod = &Error{Code: codeNoMethod, Message: "method not found"}

func isCancelled(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == fault.Cancelled
}

// OneLine is a message without line ends, which valid JSON has only between tokens.
func OneLine(msg []byte) []byte {
	if bytes.IndexByte(msg, '\n') < 0 && bytes.IndexByte(msg, '\r') < 0 {
		return msg
	}
	out := make([]byte, 0, len(msg))
	for _, c := range msg {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}

// MissingVersion is the answer to a stateless request that does not say so itself.
var MissingVersion = &Error{Code: codeInvalidParams, Message: "_meta has no " + keyVersion}
