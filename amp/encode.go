package amp

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// Encode is the envelope as it is written to files: one line of JSON without
// HTML escapes, so that text stays readable.
func (e *Envelope) Encode() ([]byte, error) {
	payload, err := e.Payload.Encode()
	if err != nil {
		return nil, err
	}
	return AppendJoined(make([]byte, 0, JoinedSize(&e.Header, payload)), &e.Header, payload)
}

// Encode is the payload's part of [Envelope.Encode]. A bus encodes it before
// it knows the header's id and seq, and adds those with [AppendJoined].
func (p *Payload) Encode() ([]byte, error) {
	b, err := p.append(make([]byte, 0, 128+len(p.SessionID)+len(p.Summary)+len(p.Data)))
	if err != nil {
		return nil, fmt.Errorf("encoding payload of type %.60q: %w", p.Type, err)
	}
	return b, nil
}

func (p *Payload) append(b []byte) ([]byte, error) {
	b = jsontext.AppendQuote(append(b, `{"type":`...), p.Type)
	if p.SessionID != "" {
		b = jsontext.AppendQuote(append(b, `,"session_id":`...), p.SessionID)
	}
	if p.Summary != "" {
		b = jsontext.AppendQuote(append(b, `,"summary":`...), p.Summary)
	}
	if len(p.Data) > 0 {
		var err error
		if b, err = jsontext.AppendCompact(append(b, `,"data":`...), p.Data); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	if p.ExpireAt != nil {
		var err error
		if b, err = p.ExpireAt.append(append(b, `,"expire_at":`...)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// AppendJoined appends an encoded envelope, made of a header and an encoded payload,
// to b. It takes about [JoinedSize] bytes.
func AppendJoined(b []byte, h *Header, payload []byte) ([]byte, error) {
	b, err := h.append(append(b, `{"header":`...))
	if err != nil {
		return nil, fmt.Errorf("encoding header of %s: %w", h.MessageID, err)
	}
	b = append(append(b, `,"payload":`...), payload...)
	return append(b, '}'), nil
}

// JoinedSize is about how many bytes the envelope of a header and an encoded payload
// has.
func JoinedSize(h *Header, payload []byte) int {
	return 300 + len(h.MessageID) + len(h.Source.App) + len(h.Source.Instance) + len(h.CorrelationID) + len(h.TraceParent) + len(payload)
}

func (h *Header) append(b []byte) (_ []byte, err error) {
	b = jsontext.AppendQuote(append(b, `{"protocol":`...), h.Protocol)
	b = jsontext.AppendQuote(append(b, `,"method":`...), h.Method)
	b = jsontext.AppendQuote(append(b, `,"message_id":`...), h.MessageID)
	if b, err = h.Timestamp.append(append(b, `,"timestamp":`...)); err != nil {
		return nil, err
	}
	b = jsontext.AppendQuote(append(b, `,"source":{"app":`...), h.Source.App)
	if h.Source.Instance != "" {
		b = jsontext.AppendQuote(append(b, `,"instance":`...), h.Source.Instance)
	}
	b = append(b, '}')
	if h.Seq != 0 {
		b = strconv.AppendUint(append(b, `,"seq":`...), h.Seq, 10)
	}
	if h.CorrelationID != "" {
		b = jsontext.AppendQuote(append(b, `,"correlation_id":`...), h.CorrelationID)
	}
	if h.TraceParent != "" {
		b = jsontext.AppendQuote(append(b, `,"traceparent":`...), h.TraceParent)
	}
	return append(b, '}'), nil
}

func (t Timestamp) append(b []byte) ([]byte, error) {
	if t.IsZero() {
		return nil, errors.New("timestamp is not set")
	}
	b, err := t.Time.AppendText(append(b, '"'))
	return append(b, '"'), err
}
