package signal

import (
	"encoding/json"
	"regexp"
	"sync"
)

// Trace says which of its caller's traces something belongs to (W3C Trace Context
// and Baggage), in the words of the headers.
type Trace struct {
	Parent  string `json:"traceparent,omitempty"`
	State   string `json:"tracestate,omitempty"`
	Baggage string `json:"baggage,omitempty"`
}

var parentForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,200})?$`)
})

const maxTrace = 8 << 10 // bytes of tracestate, or of baggage (W3C Baggage, limits)

// Valid is what can be passed on of a trace: a traceparent that has not the form of
// one is left out, with the tracestate that belongs to it.
func (t Trace) Valid() Trace {
	if t == (Trace{}) {
		return t
	}
	if !parentForm().MatchString(t.Parent) {
		t.Parent, t.State = "", ""
	}
	if len(t.State) > maxTrace {
		t.State = ""
	}
	if len(t.Baggage) > maxTrace {
		t.Baggage = ""
	}
	return t
}

// Meta is the trace as the members of _meta that the protocol reserves for it
// (2026-07-28, basic: "_meta"), or nil.
func (t Trace) Meta() json.RawMessage {
	if t == (Trace{}) {
		return nil
	}
	b, _ := json.Marshal(t) // strings always marshal
	return b
}
