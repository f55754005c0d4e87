package amp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Encode is the envelope as it is written to files: one line of JSON without
// HTML escapes, so that text stays readable.
func (e *Envelope) Encode() ([]byte, error) {
	payload, err := e.Payload.Encode()
	if err != nil {
		return nil, err
	}
	return Join(&e.Header, payload)
}

// Encode is the payload's part of [Envelope.Encode]. A bus encodes it before
// it knows the header's id and seq, and adds those with [Join].
func (p *Payload) Encode() ([]byte, error) {
	b, err := encode(p)
	if err != nil {
		return nil, fmt.Errorf("encoding payload of type %.60q: %w", p.Type, err)
	}
	return b, nil
}

// Join makes an encoded envelope of a header and an encoded payload.
func Join(h *Header, payload []byte) ([]byte, error) {
	header, err := encode(h)
	if err != nil {
		return nil, fmt.Errorf("encoding header of %s: %w", h.MessageID, err)
	}
	b := make([]byte, 0, len(`{"header":,"payload":}`)+len(header)+len(payload))
	b = append(append(b, `{"header":`...), header...)
	b = append(append(b, `,"payload":`...), payload...)
	return append(b, '}'), nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
