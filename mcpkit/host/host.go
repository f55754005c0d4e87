// Package host is the gate: the one line that every tool call takes, whichever
// entrance it came in by. It is the ToolRouter and ToolExecutor of the
// protocol's documents.
//
//	resolve → check arguments → permit → call → check result → redact → cap → record
//
// [Host.Call] is that line, readable from top to bottom. Each step leaves a
// signal with the call's id, in order, also when the call fails on the way. The
// package knows nothing of HTTP or command lines, and nothing of processes.
//
//	h := host.New(host.Options{Client: manager, Sink: bridge})
//	res, err := h.Call(ctx, host.Call{Name: "mcp__weather__get_weather", Arguments: args})
package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/egress"
	"github.com/aurorabot-dev/platform/mcpkit/host/offered"
	"github.com/aurorabot-dev/platform/mcpkit/host/schemas"
	"github.com/aurorabot-dev/platform/mcpkit/openai"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review/injection"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

// Client is what a Host needs of the client manager.
type Client interface {
	Tools() *client.Snapshot
	Call(ctx context.Context, r features.CallRequest) (*features.Result, error)
	Ready(server string) (*session.Session, error)
}

// Options say how a Host works. Client and Sink are required.
type Options struct {
	Client Client
	Sink   signal.Sink
	Logger *slog.Logger // nil discards
	// Gate decides before anything is sent; *policy.Gate is one. nil allows every
	// call and remembers none.
	Gate Gate
	// Down says why a server takes no calls just now, or nil where it is ready or
	// nobody runs it. A tool that left the catalogue with its server is then
	// answered with that instead of being unknown. nil knows of none.
	Down func(server string) *fault.Error
	// Room says why no more calls of a server can be recorded just now, or nil. A call
	// is then refused before anything is sent. nil knows of no bound.
	Room func(server string) error
	// Prefix leads every exported tool name. Empty means "mcp".
	Prefix string
	// Profile is the provider profile of exports that name none. Empty means "openai".
	Profile string
	// Redact takes secrets out of a JSON value, keeps it JSON, and says which
	// kinds it found. nil keeps all.
	Redact egress.Redactor
	// Store keeps results that are too large for an event. nil keeps none.
	Store egress.Store
	// MaxPreview is how many bytes of a result's text an event carries. Zero means 2000.
	MaxPreview int
	// MaxResult is the size in bytes above which a result is also kept whole in
	// the store. Zero means 64 KiB.
	MaxResult int
	// InputTimeout is how long a call waits for the answer to a server's question.
	// Zero means five minutes.
	InputTimeout time.Duration
}

// defaultInput is how long a call waits for an answer where nothing else is said.
const defaultInput = 5 * time.Minute

// Call is one tool call to make.
type Call struct {
	// ID ties the call's events together. Empty means a new one.
	ID string
	// Name is the tool's in any accepted form; see package catalog.
	Name string
	// Tool, if set, is the tool, whatever its name is by now; Name is not looked up.
	Tool catalog.ID
	// Arguments is a JSON object. Empty or null means {}.
	Arguments json.RawMessage
	// Timeout bounds the wait for a person's answer, if there is one, and after it
	// the call without progress. Zero means as long as the question is open, and
	// the server's.
	Timeout time.Duration
	// Entrance says where the call came in, for the record: cli, api, outbox, model.
	Entrance string
	// Provenance are the call ids of the results that the arguments came from.
	Provenance []string
	// IdempotencyKey, if set, makes a second call with it get the first one's
	// answer instead of being sent.
	IdempotencyKey string
	// Approval is the handle of an earlier question about the same call.
	Approval string
	// ApprovedBy, if set, is who approves the call by making it, where the policy asks
	// a person. Only an entrance whose every caller may answer such questions may pass
	// it on.
	ApprovedBy string
	// Far, if set, is the client that is handed what the server asks, unless Input
	// answers it.
	Far *ask.Far
	// Asker names who answers through Input or Far, where that is the same for several
	// calls: calls of one Asker may be in flight at a server that asks over a pipe, and
	// share its questions. Empty means this call alone.
	Asker string
	// Wait makes a call that a person is asked about wait for the answer. Without
	// it the call ends with fault.ApprovalRequired and the question's handle.
	Wait bool
	// Answer, if set, makes the event that ends the call its complete answer. A
	// call that waits for a person when ctx ends is then only suspended: nothing was
	// sent, no event ends it, and the same call made again goes on.
	Answer *Answer
	// Progress, if set, gets the params of notifications/progress, the latest
	// only where it is slower than they come.
	Progress func(params json.RawMessage)
	// Input, if set, answers what the server wants to know in the middle of the
	// call. Without it the call waits for AnswerInput, at most Options.InputTimeout.
	Input ask.Func
	// Trace is the caller's, for the server and the record.
	Trace signal.Trace
	// RecordOnly says that the call is nothing of the Brain's: by default the event
	// that ends it is recorded and not delivered.
	RecordOnly bool
}

// Answer asks for the event that ends a call to carry the whole result.
type Answer struct {
	// ID is the identity of the event: however often it is emitted, it is one event.
	ID string
	// Settle, if set, is called once, before the call is sent or its end is emitted:
	// until then nothing has come of it, and it may be made again. Where it fails
	// nothing is sent.
	Settle func() error
	// Recorded, if set, is called once when the event is durable. It must not block.
	Recorded func()
}

