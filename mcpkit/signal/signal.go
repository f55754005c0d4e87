// Package signal holds the words for what the platform observed: a server came
// up, a call ended, an app spoke. The kits emit signals to a [Sink] and know
// nothing of what becomes of them; the bridge turns them into AMP envelopes.
//
// A signal is a fact about one server. Signals of one server are emitted in the
// order in which they happened.
package signal

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Kind names a fact. The kinds of a tool call form a chain with one CallID.
type Kind string

const (
	ServerStarted           Kind = "lifecycle.started" // the session is initialized; Lifecycle
	ServerStopping          Kind = "lifecycle.stopping"
	ServerStopped           Kind = "lifecycle.stopped" // ended because it was told to
	ServerCrashed           Kind = "lifecycle.crashed" // ended, hung or failed to start by itself
	ServerRestarting        Kind = "lifecycle.restarting"
	ServerPermanentlyFailed Kind = "lifecycle.permanently_failed"

	CapabilityChanged Kind = "capability.changed" // Capability

	PermissionRequested Kind = "permission.requested" // Step, as all kinds of a call
	PermissionResolved  Kind = "permission.resolved"
	CallStarted         Kind = "mcp.call.started"
	ToolStarted         Kind = "tool.started"
	CallCompleted       Kind = "mcp.call.completed"
	CallFailed          Kind = "mcp.call.failed"
	ToolCompleted       Kind = "tool.completed"
	ToolFailed          Kind = "tool.failed"
	AmbiguousCall       Kind = "tool.ambiguous_call"
	InputRequired       Kind = "tool.input_required" // Input: the call waits for somebody's answer
	InputResolved       Kind = "tool.input_resolved" // Input: it waits no longer

	ResourceRequested Kind = "resource.requested" // Resource
	ResourceObserved  Kind = "resource.observed"
	ResourceFailed    Kind = "resource.failed"
	PromptRequested   Kind = "mcp.prompt.requested" // Prompt
	PromptExpanded    Kind = "mcp.prompt.expanded"
	PromptFailed      Kind = "mcp.prompt.failed"

	Notification Kind = "mcp.notification" // a server's own notification: Method, Params
	AppEvent     Kind = "aurora/event"     // an app's event: Params, Ack
	Problem      Kind = "mcp.error"        // Fault
)

// Signal is one observed fact.
type Signal struct {
	Kind     Kind
	Server   string    // the server's identity, set by the platform, never by the server
	Instance string    // which process of that server, such as its start number; may be empty
	Time     time.Time // when it was observed
	CallID   string    // the tool call it belongs to; may be empty
	Summary  string    // one line for a person
	Trace    Trace     // of who asked for it; may be empty

	// Data is what the kind's comment names (*Lifecycle, *Capability, *Step,
	// *Resource, *Prompt, *Input, *Fault), or nil.
	Data any

	// Method and Params are a notification as it came, for Notification and AppEvent.
	Method string
	Params json.RawMessage

	// RecordOnly says that nobody asked for it: by default it is recorded and not
	// delivered.
	RecordOnly bool

	// Before are signals that were observed earlier, tell how this one came about
	// and are recorded with it as one record, in this order and ahead of it: the
	// steps of a call that has ended. They have the Server of this one, and neither
	// ID, Ack nor Before.
	Before []Signal

	// ID, if set, is the identity of what the signal becomes: a second signal with
	// the same ID is a duplicate. Of an AppEvent the app's own id counts instead.
	ID string

	// Ack, if set, is called once with the signal's fate as soon as it is decided:
	// accepted and duplicate mean that it is durable. It must not block.
	Ack func(Ack)
}

// All are the signals before s, and then s itself.
func (s Signal) All() iter.Seq[Signal] {
	return func(yield func(Signal) bool) {
		for _, before := range s.Before {
			if !yield(before) {
				return
			}
		}
		yield(s)
	}
}

// Ack is the fate of a signal.
type Ack struct {
	ID     string // of an AppEvent the message id or idempotency key as the app gave it
	Status string // AckAccepted, AckDuplicate or AckRejected
	Reason string // why it was rejected
}

const (
	AckAccepted  = "accepted"
	AckDuplicate = "duplicate"
	AckRejected  = "rejected"
)

// Sink takes signals. Observe returns when the signal is in a bounded queue or
// ctx is done: a slow sink holds its sources back instead of losing anything.
// It is safe for concurrent use; order is kept per calling goroutine.
type Sink interface {
	Observe(ctx context.Context, s Signal) error
}

// SinkFunc is a function that is a Sink.
type SinkFunc func(context.Context, Signal) error

// Observe calls f.
func (f SinkFunc) Observe(ctx context.Context, s Signal) error { return f(ctx, s) }

// Discard is a Sink that takes everything and keeps nothing.
var Discard Sink = SinkFunc(func(context.Context, Signal) error { return nil })

// Lifecycle is the data of the lifecycle kinds. Durations are in milliseconds.
type Lifecycle struct {
	PID             int      `json:"pid,omitempty"`
	Attempt         int      `json:"attempt,omitempty"`          // consecutive crashes so far
	Cause           string   `json:"cause,omitempty"`            // a stable word: exit, signal, start_timeout, hung, spawn_failed, protocol, limit, connect_failed, disconnected, session_expired, needs_auth, requested, restart, changed, disabled, removed, shutdown
	Reason          string   `json:"reason,omitempty"`           // the cause as a sentence
	ExitCode        *int     `json:"exit_code,omitempty"`        // nil where it was ended by a signal or never ran
	ExitSignal      string   `json:"exit_signal,omitempty"`      // such as SIGKILL
	Stderr          []string `json:"stderr,omitempty"`           // the last lines, secrets removed
	BackoffMS       int64    `json:"backoff_ms,omitempty"`       // pause before the next start
	UptimeMS        int64    `json:"uptime_ms,omitempty"`        // of the process that ended
	StartMS         int64    `json:"start_ms,omitempty"`         // spawn to ready
	ProtocolVersion string   `json:"protocol_version,omitempty"` // negotiated
	ServerName      string   `json:"server_name,omitempty"`      // what the server calls itself
	ServerVersion   string   `json:"server_version,omitempty"`
	Tools           int      `json:"tools,omitempty"`
}

