package amp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"
)

// Fault is one thing wrong with an envelope or event. Errors of [Parse],
// [ParseEvent] and [Envelope.Validate] are a *multierror.Error of these.
type Fault struct {
	Path   string // such as header.source.app; empty for the whole
	Reason string
}

func (f *Fault) Error() string {
	if f.Path == "" {
		return f.Reason
	}
	return f.Path + ": " + f.Reason
}

// Parse reads an envelope strictly: the required fields are there, every field
// has its type and form, and nothing is there that this package does not
// document (a _meta beside header and payload, which MCP allows in any params,
// is ignored). The error names every fault.
func Parse(raw []byte) (*Envelope, error) {
	r := new(reader)
	e := new(Envelope)
	if !utf8.Valid(raw) {
		r.fault("", "is not valid UTF-8")
		return nil, r.err()
	}
	top := r.object("", raw)
	if top == nil {
		return nil, r.err()
	}
	if h := r.object("header", top.need("header")); h != nil {
		e.Header = h.header()
	}
	if p := r.object("payload", top.need("payload")); p != nil {
		e.Payload = p.payload()
	}
	top.take("_meta")
	top.rest()
	if err := r.err(); err != nil {
		return nil, err
	}
	return e, nil
}

// Event is what an app says of something that happened, in the params of
// aurora/event. The platform makes the envelope, so an event names no source.
type Event struct {
	MessageID      string // the app's own id, see [MintID]; may be empty
	IdempotencyKey string // stands for the id where there is none; may be empty
	Type           string
	SessionID      string
	Summary        string
	Data           json.RawMessage // any JSON value; nil where there was none
	ExpireAt       *Timestamp
}

// ID is the id of the event as the app gave it: its message id, else its
// idempotency key, else nothing.
func (e *Event) ID() string {
	if e.MessageID != "" {
		return e.MessageID
	}
	return e.IdempotencyKey
}

// ParseEvent reads the params of aurora/event, either bare
//
//	{"type":"timer.triggered", "message_id":"…", "session_id":"…", "summary":"…",
//	 "data":{…}, "expire_at":"2026-06-17T14:35:00+08:00", "idempotency_key":"…"}
//
// or a full envelope, to which the rules of [Parse] apply. In the bare form
// only the type is required; an optional field that is null or "" counts as
// absent. Bytes that are not UTF-8 are replaced. The error names every fault.
func ParseEvent(raw []byte) (*Event, error) {
	raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	r := new(reader)
	o := r.object("", raw)
	if o == nil {
		return nil, r.err()
	}
	if o.fields["header"] != nil || o.fields["payload"] != nil {
		env, err := Parse(raw)
		if err != nil {
			return nil, err
		}
		p := env.Payload
		return &Event{MessageID: env.Header.MessageID, Type: p.Type, SessionID: p.SessionID,
			Summary: p.Summary, Data: p.Data, ExpireAt: p.ExpireAt}, nil
	}
	e := &Event{
		MessageID:      o.optional("message_id"),
		IdempotencyKey: o.optional("idempotency_key"),
	}
	p := o.payload()
	e.Type, e.SessionID, e.Summary, e.Data, e.ExpireAt = p.Type, p.SessionID, p.Summary, p.Data, p.ExpireAt
	o.take("_meta")
	o.rest()
	if err := r.err(); err != nil {
		return nil, err
	}
	return e, nil
}

// Validate checks an envelope made in Go by the rules of [Parse].
func (e *Envelope) Validate() error {
	r := new(reader)
	h := &e.Header
	r.checkProtocol(h.Protocol)
	r.checkText("header.method", h.Method)
	r.checkID("header.message_id", h.MessageID)
	r.checkText("header.source.app", h.Source.App)
	r.checkType("payload.type", e.Payload.Type)
	if h.Timestamp.IsZero() {
		r.fault("header.timestamp", "is missing")
	}
	if e.Payload.ExpireAt != nil && e.Payload.ExpireAt.IsZero() {
		r.fault("payload.expire_at", "is not a time")
	}
	if len(e.Payload.Data) > 0 && !json.Valid(e.Payload.Data) {
		r.fault("payload.data", "is not JSON")
	}
	return r.err()
}

// MaxLength bounds ids and types, in bytes.
const MaxLength = 140

// reader collects the faults of one document.
type reader struct{ faults *multierror.Error }

func (r *reader) fault(path, format string, args ...any) {
	r.faults = multierror.Append(r.faults, &Fault{path, fmt.Sprintf(format, args...)})
}

func (r *reader) err() error { return r.faults.ErrorOrNil() }

// object is one JSON object whose fields are taken out one by one; what remains is unknown.
type object struct {
	*reader
	path   string
	order  []string
	fields map[string]json.RawMessage
}

