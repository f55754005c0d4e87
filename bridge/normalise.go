package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/internal/large"
	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// methods maps a kind to the header.method of its envelopes. A kind that is not
// here is a defect and becomes mcp.error.
var methods = map[signal.Kind]string{
	signal.ServerStarted:           amp.MethodLifecycle,
	signal.ServerStopping:          amp.MethodLifecycle,
	signal.ServerStopped:           amp.MethodLifecycle,
	signal.ServerCrashed:           amp.MethodLifecycle,
	signal.ServerRestarting:        amp.MethodLifecycle,
	signal.ServerPermanentlyFailed: amp.MethodLifecycle,
	signal.CapabilityChanged:       amp.MethodCapability,
	signal.PermissionRequested:     amp.MethodCall,
	signal.PermissionResolved:      amp.MethodCall,
	signal.CallStarted:             amp.MethodCall,
	signal.ToolStarted:             amp.MethodCall,
	signal.CallCompleted:           amp.MethodCall,
	signal.CallFailed:              amp.MethodCall,
	signal.AmbiguousCall:           amp.MethodCall,
	signal.ToolCompleted:           amp.MethodToolResult,
	signal.ToolFailed:              amp.MethodToolResult,
	signal.ResourceRequested:       amp.MethodResource,
	signal.ResourceObserved:        amp.MethodResource,
	signal.ResourceFailed:          amp.MethodResource,
	signal.PromptRequested:         amp.MethodPrompt,
	signal.PromptExpanded:          amp.MethodPrompt,
	signal.PromptFailed:            amp.MethodPrompt,
	signal.InputRequired:           amp.MethodCall,
	signal.InputResolved:           amp.MethodCall,
	signal.Notification:            amp.MethodNotification,
	signal.AppEvent:                amp.MethodEvent,
	signal.Problem:                 amp.MethodError,
}

// journalOnly reports whether a type only records how something came about; a
// Brain acts on all others.
func journalOnly(typ string) bool {
	switch signal.Kind(typ) {
	case signal.PermissionResolved, signal.CallStarted, signal.ToolStarted, signal.CallCompleted, signal.CallFailed,
		signal.ResourceRequested, signal.ResourceFailed, signal.PromptRequested, signal.PromptExpanded, signal.PromptFailed,
		signal.InputResolved:
		return true
	}
	return false
}

// route says where an envelope goes: the operator's word first, the exact type
// before the longest prefix. A permission that nobody is asked for is a record.
func (b *Bridge) route(env *amp.Envelope, s *signal.Signal) bus.Route {
	typ := env.Payload.Type
	if r, ok := b.o.Routes[typ]; ok {
		return r
	}
	for prefix := typ; len(b.o.Routes) > 0; {
		i := strings.LastIndexByte(prefix, '.')
		if i < 0 {
			break
		}
		prefix = prefix[:i]
		if r, ok := b.o.Routes[prefix+".*"]; ok {
			return r
		}
	}
	if typ == logType && !urgent(env.Payload.Data) {
		return bus.Journal
	}
	if s.RecordOnly || journalOnly(typ) || typ == string(signal.PermissionRequested) && !asks(s.Data) {
		return bus.Journal
	}
	return bus.Inbox
}

// asks reports whether a step waits for a person's answer.
func asks(data any) bool {
	step, ok := data.(*signal.Step)
	return !ok || step.Decision == "ask"
}

// record reports whether a signal only records how something came about: nobody
// waits for it.
func record(s *signal.Signal) bool {
	return s.Ack == nil && (journalOnly(string(s.Kind)) || s.Kind == signal.PermissionRequested && !asks(s.Data))
}

// source is the platform's word on who speaks.
func (b *Bridge) source(s *signal.Signal) amp.Source {
	if s.Server == "" {
		return amp.Source{App: PlatformApp}
	}
	return amp.Source{App: s.Server, Instance: s.Instance}
}

// normalise makes the envelope of a signal, and for an app's event also returns
// the id as the app gave it. An error says why the app's event is none.
func (b *Bridge) normalise(s *signal.Signal) (env *amp.Envelope, id string, err error) {
	method, known := methods[s.Kind]
	if !known {
		return b.envelope(s, amp.MethodError, string(signal.Problem), fmt.Sprintf("unknown signal %q", s.Kind), nil), "", nil
	}
	switch s.Kind {
	case signal.AppEvent:
		return b.appEvent(s)
	case signal.Notification:
		if s.Method == logMethod {
			return b.envelope(s, method, logType, logSummary(s), notification{s.Method, rawJSON(s.Params)}), "", nil
		}
		typ := "mcp.notification." + typeOf(b.o.RedactText(s.Method)) // which also names a file
		summary := s.Summary
		if summary == "" {
			summary = s.Method + " from " + s.Server
		}
		return b.envelope(s, method, typ, summary, notification{s.Method, rawJSON(s.Params)}), "", nil
	}
	return b.envelope(s, method, string(s.Kind), s.Summary, s.Data), "", nil
}

// Log messages of servers (specification 2025-11-25, server/utilities/logging).
const (
	logMethod = "notifications/message"
	logType   = "mcp.notification.message"
)

// logLine is what is read of a log message.
type logLine struct {
	Level  string          `json:"level"`
	Logger string          `json:"logger"`
	Data   json.RawMessage `json:"data"`
}

