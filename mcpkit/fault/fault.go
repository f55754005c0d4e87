// Package fault is the one shape of a failure that callers see: a stable code,
// a sentence, and whether trying again can help.
//
// Apps return it as a business failure, the platform returns it for everything
// that went wrong on the way, and both are written to the wire alike:
//
//	{"ok":false,"error_code":"server_crashed","message":"…","retryable":true}
//
// The platform's own codes are the constants below, in lower snake case; an
// app's codes are its own, in upper snake case by convention
// (WEATHER_PROVIDER_TIMEOUT). The package knows nothing of transports.
package fault

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Codes of the platform. They are part of its interface: a caller may branch on
// them, so a code is never renamed.
const (
	ToolNotFound     = "tool_not_found"      // no tool has that name
	AmbiguousCall    = "tool.ambiguous_call" // several tools could be meant; see Error.Candidates
	InvalidArguments = "invalid_arguments"   // the arguments do not fit the input schema
	InvalidResult    = "invalid_result"      // the result does not fit the output schema
	Denied           = "denied"              // policy or a person said no
	ApprovalRequired = "approval_required"   // a person must agree first
	Timeout          = "timeout"             // the deadline passed; the outcome is unknown
	Cancelled        = "cancelled"           // the caller gave up
	ServerCrashed    = "server_crashed"      // the process ended with the call in flight
	ServerRestarted  = "server_restarted"    // a person or a new manifest restarted it
	ServerUnstable   = "server_unstable"     // it crashed again, soon after an earlier crash
	ServerStopped    = "server_stopped"      // it was stopped, disabled or removed
	ServerNotReady   = "server_not_ready"    // it is starting, or has failed for good
	InputRequired    = "input_required"      // the server wants an answer that nobody may give it
	ResultTooLarge   = "result_too_large"    // the answer exceeds the line limit
	Protocol         = "protocol_error"      // the server answered with a JSON-RPC error or against the protocol
	Busy             = "busy"                // a bounded queue is full
	RateLimited      = "rate_limited"        // policy, or the server itself, allows so many calls and no more; see Error.Data
	NeedsAuth        = "needs_auth"          // the server wants an authorization that the platform does not have
	Unreachable      = "server_unreachable"  // no connection to the server came about; nothing was sent
	ConnectionLost   = "connection_lost"     // the connection broke before the answer was whole
	Unavailable      = "server_unavailable"  // a remote server, or what is before it, answered with status 5xx
	HTTPStatus       = "http_status"         // a remote server answered with a status that is no success
	NotMCP           = "not_mcp"             // what answered is no MCP server, such as a proxy with a page of HTML
	SessionExpired   = "session_expired"     // the server has forgotten the session; a new one is opened
	NotRecorded      = "not_recorded"        // the call must be recorded before it is sent, and that failed, as on a full disk; nothing was sent
	DuplicateCall    = "duplicate_call"      // the idempotency key was used before; nothing was sent again
	Interrupted      = "interrupted"         // the platform ended with the call in flight
	Internal         = "internal"            // a defect of the platform
)

// Outcome says what is known of a failed call's effect.
type Outcome string

const (
	// OutcomeFailed means that the call certainly had no effect, or that the
	// server itself reported the failure.
	OutcomeFailed Outcome = "failed"
	// OutcomeUnknown means that the request was sent and no answer came: the
	// effect may have happened, so nothing may repeat it unasked.
	OutcomeUnknown Outcome = "unknown"
)

// Error is a failure as callers see it. It is an error, and it marshals to the
// shape that the package comment shows.
type Error struct {
	Code       string          // stable, for branching
	Message    string          // one sentence for a person or a model
	Retryable  bool            // the same call may succeed later
	Outcome    Outcome         // empty means OutcomeFailed
	Candidates []string        // names that would have been accepted, for ToolNotFound and AmbiguousCall
	Data       json.RawMessage // further detail, such as a JSON-RPC error's data; may be nil
	Replayed   bool            // it is of an earlier call with the same idempotency key; nothing was sent now
}

// New makes an Error that is not retryable.
func New(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Retry marks e as worth trying again and returns it.
func (e *Error) Retry() *Error { e.Retryable = true; return e }

// Unknown marks the effect of the call as unknown, so that trying again is not
// advised, and returns e.
func (e *Error) Unknown() *Error {
	e.Outcome, e.Retryable = OutcomeUnknown, false
	return e
}

// Error is the message, led by the code.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// wire is Error's JSON.
type wire struct {
	OK         bool            `json:"ok"`
	Code       string          `json:"error_code"`
	Message    string          `json:"message"`
	Retryable  bool            `json:"retryable"`
	Outcome    Outcome         `json:"outcome,omitempty"`
	Candidates []string        `json:"candidates,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Replayed   bool            `json:"replayed,omitempty"`
}

// MarshalJSON writes the one shape of a failure.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{false, e.Code, e.Message, e.Retryable, e.Outcome, e.Candidates, e.Data, e.Replayed})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Error) UnmarshalJSON(b []byte) error {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Error{w.Code, w.Message, w.Retryable, w.Outcome, w.Candidates, w.Data, w.Replayed}
	return nil
}

// From returns err as an *Error: itself if it is or wraps one, else one with
// the code Internal. It returns nil for nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Message: err.Error()}
}