// object reads one level of raw. It keeps key case and notices a key given
// twice, which encoding/json does not. A nil raw was reported before.
func (r *reader) object(path string, raw json.RawMessage) *object {
	if raw == nil {
		return nil
	}
	if k := kind(raw); k != "an object" {
		r.fault(path, "want an object, got %s", k)
		return nil
	}
	o := &object{reader: r, path: path, fields: map[string]json.RawMessage{}}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, err := d.Token()
	for err == nil && d.More() {
		var key json.Token
		if key, err = d.Token(); err != nil {
			break
		}
		var v json.RawMessage
		if err = d.Decode(&v); err != nil {
			break
		}
		k := key.(string)
		if _, twice := o.fields[k]; twice {
			r.fault(o.at(k), "is given twice")
		} else {
			o.order = append(o.order, k)
		}
		o.fields[k] = v
	}
	if err == nil {
		_, err = d.Token()
	}
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("text after the object")
		}
	}
	if err != nil {
		r.fault(path, "is not JSON: %v", err)
		return nil
	}
	return o
}

// at is the path of a field; a key from outside is quoted where it holds more than a name does.
func (o *object) at(name string) string {
	if quoted := strconv.Quote(name); len(name) > 60 || quoted != `"`+name+`"` || name == "" {
		name = fmt.Sprintf("%.60q", name)
	}
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// take removes a field; a null one counts as absent.
func (o *object) take(name string) json.RawMessage {
	v := o.fields[name]
	delete(o.fields, name)
	if string(v) == "null" {
		return nil
	}
	return v
}

func (o *object) need(name string) json.RawMessage {
	_, present := o.fields[name]
	v := o.take(name)
	switch {
	case v == nil && present:
		o.fault(o.at(name), "is null")
	case v == nil:
		o.fault(o.at(name), "is missing")
	}
	return v
}

func (o *object) rest() {
	for _, k := range o.order {
		if _, left := o.fields[k]; left {
			o.fault(o.at(k), "is not a known field")
		}
	}
}

func (o *object) text(name string, v json.RawMessage) string {
	if v == nil {
		return ""
	}
	if k := kind(v); k != "a string" {
		o.fault(o.at(name), "want a string, got %s", k)
		return ""
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		o.fault(o.at(name), "%v", err)
	}
	return s
}

func (o *object) optional(name string) string { return o.text(name, o.take(name)) }

// required reads a string that must be there and passes it to check, unless
// it was already found at fault.
func (o *object) required(name string, check func(path, s string)) string {
	v := o.need(name)
	if v == nil {
		return ""
	}
	s := o.text(name, v)
	if kind(v) == "a string" {
		check(o.at(name), s)
	}
	return s
}

func (o *object) time(name string, v json.RawMessage) (t Timestamp) {
	if v != nil {
		if err := t.UnmarshalJSON(v); err != nil {
			o.fault(o.at(name), "%v", err)
		}
	}
	return t
}

func (o *object) header() (h Header) {
	h.Protocol = o.required("protocol", func(_, s string) { o.checkProtocol(s) })
	h.Method = o.required("method", o.checkText)
	h.MessageID = o.required("message_id", o.checkID)
	h.Timestamp = o.time("timestamp", o.need("timestamp"))
	if s := o.object(o.at("source"), o.need("source")); s != nil {
		h.Source.App = s.required("app", o.checkText)
		h.Source.Instance = s.optional("instance")
		s.rest()
	}
	if v := o.take("seq"); v != nil {
		if err := json.Unmarshal(v, &h.Seq); err != nil {
			o.fault(o.at("seq"), "want a whole number from 0, got %s", kind(v))
		}
	}
	h.CorrelationID = o.optional("correlation_id")
	h.TraceParent = o.optional("traceparent")
	o.rest()
	return h
}

// payload takes the fields of a payload, which are also those of a bare event.
func (o *object) payload() (p Payload) {
	p.Type = o.required("type", o.checkType)
	p.SessionID = o.optional("session_id")
	p.Summary = o.optional("summary")
	p.Data = o.take("data")
	if v := o.take("expire_at"); v != nil && string(v) != `""` {
		t := o.time("expire_at", v)
		p.ExpireAt = &t
	}
	if o.path != "" { // a bare event has more fields to take
		o.rest()
	}
	return p
}

func (r *reader) checkProtocol(s string) {
	if s != Protocol {
		r.fault("header.protocol", "want %q, got %.40q", Protocol, s)
	}
}

func (r *reader) checkText(path, s string) {
	if s == "" {
		r.fault(path, "is empty")
	}
}

func (r *reader) checkID(path, s string) {
	switch {
	case s == "":
		r.fault(path, "is empty")
	case len(s) > MaxLength:
		r.fault(path, "has %d bytes, more than %d", len(s), MaxLength)
	}
}

func (r *reader) checkType(path, s string) {
	switch {
	case s == "":
		r.fault(path, "is empty")
	case len(s) > MaxLength:
		r.fault(path, "has %d bytes, more than %d", len(s), MaxLength)
	case !ValidType(s):
		r.fault(path, "%.60q is not words of letters, digits, - and _ joined by dots", s)
	}
}

// kind names what a JSON text is, for messages.
func kind(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	switch c := raw[0]; {
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	}
	return "no JSON"
}
