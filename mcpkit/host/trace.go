package host

import (
	"encoding/json"
	"regexp"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

var parentForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,200})?$`)
})

const maxTrace = 8 << 10 // bytes of tracestate, or of baggage (W3C Baggage, limits)

// known is what can be passed on of a caller's trace: a traceparent that has not
// the form of one is left out, with the tracestate that belongs to it.
func known(t signal.Trace) signal.Trace {
	if t == (signal.Trace{}) {
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

// meta is a trace as the members of _meta that the protocol reserves for it
// (2026-07-28, basic: "_meta"), or nil.
func meta(t signal.Trace) json.RawMessage {
	if t == (signal.Trace{}) {
		return nil
	}
	b, _ := json.Marshal(t) // strings always marshal
	return b
}
