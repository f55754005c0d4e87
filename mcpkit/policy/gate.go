package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/decision"
	"github.com/aurorabot-dev/platform/mcpkit/policy/ledger"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// Gate is the whole policy: the engine's rules, and what the store keeps. Decide,
// Await and Begin fail with *fault.Errors, and whenever they fail nothing may be
// sent. It is safe for concurrent use.
type Gate struct {
	*Store
	Engine *decision.Engine
}

// NewGate puts rules and a store together. Nil rules are the defaults; a nil
// clock is the real one.
func NewGate(s *Store, r *rules.Rules, now func() time.Time) *Gate {
	g := &Gate{Store: s, Engine: decision.NewEngine(r, s.Pins, now)}
	g.configure()
	return g
}

// SetConfig puts other rules into force, for questions that are open as well:
// they are decided anew once they are answered.
func (g *Gate) SetConfig(r *rules.Rules) {
	g.Engine.SetConfig(r)
	g.configure()
}

func (g *Gate) configure() {
	c := g.Engine.Rules().Config()
	g.Approvals.Configure(c.Approvals.Expire.Duration, c.Approvals.MaxPending)
	g.Ledger.Configure(c.Ledger.Keep.Duration, c.Ledger.MaxEntries)
}

// Read is [decision.Engine.Read].
func (g *Gate) Read(server string) (Read, error) { return g.Engine.Read(server) }

// Spend is [decision.Engine.Spend].
func (g *Gate) Spend(server, id string, bytes int) { g.Engine.Spend(server, id, bytes) }

// Review looks through a new catalogue; it is called before the first call of
// the catalogue's tools. See [review.Pins.Review]. From then on the rules may call the
// tools by the names under which the table exports them.
func (g *Gate) Review(ctx context.Context, table *catalog.Table) (*review.Report, error) {
	g.Engine.Know(table)
	r := g.Engine.Rules()
	return g.Pins.Review(ctx, table.Tools(), func(server string) bool {
		trust, _ := r.Trust(server)
		return r.Config().Review.First.Of(trust) == rules.Pin
	})
}

// Decide says what becomes of a call. Where the rules say ask it looks for an
// answer that was given already, and else opens the question: then the
// verdict is to ask and Approval is its handle. Where nobody has to be asked it
// does no I/O. The error of a call that cannot be asked about comes with a
// verdict to deny.
func (g *Gate) Decide(ctx context.Context, r Request) (Verdict, error) {
	v := g.Engine.Decide(r)
	if v.Action != rules.Ask {
		return v, nil
	}
	hash, err := argumentsHash(r)
	if err != nil {
		return deny(v, err.Error()), err
	}
	if r.IdempotencyKey != "" {
		earlier, err := g.Ledger.Find(ctx, key(r))
		if err != nil {
			return deny(v, "the ledger cannot be read"), unrecorded(err)
		}
		if earlier != nil { // Begin sends nothing: there is nothing to ask about
			v.Action, v.Causes, v.Replay = rules.Allow, 0, true
			v.Reason = "its idempotency key was used before, so nothing will be sent"
			return v, nil
		}
	}
	if r.Approval != "" {
		return g.use(ctx, r, v, hash)
	}
	return g.ask(ctx, r, v, hash)
}

// ask finds the answer to the question of a call, or lays it open, unless who calls
// gives the answer.
func (g *Gate) ask(ctx context.Context, r Request, v Verdict, hash string) (Verdict, error) {
	q := approval.Question{
		Call: g.bind(r, v, hash), Arguments: objectOf(r), Reason: v.Reason,
		Risk: rules.RiskWord(v.Risk), Entrance: r.Entrance, CallID: r.CallID,
	}
	var a approval.Approval
	var granted bool
	var err error
	if r.ApprovedBy != "" {
		a, granted, err = g.Approvals.Grant(ctx, q, r.ApprovedBy)
	} else {
		a, granted, err = g.Approvals.Ask(ctx, q)
	}
	if err != nil {
		return deny(v, "nobody can be asked: "+err.Error()), unrecorded(err)
	}
	return answered(v, a, granted), nil
}

// use takes the answer that the caller names.
func (g *Gate) use(ctx context.Context, r Request, v Verdict, hash string) (Verdict, error) {
	a, err := g.Approvals.Use(ctx, r.Approval, g.bind(r, v, hash))
	switch {
	case err == nil:
		return answered(v, a, true), nil
	case errors.Is(err, approval.ErrDecided) && a.State == approval.Used:
		return deny(v, "the approval "+a.ID+" was used before"), nil
	case errors.Is(err, approval.ErrDecided):
		return answered(v, a, false), nil
	case errors.Is(err, approval.ErrNotFound), errors.Is(err, approval.ErrOther):
		return deny(v, err.Error()), nil
	}
	return deny(v, "the approval cannot be used"), unrecorded(err)
}

