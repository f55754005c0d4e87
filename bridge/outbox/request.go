package outbox

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

const (
	maxRequest = 16 << 20 // bytes of a request
	maxTimeout = 24 * time.Hour
	maxName    = 1024
)

// Request is the content of a request's file: one JSON object with these members,
// each at most once, and no other.
type Request struct {
	ID        string          `json:"id,omitempty"` // as in the file's name, where it is given
	Name      string          `json:"name"`         // of the tool, in any full form
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// TimeoutMS bounds the wait for a person's answer, and then the call without
	// progress. Zero is as long as the question is open, and the server's.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Wait makes the request wait for a person, if one is asked. Without it, it is
	// answered with approval_required.
	Wait           bool     `json:"wait,omitempty"`
	Approval       string   `json:"approval,omitempty"`        // handle of an earlier question about the same call
	IdempotencyKey string   `json:"idempotency_key,omitempty"` // a second call with it gets the first one's answer
	Provenance     []string `json:"provenance,omitempty"`      // ids of the calls whose results the arguments came from
	// The trace that the call belongs to (W3C Trace Context and Baggage).
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
	Baggage     string `json:"baggage,omitempty"`
}

// call is the request as a call.
func (r *Request) call(id string) host.Call {
	return host.Call{
		ID: id, Name: r.Name, Arguments: r.Arguments, Entrance: "outbox", Timeout: time.Duration(r.TimeoutMS) * time.Millisecond,
		Trace: signal.Trace{Parent: r.TraceParent, State: r.TraceState, Baggage: r.Baggage},
		Wait:  r.Wait, Approval: r.Approval, IdempotencyKey: r.IdempotencyKey, Provenance: r.Provenance,
	}
}

// readRequest reads and checks the request with an id. Its error says what a
// person has to mend, unless it is an errLater.
func readRequest(path, id string) (*Request, error) {
	data, err := readFile(path, maxRequest)
	if err != nil {
		return nil, err
	}
	req := new(Request)
	switch err := strict.Object(data, req); {
	case err != nil:
		return nil, fmt.Errorf("it is no request: %w", err)
	case req.Name == "" || len(req.Name) > maxName:
		return nil, fmt.Errorf(`"name" is missing, or longer than %d bytes`, maxName)
	case req.ID != "" && req.ID != id:
		return nil, fmt.Errorf(`"id" is %.100q, the file's name says %q`, req.ID, id)
	case req.TimeoutMS < 0 || req.TimeoutMS > maxTimeout.Milliseconds():
		return nil, fmt.Errorf(`"timeout_ms" is %d; it is from 0 to %d`, req.TimeoutMS, maxTimeout.Milliseconds())
	}
	return req, nil
}