// logSummary is a log message as one line.
func logSummary(s *signal.Signal) string {
	var l logLine
	if err := json.Unmarshal(s.Params, &l); err != nil {
		return s.Method + " from " + s.Server
	}
	var text string
	if json.Unmarshal(l.Data, &text) != nil {
		text = string(l.Data)
	}
	return strings.TrimSpace(l.Level + " " + l.Logger + ": " + text)
}

// urgent reports whether a log message is a warning or worse: the others are
// for whoever reads the journal.
func urgent(data json.RawMessage) bool {
	var n struct{ Params logLine }
	if err := json.Unmarshal(data, &n); err != nil {
		return false
	}
	switch n.Params.Level {
	case "warning", "error", "critical", "alert", "emergency":
		return true
	}
	return false
}

// notification is the data of mcp.notification.* envelopes.
type notification struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// envelope makes a platform envelope; its id is given by the bus.
func (b *Bridge) envelope(s *signal.Signal, method, typ, summary string, data any) *amp.Envelope {
	at := s.Time
	if at.IsZero() {
		at = time.Now()
	}
	env := &amp.Envelope{
		Header: amp.Header{
			Protocol: amp.Protocol, Method: method, MessageID: s.ID, Timestamp: amp.Timestamp{Time: at},
			Source: b.source(s), CorrelationID: s.CallID, TraceParent: s.Trace.Parent,
		},
		Payload: amp.Payload{Type: typ, Summary: b.summary(summary)},
	}
	if data != nil {
		env.Payload.Data = b.data(data)
	}
	return env
}

// data is the data of a signal without secrets.
func (b *Bridge) data(data any) json.RawMessage {
	raw, err := encode(data)
	if err != nil { // a RawMessage that is no JSON
		raw = jsontext.Quote(fmt.Sprintf("data could not be written: %v", err))
	}
	return b.bound(raw)
}

// encode writes data with <, > and & as they are, since people read the files.
func encode(data any) ([]byte, error) {
	if step, ok := data.(*signal.Step); ok {
		return step.AppendJSON(make([]byte, 0, 400+len(step.Arguments)+len(step.Preview)+len(step.Result)))
	}
	return jsontext.Marshal(data)
}

// appEvent makes the envelope of an aurora/event in either form, a full
// envelope or bare params. Only the payload and the id are the app's word. The
// id is returned as the app gave it, even of a malformed event if it can be made
// out, so that the app can be answered.
func (b *Bridge) appEvent(s *signal.Signal) (*amp.Envelope, string, error) {
	event, err := amp.ParseEvent(s.Params)
	if err != nil {
		return nil, claimedID(s.Params), err
	}
	if amp.Reserved(event.Type) {
		return nil, event.ID(), fmt.Errorf("type: %q belongs to the platform", event.Type)
	}
	if b.o.RedactText(event.Type) != event.Type { // which also names a file
		return nil, event.ID(), errors.New("type: it holds a secret")
	}
	env := b.envelope(s, amp.MethodEvent, event.Type, event.Summary, nil)
	env.Header.MessageID = amp.MintID(s.Server, event.ID())
	env.Payload.SessionID, env.Payload.ExpireAt = b.o.RedactText(event.SessionID), event.ExpireAt
	env.Payload.Data = b.bound(event.Data)
	return env, event.ID(), nil
}

// claimedID finds the id in the params of a malformed event, or returns "".
func claimedID(params json.RawMessage) string {
	var p struct {
		Header struct {
			MessageID any `json:"message_id"`
		} `json:"header"`
		MessageID any `json:"message_id"`
		Key       any `json:"idempotency_key"`
	}
	_ = json.Unmarshal(params, &p) // what can be read is enough
	for _, id := range []any{p.MessageID, p.Header.MessageID, p.Key} {
		if s, ok := id.(string); ok && s != "" {
			return s
		}
	}
	return ""
}

const (
	maxSummary = 500
)

// summary makes one bounded line without secrets.
func (b *Bridge) summary(s string) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); !tidy(s) {
		s = strings.Join(strings.Fields(s), " ")
	}
	return large.Cut(b.o.RedactText(s), maxSummary)
}

// tidy reports whether s is ASCII with single blanks between its words, and no other
// space: nothing is left to be done to it.
func tidy(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < ' ' || c >= utf8.RuneSelf || c == ' ' && (i == 0 || i == len(s)-1 || s[i+1] == ' ') {
			return false
		}
	}
	return true
}

// bound takes secrets out of data and moves it to the store if it is too large.
func (b *Bridge) bound(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return nil
	}
	return b.large.Bound(b.ctx, b.o.Redact(data))
}

// typeOf turns a JSON-RPC method into the tail of a dotted type:
// "notifications/resources/updated" becomes "resources.updated".
func typeOf(method string) string {
	method = strings.TrimPrefix(method, "notifications/")
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '/' || r == ':':
			return '.'
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
			return r
		}
		return '-'
	}, method)
	clean = strings.Join(strings.FieldsFunc(clean, func(r rune) bool { return r == '.' }), ".")
	if clean == "" {
		return "unnamed"
	}
	return large.Cut(clean, 100)
}

// rawJSON returns b if it is JSON, else b as a JSON string, else nil.
func rawJSON(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	if json.Valid(b) {
		return b
	}
	quoted, err := json.Marshal(strings.ToValidUTF8(string(b), "\uFFFD"))
	if err != nil {
		return nil
	}
	return quoted
}
