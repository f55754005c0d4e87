// Package amp holds the words of AMP, the Aurora Message Protocol: the envelope
// in which everything that happens reaches a Brain, its rules, and the names of
// its files.
//
// An envelope is one JSON object:
//
//	{"header":  {"protocol":"amp/1.0", "method":"mcp.lifecycle", "message_id":"01J…",
//	             "timestamp":"2026-06-17T14:30:00+08:00",
//	             "source":{"app":"im.polaris.weather","instance":"3"}, "seq":17},
//	 "payload": {"type":"lifecycle.started", "summary":"…", "data":{…}}}
//
// The package knows nothing of MCP and touches no file.
package amp

import (
	"encoding/json"
	"time"
)

// Protocol is the value of every envelope's header.protocol.
const Protocol = "amp/1.0"

// Methods an envelope may carry in header.method: the kind of signal it was made from.
const (
	MethodLifecycle    = "mcp.lifecycle"
	MethodCapability   = "mcp.capability"
	MethodToolResult   = "mcp.tool_result"
	MethodCall         = "mcp.call"
	MethodResource     = "mcp.resource"
	MethodPrompt       = "mcp.prompt"
	MethodNotification = "mcp.notification"
	MethodError        = "mcp.error"
	MethodEvent        = "aurora/event"
)

// Envelope is one event for a Brain.
type Envelope struct {
	Header  Header  `json:"header"`
	Payload Payload `json:"payload"`
}

// Header says what an envelope is and where it came from. The platform writes
// all of it; an app's word decides only MessageID, within the bridge's rules.
type Header struct {
	Protocol      string    `json:"protocol"`
	Method        string    `json:"method"`
	MessageID     string    `json:"message_id"`
	Timestamp     Timestamp `json:"timestamp"`
	Source        Source    `json:"source"`
	Seq           uint64    `json:"seq,omitempty"`            // extension: position among the envelopes of one source, from 1
	CorrelationID string    `json:"correlation_id,omitempty"` // extension: the request or call this answers
	TraceParent   string    `json:"traceparent,omitempty"`    // extension: the caller's trace (W3C Trace Context)
}

// Source is who an envelope speaks of: a server's package or connection name.
type Source struct {
	App      string `json:"app"`
	Instance string `json:"instance,omitempty"`
}

// Payload is what happened.
type Payload struct {
	Type      string          `json:"type"` // dotted, such as message.received
	SessionID string          `json:"session_id,omitempty"`
	Summary   string          `json:"summary,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	ExpireAt  *Timestamp      `json:"expire_at,omitempty"`
}

// Timestamp is a time in RFC 3339 that always carries an offset.
type Timestamp struct{ time.Time }
