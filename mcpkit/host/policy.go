package host

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/egress"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/ledger"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Gate is what a Host asks before a call is sent; see [policy.Gate].
type Gate interface {
	Review(ctx context.Context, table *catalog.Table) (*review.Report, error)
	Decide(ctx context.Context, r policy.Request) (policy.Verdict, error)
	Await(ctx context.Context, r policy.Request, v policy.Verdict) (policy.Verdict, error)
	Begin(ctx context.Context, r policy.Request, v policy.Verdict) (*policy.Run, error)
}

// run is a call that may be sent; without a gate it is empty.
type run struct{ *policy.Run }

// permit asks the gate and, where it says so, a person. The signals say what was
// asked and what was decided.
func (l *line) permit(g Gate, args json.RawMessage) (run, error) {
	if g == nil {
		l.asked(policy.Verdict{Action: rules.Allow}, args)
		l.decided(policy.Verdict{Action: rules.Allow, Actor: "default"})
		return run{}, nil
	}
	r := policy.Request{
		CallID: l.id, Tool: l.tool, Arguments: args, Entrance: l.call.Entrance, Provenance: l.call.Provenance,
		IdempotencyKey: l.call.IdempotencyKey, Approval: l.call.Approval, ApprovedBy: l.call.ApprovedBy, Wait: l.call.Wait,
	}
	v, err := g.Decide(l.ctx, r)
	l.step.Risk = rules.RiskWord(v.Risk)
	l.asked(v, args)
	if err == nil && v.Action == rules.Ask {
		v, err = l.await(g, r, v)
		l.look()
	}
	l.decided(v)
	if err != nil {
		return run{}, err
	}
	if f := v.Fault(l.tool.Name); f != nil {
		return run{}, f
	}
	begun, err := g.Begin(l.ctx, r, v)
	return run{begun}, err
}

// await has a person answer, in the time that the call has for it.
func (l *line) await(g Gate, r policy.Request, v policy.Verdict) (policy.Verdict, error) {
	if !r.Wait {
		return g.Await(l.ctx, r, v)
	}
	ctx := l.ctx
	if t := l.call.Timeout; t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t)
		defer cancel()
	}
	start := time.Now()
	defer func() { l.waits.Add(int64(time.Since(start))) }()
	return g.Await(ctx, r, v)
}

// suspended reports whether a call ended only because its caller had to go while
// a person was asked: whoever makes it again gets its answer.
func (l *line) suspended(err error) bool {
	if err == nil || l.call.Answer == nil || !l.call.Wait || l.ctx.Err() == nil {
		return false
	}
	var f *fault.Error
	return errors.As(err, &f) && f.Code == fault.ApprovalRequired
}

func (l *line) asked(v policy.Verdict, args json.RawMessage) {
	summary := l.step.Tool + ": may be called?"
	if v.Action == rules.Ask { // the disk was asked for an answer, too
		l.look()
		summary = l.step.Tool + ": a person is asked (" + v.Approval + "): " + v.Reason
	}
	l.emit(signal.PermissionRequested, summary, func(s *signal.Step) {
		s.Decision, s.Reason, s.Approval, s.Arguments = string(v.Action), v.Reason, v.Approval, args
	})
}

func (l *line) decided(v policy.Verdict) {
	decision := string(v.Action)
	if v.Action == rules.Ask {
		decision = "open" // nobody has answered yet
	}
	l.emit(signal.PermissionResolved, l.step.Tool+": "+decision+" by "+v.Actor, func(s *signal.Step) {
		s.Decision, s.Actor, s.Reason, s.Approval = decision, v.Actor, v.Reason, v.Approval
	})
}

// replay reports whether an earlier call with the same key has the answer.
func (r run) replay() bool { return r.Run != nil && r.Replay != nil }

// result is that answer.
func (r run) result(l *line) *Result {
	res := &Result{CallID: l.id, Tool: l.tool.ID(), Name: l.tool.Name, Raw: r.Replay.Result, IsError: r.Replay.IsError, Replayed: true}
	if len(r.Replay.Ref) > 0 {
		res.Artifact = r.Replay.Ref
	}
	return res
}

func (r run) complete(l *line, res *Result) {
	if r.Run == nil {
		return
	}
	out := ledger.Result{Raw: res.Raw, IsError: res.IsError}
	if res.Artifact != nil {
		out.Ref, _ = json.Marshal(res.Artifact)
	}
	ctx, cancel := egress.Outlive(l.ctx)
	defer cancel()
	if err := r.Complete(ctx, out); err != nil {
		l.h.o.Logger.Error("the ledger lacks the end of a call", "call", l.id, "error", err)
	}
}

// release ends a call of which nothing came yet: its idempotency key is as good as
// new for the one that goes on with it.
func (r run) release(l *line) {
	r.fail(l, fault.New(fault.Busy, "the server asked for input and did nothing"))
}

func (r run) fail(l *line, cause error) {
	if r.Run == nil {
		return
	}
	ctx, cancel := egress.Outlive(l.ctx)
	defer cancel()
	if err := r.Fail(ctx, cause); err != nil {
		l.h.o.Logger.Error("the ledger lacks the end of a call", "call", l.id, "error", err)
	}
}
