// Package control has the requests and answers of the platform's local API, and
// the client of that API for the verbs. The API is HTTP with JSON over a unix
// socket that only its owner may use and, if wanted, also over loopback TCP with a
// token. Package endpoint knows where it is, package server answers it.
//
//	GET  /v1/version                                   Version
//	GET  /v1/status                                    Status
//	GET  /v1/servers                                   each a Server
//	POST /v1/servers/{name}/{start|stop|restart}
//	GET  /v1/servers/{name}/logs?n=100&follow=true     text, one line each
//	GET  /v1/tools?server=S                            each a Tool
//	GET  /v1/tools?format=openai&profile=P&server=S
//	POST /v1/calls                                     CallRequest, answers CallResponse or CallState
//	GET  /v1/calls?state=input_required                each a CallState
//	GET|DELETE /v1/calls/{id}                          CallState; DELETE cancels
//	POST /v1/calls/{id}/input                          InputAnswer
//	GET  /v1/resources?server=S                        each an Item; also /templates
//	POST /v1/resources/read                            ReadRequest, answers ReadResponse
//	GET  /v1/resources/watch?server=S&uri=U            Server-Sent Events
//	POST /v1/resources/{subscribe|unsubscribe}         Subscription
//	GET  /v1/resources/subscriptions                   each a Subscription
//	GET  /v1/prompts?server=S                          each an Item
//	POST /v1/prompts/get                               PromptRequest, answers offers.Prompt
//	POST /v1/completions                               CompletionRequest, answers an MCP CompleteResult
//	POST /v1/servers/{name}/log-level                  LogLevelRequest
//	GET  /v1/events?since=POS&type=T&all=true          Server-Sent Events
//	GET  /v1/gateway?server=S                          becomes a pipe of MCP, see [PipeProtocol]
//	GET  /v1/approvals?state=pending                   each an approval.Approval
//	GET  /v1/approvals/{id}                            approval.Approval
//	POST /v1/approvals/{id}/{approve|deny|revoke}      Answer, answers approval.Approval
//	GET  /v1/policy/explain?tool=T                     policy.Explanation
//	GET  /v1/catalog/review?server=S                   review.Report
//	GET  /v1/catalog/diff?server=S                     each a review.ToolDiff
//	POST /v1/catalog/approve                           PinRequest
//	GET  /metrics                                      text for Prometheus
//	GET  /v1/openapi.json                              all of this as OpenAPI 3.1
//
// A failure is application/problem+json (RFC 9457) with error_code, whoever found
// it; see [Problem]. Only what is no HTTP at all is answered by net/http in plain
// text. For example:
//
//	curl --unix-socket data/platform.sock http://platform/v1/calls \
//	  -d '{"name":"mcp__clock__get_time","arguments":{"timezone":"UTC"}}'
package control

import (
	"encoding/json"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Server is the state of one server. Times are RFC 3339, durations milliseconds.
type Server struct {
	Name            string     `json:"name"`
	Alias           string     `json:"alias,omitempty"`
	Title           string     `json:"title,omitempty"`
	Phase           string     `json:"phase"` // starting, connecting, ready, degraded, stopping, stopped, backoff, needs_auth, failed, disabled
	Problem         string     `json:"problem,omitempty"`
	PID             int        `json:"pid,omitempty"`
	Since           *time.Time `json:"since,omitempty"` // when the phase began
	UptimeMS        int64      `json:"uptime_ms,omitempty"`
	StartMS         int64      `json:"start_ms,omitempty"` // spawn to ready
	Restarts        int        `json:"restarts"`
	LastExit        *Exit      `json:"last_exit,omitempty"`
	ProtocolVersion string     `json:"protocol_version,omitempty"`
	ServerVersion   string     `json:"server_version,omitempty"`
	Tools           int        `json:"tools"`
	URL             string     `json:"url,omitempty"` // of a server over HTTP, without its query
	Command         []string   `json:"command,omitempty"`
	Dir             string     `json:"dir,omitempty"`
	Log             string     `json:"log,omitempty"`
	Sandbox         string     `json:"sandbox,omitempty"` // the profile that confines it; empty: it is not confined
	Manifest        string     `json:"manifest,omitempty"`
}

// Exit is how a server's process last ended.
type Exit struct {
	Cause  string    `json:"cause"`
	Reason string    `json:"reason,omitempty"`
	Code   *int      `json:"code,omitempty"`
	Signal string    `json:"signal,omitempty"`
	At     time.Time `json:"at"`
	Stderr []string  `json:"stderr,omitempty"`
}

// Tool is a tool record with the name it is exported under, and what the policy
// says of it.
type Tool struct {
	*catalog.Tool
	ExportName string       `json:"export_name"`
	Risk       string       `json:"risk"`
	Trust      rules.Trust  `json:"trust"`  // of its server
	Action     rules.Action `json:"action"` // what becomes of a call; see policy.Explanation
}

// CallRequest asks for one tool call.
type CallRequest struct {
	ID        string          `json:"id,omitempty"` // of the call, for the record; empty means a new one
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"` // for a person's answer, and then for the server's
	Entrance  string          `json:"entrance,omitempty"`
	// IdempotencyKey makes a second call with it get the first one's answer.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Provenance are the call ids of the results that the arguments came from.
	Provenance []string `json:"provenance,omitempty"`
	Approval   string   `json:"approval,omitempty"` // handle of an earlier question about the same call
	Wait       bool     `json:"wait,omitempty"`     // wait until a person has answered, if one is asked
	// ApprovedBy is the person who makes the call and approves it by that, if one is asked.
	ApprovedBy string `json:"approved_by,omitempty"`
	Async      bool   `json:"async,omitempty"` // answer at once with a CallState; the end is at GET /v1/calls/{id}

	Trace    signal.Trace                 `json:"-"` // of the request's headers
	Progress func(params json.RawMessage) `json:"-"` // gets the latest params of notifications/progress
}

// CallResponse is the answer of a tool that ran; is_error is the tool's own word.
type CallResponse struct {
	CallID     string          `json:"call_id"`
	Server     string          `json:"server"`
	Tool       string          `json:"tool"`
	IsError    bool            `json:"is_error"`
	DurationMS int64           `json:"duration_ms"`         // without WaitedMS
	WaitedMS   int64           `json:"waited_ms,omitempty"` // for a person's answer
	Result     json.RawMessage `json:"result"`              // the MCP CallToolResult
	Flags      []string        `json:"flags,omitempty"`     // what is odd about the result, as in the call's event
	Artifact   any             `json:"artifact,omitempty"`  // where a large result is kept whole
	Replayed   bool            `json:"replayed,omitempty"`  // the answer of an earlier call with the same idempotency key
}

// Version says what runs.
type Version struct {
	Version   string   `json:"version"`
	Commit    string   `json:"commit,omitempty"`
	Go        string   `json:"go"`
	Protocols []string `json:"protocols"` // MCP revisions, newest first
}

// Status is the platform as a whole.
type Status struct {
	Version   Version   `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	Data      string    `json:"data"`
	Inbox     string    `json:"inbox"`
	State     string    `json:"state"` // ok or degraded
	Problems  []string  `json:"problems,omitempty"`
	Events    Events    `json:"events"`
}

// Events counts envelopes since the platform started.
type Events struct {
	Accepted  int64 `json:"accepted"`
	Duplicate int64 `json:"duplicate"`
	Rejected  int64 `json:"rejected"`
	Expired   int64 `json:"expired"`
	Waiting   int64 `json:"waiting"`
}