// Result is the answer of a tool. A tool that ran and failed is a Result with
// IsError, not an error.
type Result struct {
	CallID   string
	Tool     catalog.ID
	Name     string          // canonical
	Raw      json.RawMessage // the MCP CallToolResult, exact but for removed secrets; not to be written to, the record shares it
	IsError  bool            // the tool's own word
	Duration time.Duration   // without Waited
	Waited   time.Duration   // for a person's answer
	Artifact any             // where the whole result is kept, if it exceeded MaxResult
	// Flags are what is odd about the result: the codes of [injection.Flags] for its
	// text, hidden_characters among them, and secret_KIND for each kind of secret
	// that was removed.
	Flags    []string
	Replayed bool // an earlier call with the same idempotency key had this answer; nothing was sent
}

// Host carries calls. It is safe for concurrent use.
type Host struct {
	o         Options
	out       egress.Filter
	schemas   *schemas.Checker
	exports   openai.Cache
	questions ask.Pending
	offered   *offered.Catalogue
}

// New makes a Host.
func New(o Options) *Host {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Prefix == "" {
		o.Prefix = "mcp"
	}
	if o.Profile == "" {
		o.Profile = "openai"
	}
	if o.MaxPreview <= 0 {
		o.MaxPreview = 2000
	}
	if o.MaxResult <= 0 {
		o.MaxResult = egress.DefaultMaxResult
	}
	if o.InputTimeout <= 0 {
		o.InputTimeout = defaultInput
	}
	of := offered.Options{Tools: o.Client.Tools, Down: o.Down, Prefix: o.Prefix, Logger: o.Logger}
	if o.Gate != nil {
		of.Review = o.Gate.Review
	}
	return &Host{
		o: o, schemas: schemas.New(o.Logger), offered: offered.New(of),
		out: egress.Filter{Sink: o.Sink, Logger: o.Logger, Redact: o.Redact, Store: o.Store, MaxResult: o.MaxResult},
	}
}

// Inputs are the calls that wait for answers, the oldest first.
func (h *Host) Inputs() []signal.Input { return h.questions.Inputs() }

// Input is what a call waits for; false where it waits for nothing.
func (h *Host) Input(callID string) (signal.Input, bool) { return h.questions.Input(callID) }

// AnswerInput answers a call that waits; see [ask.Pending.Answer].
func (h *Host) AnswerInput(callID string, answers ask.Replies, actor string) error {
	return h.questions.Answer(callID, answers, actor)
}

// Table is the current catalogue by name.
func (h *Host) Table() *catalog.Table { return h.offered.Table() }

// Reconsider has the catalogue reviewed once more before its next use: other rules
// may trust a server that was seen before, and approve it at first sight.
func (h *Host) Reconsider() { h.offered.Reconsider() }

// Export is the current catalogue, or one server's part of it, as function tools
// under a provider profile; empty means the default one, and every server.
func (h *Host) Export(profile, server string) (*openai.Export, error) {
	if profile == "" {
		profile = h.o.Profile
	}
	return h.exports.Export(h.Table(), server, openai.Options{Profile: profile, Prefix: h.o.Prefix})
}

// Call carries one call through the gate. Its errors are *fault.Errors. A call
// is sent to its server at most once; when the answer never came the error's
// Outcome is unknown.
func (h *Host) Call(ctx context.Context, c Call) (*Result, error) {
	line := h.begin(ctx, c)

	tool, err := h.offered.Find(c.Name, c.Tool)
	if err != nil {
		return nil, line.unresolved(err)
	}
	line.resolved(tool)
	if err := line.room(); err != nil {
		return nil, err
	}

	args, err := h.schemas.Arguments(tool, c.Arguments)
	if err != nil {
		return nil, line.refused(err)
	}

	run, err := line.permit(h.o.Gate, args)
	if line.suspended(err) {
		line.flush()
		return nil, err
	}
	if err != nil {
		return nil, line.refused(err)
	}
	if err := line.settle(); err != nil {
		run.fail(line, err)
		return nil, line.refused(err)
	}
	if run.replay() {
		res := run.result(line)
		line.completed(res, toolcall.Read(res.Raw))
		return res, nil
	}

	line.started()
	defer line.together.Stop()
	result, err := line.exchange(args)
	if err == nil {
		err = h.schemas.Result(tool, result)
	}
	if err != nil {
		line.flags = injection.Flags(fault.From(err).Message)
		err = h.out.Error(err)
		run.fail(line, err)
		return nil, line.failed(err)
	}

	clean, secrets := h.out.Clean(result.Raw)
	if len(secrets) > 0 {
		result = toolcall.Read(clean) // what was removed is gone for all who look at it from here on
	}
	res := &Result{CallID: line.id, Tool: tool.ID(), Name: tool.Name, Raw: clean, IsError: result.IsError(), Flags: secrets}
	res.Artifact = h.out.Keep(context.WithoutCancel(ctx), clean) // who hung up may ask for it later
	if result.NeedsInput() {                                     // the far client makes the call again, with answers
		run.release(line)
		line.handed(res)
		return res, nil
	}
	run.complete(line, res)
	line.completed(res, result)
	return res, nil
}
