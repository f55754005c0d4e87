// Package control is the platform's local API: HTTP with JSON over a unix
// socket that only its owner may use, and the client of that API for the other
// verbs. It carries requests and answers; what they do is the [Backend]'s.
//
//	GET  /v1/version
//	GET  /v1/servers
//	POST /v1/servers/{name}/{start|stop|restart}
//	GET  /v1/servers/{name}/logs?n=100&follow=true     text, one line each
//	GET  /v1/tools?server=S
//	GET  /v1/tools?format=openai&profile=P&server=S
//	POST /v1/calls                                     CallRequest, answers CallResponse
//	GET  /v1/status                                    Status
//
// A failure is application/problem+json (RFC 9457) with error_code; see [Problem].
package control

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// Server is the state of one server. Times are RFC 3339, durations milliseconds.
type Server struct {
	Name            string     `json:"name"`
	Alias           string     `json:"alias,omitempty"`
	Title           string     `json:"title,omitempty"`
	Phase           string     `json:"phase"` // starting, ready, degraded, stopping, stopped, backoff, failed, disabled
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
	Command         []string   `json:"command,omitempty"`
	Dir             string     `json:"dir,omitempty"`
	Log             string     `json:"log,omitempty"`
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

// Tool is a tool record with the name it is exported under.
type Tool struct {
	*catalog.Tool
	ExportName string `json:"export_name"`
}

// CallRequest asks for one tool call.
type CallRequest struct {
	ID        string          `json:"id,omitempty"` // of the call, for the record; empty means a new one
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"`
	Entrance  string          `json:"entrance,omitempty"`
}

// CallResponse is the answer of a tool that ran; is_error is the tool's own word.
type CallResponse struct {
	CallID     string          `json:"call_id"`
	Server     string          `json:"server"`
	Tool       string          `json:"tool"`
	IsError    bool            `json:"is_error"`
	DurationMS int64           `json:"duration_ms"`
	Result     json.RawMessage `json:"result"` // the MCP CallToolResult
	Artifact   any             `json:"artifact,omitempty"`
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

// Problem is a failed request, RFC 9457 with the members of the one failure shape.
type Problem struct {
	Title      string          `json:"title"`
	Status     int             `json:"status"`
	Detail     string          `json:"detail"`
	OK         bool            `json:"ok"` // always false
	Code       string          `json:"error_code"`
	Message    string          `json:"message"`
	Retryable  bool            `json:"retryable"`
	Outcome    string          `json:"outcome,omitempty"`
	Candidates []string        `json:"candidates,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// Backend is what the API offers. Its errors are best *fault.Errors.
type Backend interface {
	Version() Version
	Status() Status
	Servers() []Server
	// Act does start, stop or restart.
	Act(ctx context.Context, name, action string) error
	Tools(server string) []Tool
	// Export is the catalogue as one JSON array of function tools.
	Export(profile, server string) ([]byte, error)
	Call(ctx context.Context, r CallRequest) (*CallResponse, error)
	// Logs calls line with the last n lines of a server's stderr and, if follow,
	// with those that come, until ctx ends or line returns an error.
	Logs(ctx context.Context, server string, n int, follow bool, line func(string) error) error
}