// Capability is the data of CapabilityChanged: how one list of a server differs
// from before.
type Capability struct {
	List        string   `json:"list"` // tools, resources or prompts
	Added       []string `json:"added,omitempty"`
	Removed     []string `json:"removed,omitempty"`
	Changed     []string `json:"changed,omitempty"`
	Count       int      `json:"count"`
	Fingerprint string   `json:"fingerprint,omitempty"`
}

// Step is the data of every kind in a call's chain.
type Step struct {
	CallID     string          `json:"call_id"`
	Server     string          `json:"server,omitempty"`
	Tool       string          `json:"tool"` // canonical name, or the name as called when nothing matched
	Entrance   string          `json:"entrance,omitempty"`
	Risk       string          `json:"risk,omitempty"`
	Decision   string          `json:"decision,omitempty"` // allow, ask, deny; once resolved also open, where nobody has answered yet
	Approval   string          `json:"approval,omitempty"` // handle of the question that a person is asked
	Actor      string          `json:"actor,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Preview    string          `json:"preview,omitempty"`
	Size       int64           `json:"size,omitempty"`        // of the result, bytes
	DurationMS int64           `json:"duration_ms,omitempty"` // without WaitedMS
	WaitedMS   int64           `json:"waited_ms,omitempty"`   // for a person's answer
	IsError    bool            `json:"is_error,omitempty"`
	ErrorCode  string          `json:"error_code,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Outcome    string          `json:"outcome,omitempty"`
	Retryable  bool            `json:"retryable,omitempty"`
	Candidates []string        `json:"candidates,omitempty"`
	Artifact   json.RawMessage `json:"artifact,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"` // whole, where the event is the answer and there is no artifact
	Flags      []string        `json:"flags,omitempty"`
	Replayed   bool            `json:"replayed,omitempty"` // the answer of an earlier call with the same idempotency key; nothing was sent
}

// Resource is the data of the kinds of a resource's reading.
type Resource struct {
	CallID    string          `json:"call_id,omitempty"`
	URI       string          `json:"uri"`
	Entrance  string          `json:"entrance,omitempty"`
	MIME      string          `json:"mime_type,omitempty"`
	Size      int64           `json:"size,omitempty"` // of the result, bytes
	SHA256    string          `json:"sha256,omitempty"`
	Artifact  json.RawMessage `json:"artifact,omitempty"`
	Flags     []string        `json:"flags,omitempty"`
	ErrorCode string          `json:"error_code,omitempty"`
	Reason    string          `json:"reason,omitempty"`
}

// Prompt is the data of the kinds of a prompt's expansion. The messages are not in it.
type Prompt struct {
	CallID    string          `json:"call_id"`
	Prompt    string          `json:"prompt"`
	Entrance  string          `json:"entrance,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // an object of strings
	Messages  int             `json:"messages,omitempty"`
	Size      int64           `json:"size,omitempty"` // of the result, bytes
	SHA256    string          `json:"sha256,omitempty"`
	Flags     []string        `json:"flags,omitempty"`
	ErrorCode string          `json:"error_code,omitempty"`
	Reason    string          `json:"reason,omitempty"`
}

// Input is the data of InputRequired and InputResolved: what a server wants to
// know in the middle of a call, and what became of the question.
type Input struct {
	CallID    string     `json:"call_id"`
	Server    string     `json:"server"`
	Subject   string     `json:"subject"` // canonical name of the tool, URI of the resource, or name of the prompt
	Entrance  string     `json:"entrance,omitempty"`
	Round     int        `json:"round"` // from 1
	Questions []Question `json:"questions,omitempty"`
	AskedAt   string     `json:"asked_at,omitempty"`   // RFC 3339
	ExpiresAt string     `json:"expires_at,omitempty"` // RFC 3339
	Decision  string     `json:"decision,omitempty"`   // once resolved: answered, expired, cancelled, refused, or handed to the client that makes the call again
	Actor     string     `json:"actor,omitempty"`
	Reason    string     `json:"reason,omitempty"`
}

// Question is one thing that a server wants to know. Its words are the server's:
// data, never orders.
type Question struct {
	ID      string          `json:"id"`   // what the answer is given for
	Kind    string          `json:"kind"` // form, url or sampling
	Message string          `json:"message,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`  // of a form's answer: an object of flat fields
	URL     string          `json:"url,omitempty"`     // that a person would open; nothing opens it unasked
	Host    string          `json:"host,omitempty"`    // of that URL, as DNS has it
	Warning string          `json:"warning,omitempty"` // what is odd about it
	Params  json.RawMessage `json:"params,omitempty"`  // of sampling, as the server sent them
	Raw     json.RawMessage `json:"-"`                 // the params of any kind, as the server sent them
}

// Fault is the data of Problem: something a server did against the protocol.
// Repeats are counted, not repeated.
type Fault struct {
	Code   string `json:"code"` // a stable word, such as stdout_junk, unmatched_response, line_too_long
	Detail string `json:"detail,omitempty"`
	Sample string `json:"sample,omitempty"` // what was seen, cut and made safe to print
	Count  int64  `json:"count,omitempty"`
}
