// Package question knows what a client's user can be asked: which requests a client
// answers, by which request a server's question is put, the form in which the
// policy asks for approval, and what the answers mean.
//
//	if question.Answers(caps, question.Elicitation, params) { … }
//
// It sends nothing; see [rpc.Conn.Ask] and package pending.
package question

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Requests that a server may make of a client.
const (
	Elicitation = "elicitation/create"
	Sampling    = "sampling/createMessage"
	Roots       = "roots/list"
)

// Answers reports whether a client with these capabilities answers a request.
func Answers(caps json.RawMessage, method string, params []byte) bool {
	switch method {
	case Elicitation:
		e := jsontext.Get(caps, "elicitation")
		if mode, _ := rpc.Text(jsontext.Get(params, "mode")); mode == "url" {
			return jsontext.Get(e, "url") != nil
		}
		return e != nil && (jsontext.Get(e, "form") != nil || jsontext.Get(e, "url") == nil)
	case Sampling:
		return jsontext.Get(caps, "sampling") != nil
	case Roots:
		return jsontext.Get(caps, "roots") != nil
	}
	return false
}

// Check returns an error where a client with these capabilities does not answer all
// of a server's questions.
func Check(caps json.RawMessage, in signal.Input) error {
	for _, q := range in.Questions {
		if method := MethodOf(q); !Answers(caps, method, q.Raw) {
			return fault.New(fault.InputRequired, "%s asks for input (%s), which this client does not offer", in.Subject, method)
		}
	}
	return nil
}

// MethodOf is the request by which a server's question is put.
func MethodOf(q signal.Question) string {
	if q.Kind == ask.SamplingQuestion {
		return Sampling
	}
	return Elicitation
}

// Reply is a client's answer to a server's question. A nil answer cancels.
func Reply(q signal.Question, answer json.RawMessage) ask.Reply {
	if answer != nil && q.Kind == ask.SamplingQuestion {
		return ask.Reply{Action: ask.Accept, Content: answer}
	}
	action, _ := rpc.Text(jsontext.Get(answer, "action"))
	switch {
	case answer == nil:
		return ask.Reply{Action: ask.Cancel}
	case action == ask.Accept && q.Kind == ask.FormQuestion:
		return ask.Reply{Action: action, Content: jsontext.Get(answer, "content")}
	}
	return ask.Reply{Action: action}
}

var inputRequired = []byte(`"input_required"`)

// Asked reports whether a server's result asks for input.
func Asked(result []byte) bool {
	return bytes.Contains(result, inputRequired) && bytes.Equal(jsontext.Get(result, "resultType"), inputRequired)
}

// Required is the result that asks a stateless client questions (2026-07-28, multi
// round-trip requests).
type Required struct{ questions []byte }

// Add adds a question with an id of its own.
func (r *Required) Add(id, method string, params []byte) {
	if len(r.questions) > 0 {
		r.questions = append(r.questions, ',')
	}
	b := append(append(r.questions, rpc.Quote(id)...), `:{"method":"`+method+`","params":`...)
	r.questions = append(append(b, params...), '}')
}

// Result is the whole result. State is its requestState, a JSON string.
func (r *Required) Result(state []byte) []byte {
	b := append([]byte(`{"resultType":"input_required","inputRequests":{`), r.questions...)
	return append(append(append(b, `},"requestState":`...), state...), '}')
}

// Approver takes people's answers to what the policy asks; *approval.Desk is one.
type Approver interface {
	Approve(ctx context.Context, id string, scope approval.Scope, actor string) (approval.Approval, error)
	Deny(ctx context.Context, id, actor, reason string) (approval.Approval, error)
}

// ApprovalID is the handle of the approval that a call needs, or "".
func ApprovalID(f *fault.Error) string {
	if f.Code != fault.ApprovalRequired {
		return ""
	}
	id, _ := rpc.Text(jsontext.Get(f.Data, "approval_id"))
	return id
}

// maxShown is how many bytes of a call's arguments a person is shown.
const maxShown = 1000

// Approval is the params of elicitation/create that ask whether a tool may be
// called. F is the fault with which the call ended.
func Approval(tool string, f *fault.Error, args json.RawMessage) json.RawMessage {
	shown := "{}"
	if len(args) > 0 {
		shown = shownOf(args)
	}
	b, _ := json.Marshal(map[string]any{ // strings always marshal
		"mode":    "form",
		"message": fmt.Sprintf("May %s be called? %s\nArguments: %s", visible(tool), visible(f.Message), shown),
		"requestedSchema": json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string","title":"Decision",` +
			`"description":"once: this call; session: the same call until the platform ends; deny: not at all",` +
			`"enum":["once","session","deny"]}},"required":["decision"]}`),
	})
	return b
}

// Decide takes a person's answer to [Approval]. The error says that there is no
// decision; it is [ErrUndecided] where the person made none.
func Decide(ctx context.Context, a Approver, client, id string, answer json.RawMessage) (allowed bool, err error) {
	actor := "gateway"
	if client != "" {
		actor += ":" + client
	}
	action, _ := rpc.Text(jsontext.Get(answer, "action"))
	decision, _ := rpc.Text(jsontext.Get(answer, "content", "decision"))
	switch {
	case action == "accept" && (decision == "once" || decision == "session"):
		_, err = a.Approve(ctx, id, approval.Scope(decision), actor)
		return err == nil, err
	case action == "accept" && decision == "deny", action == "decline":
		_, err = a.Deny(ctx, id, actor, "declined in the client")
		return false, err
	}
	return false, ErrUndecided
}

// ErrUndecided says that the client's user closed the question without an answer.
var ErrUndecided = errors.New("the client's user did not decide; the question stays open")

// Open is the fault f of a call that needs an approval, once the client's user was asked
// and did not decide.
func Open(f *fault.Error) *fault.Error {
	open := *f
	open.Message += "; the client's user was asked and did not decide, so the question stays open"
	return &open
}

// Refused is the fault of a call of a tool whose approval the client's user denied. F is
// the fault that asked for it, id the approval's.
func Refused(tool, id string, f *fault.Error) *fault.Error {
	return fault.New(fault.Denied, "%s was not called: the client's user was asked and said no. The question was: %s. "+
		"A person can take the answer back with: platform approvals revoke %s", tool, f.Message, id)
}

// Failed is the result of tools/call that tells a fault, and how a person can allow the
// call where it needs an approval.
func Failed(f *fault.Error) []byte {
	text := f.Message
	if id := ApprovalID(f); id != "" {
		text += fmt.Sprintf(". A person can allow it with: platform approvals approve %s. Then make the call again.", id)
	}
	detail, _ := json.Marshal(f) // a fault always marshals, or has no data
	b := append(append([]byte(`{"content":[{"type":"text","text":`), rpc.Quote(text)...), `}],"isError":true,"_meta":{"aurora/fault":`...)
	if detail == nil {
		detail = []byte("null")
	}
	return append(append(b, detail...), "}}"...)
}
