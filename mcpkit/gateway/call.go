package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Entrance is what the record calls this way in.
const Entrance = "gateway"

// maxRounds bounds how often one request may ask for input.
const maxRounds = 10

// call carries tools/call. The hot path ends with the second return.
func (r *request) call(ctx context.Context) ([]byte, *rpc.Error) {
	table := r.c.g.o.Host.Table()
	tool := r.c.view.offer(table).tools[r.Members.Name]
	if tool == nil { // its server may be about to start
		r.c.g.await(ctx)
		table = r.c.g.o.Host.Table()
		tool = r.c.view.offer(table).tools[r.Members.Name]
	}
	if tool == nil {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool: %.200q", r.Members.Name)}
	}
	c := host.Call{Name: table.ExportName(tool.ID()), Arguments: r.Members.Arguments, Entrance: Entrance, Far: r.far(), Trace: r.Members.Meta.Trace, RecordOnly: true}
	if r.Members.Meta.Token != nil {
		c.Progress = r.progress
	}
	if !r.modern {
		c.Input = r.input
	}
	if r.modern {
		id, err := r.resume(ctx, &c)
		switch {
		case err != nil:
			return nil, err
		case id != "":
			return r.goOn(ctx, tool, &c, id)
		case r.parks(tool.Source.Server):
			return r.park(ctx, tool, &c)
		}
	}
	leave := r.c.g.enter(ctx, r, tool.Source.Server)
	defer leave()
	for {
		res, err := r.c.g.o.Host.Call(ctx, c)
		if err == nil {
			leave()
			return r.pass(r.rename(tool.Source.Server, res.Raw), 0), nil
		}
		again, reply, e := r.refused(ctx, tool, &c, err)
		if !again {
			return reply, e
		}
	}
}

// far is the client as a server sees it.
func (r *request) far() *host.Far {
	f := &host.Far{Capabilities: r.caps}
	if f.Capabilities == nil {
		f.Capabilities = json.RawMessage("{}")
	}
	if r.modern {
		f.InputResponses, f.RequestState = r.Members.Inputs, r.Members.State
	}
	return f
}

// input puts what a server wants to know in the middle of a call to the client of
// a session.
func (r *request) input(ctx context.Context, in signal.Input) (host.Replies, error) {
	if err := r.answers(in); err != nil {
		return nil, err
	}
	replies := host.Replies{}
	for _, q := range in.Questions {
		answer, fail := r.c.ask(ctx, r.out, methodOf(q), q.Raw)
		if fail != nil {
			return nil, fail
		}
		replies[q.ID] = reply(q, answer)
	}
	return replies, nil
}

// answers says why the client cannot be asked.
func (r *request) answers(in signal.Input) error {
	for _, q := range in.Questions {
		if method := methodOf(q); !can(r.caps, method, q.Raw) {
			return fault.New(fault.InputRequired, "%s asks for input (%s), which this client does not offer", in.Subject, method)
		}
	}
	return nil
}

// methodOf is the request by which a question is asked.
func methodOf(q signal.Question) string {
	if q.Kind == host.SamplingQuestion {
		return methodSampling
	}
	return methodElicit
}

var inputRequired = []byte(`"input_required"`)

func needsInput(raw []byte) bool {
	return bytes.Contains(raw, inputRequired) && bytes.Equal(jsontext.Get(raw, "resultType"), inputRequired)
}

// progress passes a server's progress on under the client's token.
func (r *request) progress(params json.RawMessage) {
	r.out.Send(rpc.Notification("notifications/progress", rpc.With(params, "progressToken", r.Members.Meta.Token)))
}

// failed is a call that did not come to an answer of its tool, as a result that a
// model can read.
func (r *request) failed(f *fault.Error) []byte {
	text := f.Message
	if id := approvalID(f); id != "" {
		text += fmt.Sprintf(". A person can allow it with: platform approvals approve %s. Then make the call again.", id)
	}
	detail, _ := json.Marshal(f) // a fault always marshals, or has no data
	b := append(append([]byte(`{"content":[{"type":"text","text":`), rpc.Quote(text)...), `}],"isError":true,"_meta":{"aurora/fault":`...)
	if detail == nil {
		detail = []byte("null")
	}
	return r.pass(append(append(b, detail...), "}}"...), 0)
}

// refused deals with a call that brought no result. It reports again where a
// person's answer changed that.
func (r *request) refused(ctx context.Context, tool *catalog.Tool, c *host.Call, err error) (again bool, reply []byte, _ *rpc.Error) {
	f := fault.From(err)
	switch f.Code {
	case fault.ToolNotFound, fault.AmbiguousCall:
		return false, nil, rpc.ErrorOf(f)
	case fault.Protocol:
		if e := rpc.ErrorOf(f); e.Code != rpc.CodeInternal {
			return false, nil, e
		}
	case fault.ApprovalRequired:
		id := approvalID(f)
		if id == "" || c.Approval == id || !r.mayApprove() {
			break
		}
		if r.modern {
			return false, r.putQuestion(c, id, f), nil
		}
		answer, fail := r.c.ask(ctx, r.out, methodElicit, question(r.Members.Name, f, c.Arguments))
		if fail != nil {
			break
		}
		if allowed, err := r.decide(ctx, id, answer); err != nil || !allowed {
			return false, r.failed(denied(tool, err)), nil
		}
		c.Approval = id
		return true, nil, nil
	}
	return false, r.failed(f), nil
}

func denied(tool *catalog.Tool, err error) *fault.Error {
	if err != nil {
		return fault.From(err)
	}
	return fault.New(fault.Denied, "%s may not be called: the client's user said no", tool.Name)
}

