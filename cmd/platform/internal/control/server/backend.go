package server

import (
	"context"
	"encoding/json"
	"io"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/historyapi"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/stream"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Backend is what the API offers. Its errors are best *fault.Errors, and what is
// given a context returns soon after that ended.
type Backend interface {
	Version() control.Version
	Status() control.Status
	Servers() []control.Server
	// Act does start, stop or restart.
	Act(ctx context.Context, name, action string) error
	Tools(server string) []control.Tool
	// Export is the catalogue as one JSON array of function tools.
	Export(profile, server string) ([]byte, error)
	Call(ctx context.Context, r control.CallRequest) (*control.CallResponse, error)
	// Logs gives emit the last n lines of a server's stderr, also when there are
	// none, and if follow those that come, until ctx ends or emit returns an error.
	Logs(ctx context.Context, server string, n int, follow bool, emit func(lines []string) error) error
	// Gateway is how to serve one MCP client over a pair of pipes, with all
	// servers or with the one that is named under its own names.
	Gateway(ctx context.Context, server string) (serve func(ctx context.Context, in io.Reader, out io.Writer) error, err error)
	stream.Source // the events of the journal
	Policy
	Offers
	Inputs
	historyapi.Backend
}

// Policy is what the API offers of the policy: questions to people, and the
// review of what servers say of their tools.
type Policy interface {
	Approvals(ctx context.Context, states ...approval.State) ([]approval.Approval, error)
	Approval(ctx context.Context, id string) (approval.Approval, error)
	Approve(ctx context.Context, id string, scope approval.Scope, actor string) (approval.Approval, error)
	Deny(ctx context.Context, id, actor, reason string) (approval.Approval, error)
	// Revoke takes an answer back, or closes a question.
	Revoke(ctx context.Context, id, actor string) (approval.Approval, error)
	// Explain says what would become of a call of a tool, and why.
	Explain(tool string) (policy.Explanation, error)
	// Review is of one server, by name or alias, or of all for "".
	Review(server string) (*review.Report, error)
	Diff(server string) ([]review.ToolDiff, error)
	// Pin approves a server's tools, or one, as they were reviewed.
	Pin(ctx context.Context, a review.Approval) error
}

// Offers is what servers offer beside tools: resources, prompts, completion and
// log messages. Nothing of it is read unless it is asked for by name.
type Offers interface {
	// Resources, Templates and Prompts list those of one server or of all.
	Resources(ctx context.Context, server string) ([]control.Item, error)
	Templates(ctx context.Context, server string) ([]control.Item, error)
	Prompts(ctx context.Context, server string) ([]control.Item, error)
	ReadResource(ctx context.Context, r control.ReadRequest, trace signal.Trace) (*control.ReadResponse, error)
	// Watch tells of changes until the function it returns is called.
	Watch(ctx context.Context, server, uri string) (changed <-chan struct{}, stop func(), err error)
	// Subscribe has changes delivered to the inbox, until Unsubscribe or the end of
	// the platform. Unsubscribe reports whether there was a subscription.
	Subscribe(ctx context.Context, s control.Subscription) (control.Subscription, error)
	Unsubscribe(s control.Subscription) bool
	Subscriptions() []control.Subscription
	GetPrompt(ctx context.Context, r control.PromptRequest, trace signal.Trace) (*offers.Prompt, error)
	Complete(ctx context.Context, r control.CompletionRequest) (json.RawMessage, error)
	SetLogLevel(ctx context.Context, server, level string) error
}

// Inputs are the calls that wait for an answer to their server's questions,
// whichever way they came in.
type Inputs interface {
	Inputs() []signal.Input
	Input(callID string) (signal.Input, bool)
	AnswerInput(callID string, r ask.Replies, actor string) error
}
