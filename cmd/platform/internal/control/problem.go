package control

import (
	"encoding/json"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

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
	Replayed   bool            `json:"replayed,omitempty"` // of an earlier call with the same idempotency key
}

// Codes of the API beyond those of package fault.
const (
	ServerNotFound   = "server_not_found"
	UnknownProfile   = "unknown_profile"
	CallNotFound     = "call_not_found"     // no call has that id, or it ended too long ago
	CallIDInUse      = "call_id_in_use"     // another call has that id
	InvalidRequest   = "invalid_request"    // the request itself cannot be read
	RequestTooLarge  = "request_too_large"  // its body exceeds the limit
	RequestTimeout   = "request_timeout"    // its body did not come in time
	NotFound         = "not_found"          // no resource has that path
	MethodNotAllowed = "method_not_allowed" // the resource has no such method
	Unauthorized     = "unauthorized"       // the token is missing or wrong
	OriginRefused    = "origin_refused"     // it comes from a page in a browser
	WrongHost        = "wrong_host"         // it is meant for another host
	PositionUnknown  = "position_unknown"   // the journal has no such position
	ShuttingDown     = "shutting_down"      // the platform is about to end
)

// Codes of the policy's part of the API.
const (
	ApprovalNotFound = "approval_not_found"
	ApprovalDecided  = "approval_decided" // it was answered, or has expired
)

// Codes of this part of the API.
const (
	PromptNotFound       = offers.PromptNotFound
	InputNotFound        = ask.NotFound
	SubscriptionNotFound = "subscription_not_found"
)

// NoServer is the failure of a name that no server has. Its candidates are those,
// at most three, that it was probably meant to be.
func NoServer(name string, servers []Server) *fault.Error {
	f := fault.New(ServerNotFound, "there is no server %.100q", name)
	fold := strings.ToLower(name)
	for _, s := range servers {
		full := strings.ToLower(s.Name)
		words := []string{full, full[strings.LastIndexByte(full, '.')+1:], strings.ToLower(s.Alias)}
		if len(f.Candidates) < 3 && (len(name) > 1 && strings.Contains(full, fold) || strict.Nearest(fold, words) != "") {
			f.Candidates = append(f.Candidates, s.Name)
		}
	}
	return f
}
