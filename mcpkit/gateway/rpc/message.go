// Package rpc reads and writes the JSON-RPC messages between the gateway and its
// clients: a message is read to its parts as they were sent, results and errors are
// written, and the members of an object are edited. A [Conn] keeps the requests of
// one conversation that are open, in both directions.
//
//	m, bad := rpc.Parse(line)
//	if bad != nil {
//		stream.Send(bad.Reply())
//	}
//
// It knows the keys, the codes and the revisions of the protocol, and carries no
// request out.
package rpc

import (
	"strconv"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Stateless is the revision from which on there are no sessions: each request
// describes its client (2026-07-28, basic).
const Stateless = "2026-07-28"

// Versions are the protocol revisions that clients may speak, newest first.
var Versions = []string{Stateless, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Keys of _meta (2026-07-28, basic: meta).
const (
	KeyVersion      = "io.modelcontextprotocol/protocolVersion"
	KeyClient       = "io.modelcontextprotocol/clientInfo"
	KeyCapabilities = "io.modelcontextprotocol/clientCapabilities"
	KeyLevel        = "io.modelcontextprotocol/logLevel"
	KeyServer       = "io.modelcontextprotocol/serverInfo"
	KeySubscription = "io.modelcontextprotocol/subscriptionId"
)

// maxID is how many bytes the id of a request may have.
const maxID = 256

// Message is one JSON-RPC message of a client, its parts as they were sent.
type Message struct {
	ID, Method, Params, Result, Problem []byte
	name                                string // of the method
	Members                             Members
}

// Parse reads a message. Where raw is no message, the error is the answer to it.
func Parse(raw []byte) (*Message, *Error) {
	m, ok := jsonline.Scan(raw)
	if !ok || !utf8.Valid(raw) {
		return nil, &Error{Code: CodeParse, Message: "the message is not valid JSON"}
	}
	msg := &Message{ID: m.ID, Method: m.Method, Params: m.Params, Result: m.Result, Problem: m.Error}
	switch {
	case string(m.Version) != `"2.0"`:
		return nil, &Error{Code: CodeInvalidRequest, Message: `the message is no JSON-RPC 2.0 message`}
	case m.ID != nil && !ValidID(m.ID):
		return nil, &Error{Code: CodeInvalidRequest, Message: "an id is a string or a whole number of at most 256 bytes"}
	case m.Method == nil && (m.ID == nil || m.Result == nil && m.Error == nil):
		return nil, &Error{Code: CodeInvalidRequest, Message: "the message is neither request, notification nor answer", id: m.ID}
	case m.Method == nil:
		return msg, nil
	}
	if msg.name = known(m.Method, "tools/call"); msg.name == "" {
		msg.name, ok = Text(m.Method)
	}
	if !ok {
		return nil, &Error{Code: CodeInvalidRequest, Message: "the method is no string", id: m.ID}
	}
	if err := msg.Members.read(m.Params); err != nil {
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
func (m *Message) Stateless() bool { return m.Members.Meta.Version != nil }

// Version is the revision that the message says it speaks, or "".
func (m *Message) Version() string {
	if v := known(m.Members.Meta.Version, Versions...); v != "" {
		return v
	}
	v, _ := Text(m.Members.Meta.Version)
	return v
}

// known is the one of the given strings that a JSON string is, or "".
func known(raw []byte, among ...string) string {
	for _, s := range among {
		if len(raw) == len(s)+len(`""`) && raw[0] == '"' && string(raw[1:len(raw)-1]) == s {
			return s
		}
	}
	return ""
}

// HasMeta reports whether the message has a _meta.
func (m *Message) HasMeta() bool { return m.Members.Meta.Raw != nil }

// Subject is what a request is about: the name of a tool or prompt, or the URI of
// a resource, for the methods that must repeat it in a header (2026-07-28,
// basic/transports: headers).
func (m *Message) Subject() (subject string, has bool) {
	switch m.name {
	case "tools/call", "prompts/get":
		return m.Members.Name, true
	case "resources/read":
		return m.Members.URI, true
	}
	return "", false
}

// ValidID reports whether id is a string or a whole number that is not too long.
func ValidID(id []byte) bool {
	if len(id) > maxID {
		return false
	}
	if id[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil
}

// Members are the members of a request's params that the gateway reads.
type Members struct {
	Name, URI, Cursor           string
	Arguments, Inputs, State    []byte
	Ref, Argument, Context      []byte // of completion/complete
	Level, Notifications        []byte
	Capabilities, Version, Info []byte // of initialize
	RequestID, Reason           []byte // of notifications/cancelled
	Meta                        Meta
}

// Meta is what the gateway reads of _meta.
type Meta struct {
	Raw, Token                  []byte
	Version, Info, Capabilities []byte
	Level                       []byte
	Trace                       signal.Trace
}

func (p *Members) read(raw []byte) (err *Error) {
	if raw == nil {
		return nil
	}
	str := func(name string, v []byte, into *string) {
		s, ok := Text(v)
		if !ok && err == nil {
			err = &Error{Code: CodeInvalidParams, Message: name + " is no string"}
		}
		*into = s
	}
	ok := jsontext.Members(raw, func(name, v []byte) bool {
		switch string(name) {
		case "name":
			str("name", v, &p.Name)
		case "uri":
			str("uri", v, &p.URI)
		case "cursor":
			str("cursor", v, &p.Cursor)
		case "arguments":
			p.Arguments = v
		case "inputResponses":
			p.Inputs = v
		case "requestState":
			p.State = v
		case "ref":
			p.Ref = v
		case "argument":
			p.Argument = v
		case "context":
			p.Context = v
		case "level":
			p.Level = v
		case "notifications":
			p.Notifications = v
		case "capabilities":
			p.Capabilities = v
		case "protocolVersion":
			p.Version = v
		case "clientInfo":
			p.Info = v
		case "requestId":
			p.RequestID = v
		case "reason":
			p.Reason = v
		case "_meta":
			p.Meta.read(v)
		}
		return true
	})
	if !ok {
		return &Error{Code: CodeInvalidParams, Message: "params is no object"}
	}
	return err
}

func (m *Meta) read(raw []byte) {
	m.Raw = raw
	jsontext.Members(raw, func(name, v []byte) bool {
		switch string(name) {
		case "progressToken":
			m.Token = v
		case KeyVersion:
			m.Version = v
		case KeyClient:
			m.Info = v
		case KeyCapabilities:
			m.Capabilities = v
		case KeyLevel:
			m.Level = v
		case "traceparent":
			m.Trace.Parent, _ = Text(v)
		case "tracestate":
			m.Trace.State, _ = Text(v)
		case "baggage":
			m.Trace.Baggage, _ = Text(v)
		}
		return true
	})
}

// Result is the answer to a request.
func Result(id, raw []byte) []byte {
	b := make([]byte, 0, len(`{"jsonrpc":"2.0","id":,"result":}`)+len(id)+len(raw))
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(b, `,"result":`...), raw...), '}')
}

// Notification is a message without an answer.
func Notification(method string, params []byte) []byte {
	b := append(append([]byte(`{"jsonrpc":"2.0","method":`), Quote(method)...), `,"params":`...)
	return append(append(b, params...), '}')
}