// approvalID is the handle of the question that a call ended with, or "".
func approvalID(f *fault.Error) string {
	if f.Code != fault.ApprovalRequired {
		return ""
	}
	id, _ := rpc.Text(jsontext.Get(f.Data, "approval_id"))
	return id
}

func (r *request) mayApprove() bool {
	return r.c.view.Approve && r.c.g.o.Approvals != nil && can(r.caps, methodElicit, nil)
}

const approvalKey = "aurora_approval"

// question is the params of elicitation/create for a question of the policy.
func question(name string, f *fault.Error, args json.RawMessage) json.RawMessage {
	shown := string(args)
	if len(shown) > 1000 {
		shown = shown[:1000] + "…"
	}
	if shown == "" {
		shown = "{}"
	}
	b, _ := json.Marshal(map[string]any{ // strings always marshal
		"mode":    "form",
		"message": fmt.Sprintf("May %s be called? %s\nArguments: %s", name, f.Message, bytes.ToValidUTF8([]byte(shown), []byte("?"))),
		"requestedSchema": json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string","title":"Decision",` +
			`"description":"once: this call; session: the same call until the platform ends; deny: not at all",` +
			`"enum":["once","session","deny"]}},"required":["decision"]}`),
	})
	return b
}

// putQuestion is the result that asks a stateless client's user.
func (r *request) putQuestion(c *host.Call, id string, f *fault.Error) []byte {
	b := append([]byte(`{"resultType":"input_required","inputRequests":{"`+approvalKey+`":{"method":"`+methodElicit+`","params":`), question(r.Members.Name, f, c.Arguments)...)
	s := state{Approval: id, Inputs: c.Far.InputResponses, State: c.Far.RequestState}
	b = append(append(b, `}},"requestState":`...), r.c.g.seal.seal(r.c.view, r.about(), s)...)
	return r.pass(append(b, '}'), 0)
}

// about is what a state belongs to: this method on this subject with these arguments.
func (r *request) about() string {
	return r.Name() + "\x00" + r.Members.Name + r.Members.URI + "\x00" + string(r.Members.Arguments)
}

// resume takes up what a stateless client sends along when it repeats a call with
// answers, and says which parked call they are for, if any.
func (r *request) resume(ctx context.Context, c *host.Call) (parked string, _ *rpc.Error) {
	s, mine, err := r.c.g.seal.open(r.c.view, r.about(), r.Members.State)
	if !mine || err != nil {
		return "", err
	}
	c.Far.InputResponses, c.Far.RequestState = s.Inputs, s.State
	if s.Approval == "" {
		return s.Parked, nil
	}
	answer := jsontext.Get(r.Members.Inputs, approvalKey)
	if answer == nil || !r.mayApprove() {
		return "", nil // it is asked again
	}
	if allowed, err := r.decide(ctx, s.Approval, answer); err != nil || !allowed {
		return "", nil // the gate says why
	}
	c.Approval = s.Approval
	return "", nil
}

// decide takes a person's answer to a question of the policy.
func (r *request) decide(ctx context.Context, id string, answer json.RawMessage) (allowed bool, err error) {
	actor := "gateway"
	if r.c.view.Client != "" {
		actor += ":" + r.c.view.Client
	}
	action, _ := rpc.Text(jsontext.Get(answer, "action"))
	decision, _ := rpc.Text(jsontext.Get(answer, "content", "decision"))
	switch {
	case action == "accept" && (decision == "once" || decision == "session"):
		_, err = r.c.g.o.Approvals.Approve(ctx, id, approval.Scope(decision), actor)
		return err == nil, err
	case action == "accept" && decision == "deny", action == "decline":
		_, err = r.c.g.o.Approvals.Deny(ctx, id, actor, "declined in the client")
		return false, err
	}
	return false, errUndecided
}

var errUndecided = errors.New("the client's user did not decide; the question stays open")

// Requests that a server may make of a client.
const (
	methodElicit   = "elicitation/create"
	methodSampling = "sampling/createMessage"
	methodRoots    = "roots/list"
)

// can reports whether a client with these capabilities answers a request.
func can(caps json.RawMessage, method string, params []byte) bool {
	switch method {
	case methodElicit:
		e := jsontext.Get(caps, "elicitation")
		if mode, _ := rpc.Text(jsontext.Get(params, "mode")); mode == "url" {
			return jsontext.Get(e, "url") != nil
		}
		return e != nil && (jsontext.Get(e, "form") != nil || jsontext.Get(e, "url") == nil)
	case methodSampling:
		return jsontext.Get(caps, "sampling") != nil
	case methodRoots:
		return jsontext.Get(caps, "roots") != nil
	}
	return false
}

// gather puts a server's input requests to the client of a session, one after the
// other, and returns the answers by their keys.
func (r *request) gather(ctx context.Context, requests json.RawMessage) (json.RawMessage, *fault.Error) {
	b := []byte{'{'}
	var fail *fault.Error
	ok := jsontext.Members(requests, func(key, value []byte) bool {
		method, _ := rpc.Text(jsontext.Get(value, "method"))
		params := jsontext.Get(value, "params")
		if params == nil {
			params = []byte("{}")
		}
		if !can(r.caps, method, params) {
			fail = fault.New(fault.InputRequired, "the server asks the client for %.60q, which it does not offer", method)
			return false
		}
		var answer json.RawMessage
		if answer, fail = r.c.ask(ctx, r.out, method, params); fail != nil {
			return false
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, rpc.Quote(string(key))...), ':'), answer...)
		return true
	})
	if fail == nil && !ok {
		fail = fault.New(fault.Protocol, "the server asks for input without saying for which")
	}
	return append(b, '}'), fail
}