// bind is what an approval of a call is bound to.
func (g *Gate) bind(r Request, v Verdict, hash string) approval.Call {
	id := r.Tool.ID()
	return approval.Call{Server: id.Server, Tool: id.Tool, Hash: hash, Definition: g.Engine.Definition(r.Tool), Causes: uint8(v.Causes)}
}

// answered is the verdict once a question stands as a does.
func answered(v Verdict, a approval.Approval, granted bool) Verdict {
	v.Approval = a.ID
	if a.Actor != "" {
		v.Actor = a.Actor
	}
	switch {
	case granted:
		v.Action = rules.Allow
		v.Reason = fmt.Sprintf("approved by %s (%s, %s)", v.Actor, a.Scope, a.ID)
	case a.State == approval.Pending:
		v.Action = rules.Ask
	default:
		v.Action, v.Causes = rules.Deny, 0
		v.Reason = fmt.Sprintf("the approval %s is %s", a.ID, a.State)
		if a.State == approval.Denied {
			v.Reason = fmt.Sprintf("denied by %s (%s)", v.Actor, a.ID)
			if a.Note != "" {
				v.Reason += ": " + a.Note
			}
		}
	}
	return v
}

func deny(v Verdict, why string) Verdict {
	v.Action, v.Causes, v.Reason = rules.Deny, 0, why
	return v
}

// Await carries on where Decide said ask. If the request is not to wait, or ctx
// ends first, the verdict is still to ask and the error is an
// [fault.ApprovalRequired] with the handle; the question stays open, and a later
// request for the same call finds its answer. Else the verdict is to allow or
// deny. What was decided long ago is decided once more by the rules and the
// catalogue of now, before the answer is used.
func (g *Gate) Await(ctx context.Context, r Request, v Verdict) (Verdict, error) {
	for v.Action == rules.Ask {
		if !r.Wait {
			return v, v.Fault(r.Tool.Name)
		}
		a, err := g.Approvals.Wait(ctx, v.Approval)
		if err != nil {
			if ctx.Err() != nil && a.State == approval.Pending {
				return v, v.Fault(r.Tool.Name)
			}
			return deny(v, "the approval cannot be awaited"), unrecorded(err)
		}
		if a.State != approval.Approved && a.State != approval.Used {
			return answered(v, a, false), nil
		}
		if v, err = g.again(ctx, r, a); err != nil {
			return v, err
		}
	}
	return v, nil
}

// again decides a call whose question was answered with yes.
func (g *Gate) again(ctx context.Context, r Request, a approval.Approval) (Verdict, error) {
	v := g.Engine.Judge(r)
	if hash, _, listed := g.Pins.Seen(r.Tool.ID()); listed && hash != g.Engine.Definition(r.Tool) {
		v = deny(v, "its definition changed while a person was asked; call it again")
	}
	if v.Action != rules.Ask {
		return v, nil
	}
	hash, err := argumentsHash(r)
	if err != nil {
		return deny(v, err.Error()), err
	}
	c := g.bind(r, v, hash)
	used, err := g.Approvals.Use(ctx, a.ID, c)
	switch {
	case err == nil:
		return answered(v, used, true), nil
	case errors.Is(err, approval.ErrDecided), errors.Is(err, approval.ErrOther):
		// Another call was quicker, or there is one more reason to ask now.
		return g.ask(ctx, r, v, hash)
	}
	return deny(v, "the approval cannot be used"), unrecorded(err)
}

// Run is a call that may be sent. Exactly one of Complete and Fail ends it.
type Run struct {
	// Replay, if set, is the answer that an earlier call with the same
	// idempotency key had: it is this call's answer, and nothing may be sent.
	Replay *ledger.Entry

	g     *Gate
	id    string
	key   string // in the ledger; empty where the call is not recorded
	trust rules.Trust
}

