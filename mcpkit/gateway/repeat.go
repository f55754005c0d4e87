package gateway

import (
	"context"
	"errors"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/pending"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/question"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// A stateless client is asked by the result of its request, and repeats the request
// with the answers (2026-07-28, multi round-trip requests).

// approvalKey is the id of the question for an approval.
const approvalKey = "aurora_approval"

// askApproval is the answer that asks the client's user for an approval.
func (r *request) askApproval(c *host.Call, id string, f *fault.Error) []byte {
	var q question.Required
	q.Add(approvalKey, question.Elicitation, question.Approval(r.Members.Name, f, c.Arguments))
	return r.required(q, pending.State{Approval: id, Inputs: c.Far.InputResponses, State: c.Far.RequestState})
}

// required is the answer that asks questions. The client brings the state back.
func (r *request) required(q question.Required, s pending.State) []byte {
	return r.form(!cacheable).Pass(q.Result(r.g.seal.Seal(r.view, r.about(), s)))
}

// about stands for what a state belongs to: this method on this subject with these
// arguments.
func (r *request) about() string {
	return r.Name() + "\x00" + r.Members.Name + r.Members.URI + "\x00" + string(r.Members.Arguments)
}

// resume reads the state and the answers with which a client repeats a call. It
// returns the id of the call that goes on with them, if there is one.
func (r *request) resume(ctx context.Context, c *host.Call) (id string, _ *rpc.Error) {
	if r.Members.State == nil {
		return "", nil
	}
	s, mine, err := r.g.seal.Open(r.view, r.about(), r.Members.State)
	if !mine || err != nil {
		return "", err
	}
	c.Far.InputResponses, c.Far.RequestState = s.Inputs, s.State
	if s.Approval == "" {
		return s.Parked, nil
	}
	answer := jsontext.Get(r.Members.Inputs, approvalKey)
	if answer == nil || !r.mayApprove() {
		return "", nil // the client is asked again
	}
	if allowed, err := r.decide(ctx, s.Approval, answer); err != nil || !allowed {
		r.undecided = errors.Is(err, question.ErrUndecided)
		return "", nil // the gate says why
	}
	c.Approval = s.Approval
	return "", nil
}

// mayAsk reports whether a server may ask in the middle of a call, and the client
// would answer: the server speaks a revision with sessions.
func (r *request) mayAsk(server string) bool {
	if !question.Answers(r.caps, question.Elicitation, nil) && !question.Answers(r.caps, question.Sampling, nil) {
		return false
	}
	s, ready := r.g.servers.Ready(server)
	return ready && s.Version < rpc.Stateless
}

// start makes a call that goes on while its client is asked.
func (r *request) start(ctx context.Context, tool *catalog.Tool, c *host.Call) ([]byte, *rpc.Error) {
	call := *c
	p, ok := r.g.pending.Start(ctx, r.view, func(ctx context.Context, put pending.Ask) (*host.Result, error) {
		call.Input = func(ctx context.Context, in signal.Input) (ask.Replies, error) {
			if err := question.Check(r.caps, in); err != nil {
				return nil, err
			}
			return put(ctx, in)
		}
		return r.g.o.Host.Call(ctx, call)
	})
	if !ok {
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "the gateway is closing"}
	}
	return r.follow(ctx, tool, c, p)
}

// goOn has the call that waits under an id go on with the client's answers.
func (r *request) goOn(ctx context.Context, tool *catalog.Tool, c *host.Call, id string) ([]byte, *rpc.Error) {
	p := r.g.pending.Take(id)
	if p == nil {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "that call waits no longer: make the request without the state"}
	}
	p.Answer(func(q signal.Question) ask.Reply { return question.Reply(q, jsontext.Get(r.Members.Inputs, q.ID)) })
	return r.follow(ctx, tool, c, p)
}

// follow answers the request with the result of a call that goes on, or with its
// next question.
func (r *request) follow(ctx context.Context, tool *catalog.Tool, c *host.Call, p *pending.Call) ([]byte, *rpc.Error) {
	ended, in := p.Next(ctx)
	switch {
	case ended != nil && ended.Err == nil:
		return r.result(tool, ended.Result), nil
	case ended != nil:
		_, reply, err := r.refused(ctx, tool, c, ended.Err)
		return reply, err
	case in == nil:
		return nil, rpc.ErrorOf(fault.New(fault.Cancelled, "the client went away"))
	}
	id, ok := r.g.pending.Keep(p)
	if !ok {
		return r.failed(fault.New(fault.Busy, "too many calls wait for answers already").Retry()), nil
	}
	var required question.Required
	for _, q := range in.Questions {
		required.Add(q.ID, question.MethodOf(q), q.Raw)
	}
	return r.required(required, pending.State{Parked: id}), nil
}
