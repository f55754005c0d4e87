package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/notify"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/question"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Entrance is the name of this way in, for the record.
const Entrance = "gateway"

// maxRounds bounds how often one request may ask for input.
const maxRounds = 10

// call carries tools/call.
func (r *request) call(ctx context.Context) ([]byte, *rpc.Error) {
	tool := r.view.Offer(r.g.o.Host.Table()).Tool(r.Members.Name)
	if tool == nil { // its server may be about to start
		r.g.servers.Await(ctx)
		tool = r.view.Offer(r.g.o.Host.Table()).Tool(r.Members.Name)
	}
	if tool == nil {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool: %.200q", r.Members.Name)}
	}
	c := host.Call{Name: tool.Name, Tool: tool.ID(), Arguments: r.Members.Arguments, Entrance: Entrance, Far: r.far(), Trace: r.Members.Meta.Trace, RecordOnly: true}
	if r.Members.Meta.Token != nil {
		c.Progress = r.progress
	}
	if r.stateless {
		id, err := r.resume(ctx, &c)
		switch {
		case err != nil:
			return nil, err
		case id != "":
			return r.goOn(ctx, tool, &c, id)
		case r.mayAsk(tool.Source.Server):
			return r.start(ctx, tool, &c)
		}
	} else {
		c.Input, c.Asker = r.input, r.conn.asker
	}
	var session *notify.Subscriber
	if r.conn != nil {
		session = r.conn.subscriber
	}
	visit := r.g.hub.Enter(ctx, r.view, tool.Source.Server, r.out, session, r.Message)
	defer visit.Leave(ctx)
	for {
		res, err := r.g.o.Host.Call(ctx, c)
		if err == nil {
			visit.Leave(ctx)
			return r.result(tool, res), nil
		}
		again, reply, e := r.refused(ctx, tool, &c, err)
		if !again {
			return reply, e
		}
	}
}

// result is the answer with the result of a tool.
func (r *request) result(tool *catalog.Tool, res *host.Result) []byte {
	return r.form(!cacheable).Pass(r.g.servers.Rename(r.view, tool.Source.Server, res.Raw))
}

// far describes the client to a server.
func (r *request) far() *ask.Far {
	f := &r.end
	f.Capabilities = r.caps
	if f.Capabilities == nil {
		f.Capabilities = json.RawMessage("{}")
	}
	if r.stateless {
		f.InputResponses, f.RequestState = r.Members.Inputs, r.Members.State
	}
	return f
}

// progress passes a server's progress on under the client's token.
func (r *request) progress(params json.RawMessage) {
	r.out.Send(rpc.Notification("notifications/progress", rpc.With(params, "progressToken", r.Members.Meta.Token)))
}

// input puts the questions that a server asks in the middle of a call to the client
// of a session.
func (r *request) input(ctx context.Context, in signal.Input) (ask.Replies, error) {
	if err := question.Check(r.caps, in); err != nil {
		return nil, err
	}
	replies := ask.Replies{}
	for _, q := range in.Questions {
		answer, fail := r.conn.Ask(ctx, r.out, question.MethodOf(q), q.Raw)
		if fail != nil {
			return nil, fail
		}
		replies[q.ID] = question.Reply(q, answer)
	}
	return replies, nil
}

// refused deals with a call that brought no result. It reports again where a
// person's answer allows the call.
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
		id := question.ApprovalID(f)
		if id == "" || c.Approval == id || !r.mayApprove() {
			break
		}
		switch {
		case r.undecided:
			return false, r.failed(question.Open(f)), nil
		case r.stateless:
			return false, r.askApproval(c, id, f), nil
		}
		answer, fail := r.conn.Ask(ctx, r.out, question.Elicitation, question.Approval(r.Members.Name, f, c.Arguments))
		if fail != nil {
			break
		}
		allowed, err := r.decide(ctx, id, answer)
		switch {
		case errors.Is(err, question.ErrUndecided):
			return false, r.failed(question.Open(f)), nil
		case err != nil:
			return false, r.failed(fault.From(err)), nil
		case !allowed:
			return false, r.failed(question.Refused(tool.Name, id, f)), nil
		}
		c.Approval = id
		return true, nil, nil
	}
	return false, r.failed(f), nil
}

// failed is the answer for a call without a result of its tool: a result that a
// model can read.
func (r *request) failed(f *fault.Error) []byte {
	return r.form(!cacheable).Pass(question.Failed(f))
}

// mayApprove reports whether the client's user can be asked for an approval.
func (r *request) mayApprove() bool {
	return r.view.Approve && r.g.o.Approvals != nil && question.Answers(r.caps, question.Elicitation, nil)
}

// decide takes the answer of the client's user to the question for an approval.
func (r *request) decide(ctx context.Context, id string, answer json.RawMessage) (allowed bool, err error) {
	return question.Decide(ctx, r.g.o.Approvals, r.view.Client, id, answer)
}