// Begin is the last step: after it has returned, the call may be sent. A call with
// an idempotency key, and any of high, critical or unknown risk, is on the disk
// by then; any other costs nothing. A key that was used before gives the answer
// of then in Run.Replay, or the failure of then, or a [fault.DuplicateCall]:
// with outcome unknown where that call may have had its effect.
func (g *Gate) Begin(ctx context.Context, r Request, v Verdict) (*Run, error) {
	if v.Action != rules.Allow {
		if f := v.Fault(r.Tool.Name); f != nil {
			return nil, f
		}
	}
	run := &Run{g: g, id: r.CallID, trust: g.Engine.Trust(r)}
	if r.IdempotencyKey == "" && (v.Risk == catalog.Low || v.Risk == catalog.Medium) {
		return run, nil
	}
	hash, err := argumentsHash(r)
	if err != nil {
		return nil, err
	}
	id := r.Tool.ID()
	c := ledger.Call{Key: key(r), CallID: r.CallID, Server: id.Server, Tool: id.Tool, Hash: hash, Risk: rules.RiskWord(v.Risk)}
	switch {
	case len(r.IdempotencyKey) > 256:
		return nil, fault.New(fault.InvalidArguments, "the idempotency key is longer than 256 bytes")
	case r.IdempotencyKey == "" && r.CallID == "":
		return nil, fault.New(fault.Internal, "the call has no id")
	case v.Replay:
		earlier, err := g.Ledger.Find(ctx, c.Key)
		if err == nil && earlier == nil {
			err = fault.New(fault.DuplicateCall, "the idempotency key was forgotten meanwhile; call again").Retry()
		}
		if err != nil {
			return nil, unrecorded(err)
		}
		return run.repeat(c, earlier)
	}
	earlier, err := g.Ledger.Begin(ctx, c)
	if err != nil {
		return nil, unrecorded(err)
	}
	if earlier != nil {
		return run.repeat(c, earlier)
	}
	run.key = c.Key
	return run, nil
}

// repeat is the answer to a call whose key was used.
func (run *Run) repeat(c ledger.Call, earlier *ledger.Entry) (*Run, error) {
	switch {
	case !earlier.Same(c):
		return nil, fault.New(fault.DuplicateCall, "the idempotency key was used for another call: %s of %s", earlier.Tool, earlier.Server)
	case earlier.State == ledger.Completed:
		run.Replay = earlier
		run.g.Engine.RememberResult(run.id, run.trust)
		return run, nil
	case earlier.State == ledger.InFlight:
		return nil, fault.New(fault.DuplicateCall, "a call with that idempotency key is in flight").Unknown().Retry()
	case earlier.State == ledger.Failed && earlier.Fault != nil:
		f := *earlier.Fault
		f.Replayed = true
		return nil, &f
	}
	return nil, fault.New(fault.DuplicateCall, "a call with that idempotency key was sent at %s and its outcome is unknown; it is not sent again",
		earlier.Started.Format(time.RFC3339)).Unknown()
}

// Complete ends a run with the server's answer, also where the tool reported a
// failure. An error means that the ledger could not be written: the answer
// stands, and the key is good for no other call.
func (run *Run) Complete(ctx context.Context, r ledger.Result) error {
	run.g.Engine.RememberResult(run.id, run.trust)
	if run.key == "" {
		return nil
	}
	return run.g.Ledger.Complete(ctx, run.key, r)
}

// Fail ends a run without an answer. The key of a call that was certainly not
// sent (server_not_ready, busy) is as good as new; any other key is used up. An
// error is as Complete's.
func (run *Run) Fail(ctx context.Context, err error) error {
	run.g.Engine.RememberResult(run.id, run.trust) // a failure has a server's words in it, too
	f := fault.From(err)
	if f == nil {
		f = fault.New(fault.Internal, "the call ended without an answer").Unknown()
	}
	switch {
	case run.key == "":
		return nil
	case f.Outcome != fault.OutcomeUnknown && (f.Code == fault.ServerNotReady || f.Code == fault.Busy):
		return run.g.Ledger.Release(ctx, run.key)
	}
	return run.g.Ledger.Fail(ctx, run.key, f)
}

// unrecorded is the failure of a call that the store failed, as on a full disk.
func unrecorded(err error) *fault.Error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	return fault.New(fault.NotRecorded, "%v", err).Retry()
}

// key is where a call stands in the ledger.
func key(r Request) string {
	if r.IdempotencyKey != "" {
		return "key:" + r.IdempotencyKey
	}
	return "call:" + r.CallID
}

func objectOf(r Request) []byte {
	if len(r.Arguments) == 0 {
		return []byte("{}")
	}
	return r.Arguments
}

func argumentsHash(r Request) (string, error) {
	form, err := jsontext.AppendCanonical(nil, objectOf(r))
	if err != nil {
		return "", fault.New(fault.InvalidArguments, "the arguments have no certain meaning: %s", err)
	}
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:]), nil
}
