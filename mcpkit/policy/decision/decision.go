// Package decision is what the policy's rules say of a call: allow, ask or deny, and
// which rule says so. It counts calls against rate limits and remembers how far the
// data of results is trusted.
//
//	e := decision.NewEngine(r, pins, nil)
//	v := e.Decide(decision.Request{Tool: tool, Provenance: ids})
//	fmt.Print(e.Explain(tool))
//
// It asks nobody and writes nothing: questions to people and the ledger are package
// policy's.
package decision

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// Request is one call that is to be made.
type Request struct {
	CallID    string
	Tool      *catalog.Tool   // as the current catalogue has it
	Arguments json.RawMessage // one JSON object
	Entrance  string          // where the call came in, for the record
	// Provenance are the call ids of the results that the arguments came from.
	// An id that is not remembered counts as data of unknown trust.
	Provenance []string
	// IdempotencyKey, if set, is remembered: a second call with it is not made.
	IdempotencyKey string
	// Approval, if set, is the handle of an earlier question about the same call.
	Approval string
	// ApprovedBy, if set, is who approves the call by making it, for this once:
	// nobody else is asked. It is the caller's part to let nobody say so who could not
	// answer the question.
	ApprovedBy string
	// Wait says what Await does while nobody has answered: wait, or return a
	// fault with the handle at once.
	Wait bool
}

// Causes says why a person is asked.
type Causes uint8

const (
	CauseRisk   Causes = 1 << iota // of what the tool may do
	CauseReview                    // nobody has approved the tool's definition
	CauseFlow                      // of where the arguments came from
)

// Strings are the names of the causes.
func (c Causes) Strings() []string {
	var out []string
	for i, name := range [...]string{"risk", "review", "flow"} {
		if c&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// MarshalText writes the names, separated by commas.
func (c Causes) MarshalText() ([]byte, error) { return []byte(strings.Join(c.Strings(), ",")), nil }

// Verdict is what becomes of a call.
type Verdict struct {
	Action rules.Action // allow, ask or deny
	Risk   catalog.Risk
	Trust  rules.Trust
	Actor  string       // who decided: policy, or a person's name
	Rule   rules.Source // which rule decided
	Reason string       // why, as a sentence
	Causes Causes       // of an ask
	// RetryAfter is more than zero where the call only came too soon.
	RetryAfter time.Duration
	// Approval is the handle of the question that is asked, or the answer that
	// was used. It is set by Gate, not by Engine.
	Approval string

	// Replay says that the call is allowed only because the ledger will not let it
	// be sent a second time. It is set by Gate.
	Replay bool
}

// Fault is the failure that a call ends with under this verdict, or nil where it
// is allowed. The fault's data of an ask is {"approval_id":"…"}.
func (v Verdict) Fault(tool string) *fault.Error {
	switch {
	case v.Action == rules.Allow:
		return nil
	case v.RetryAfter > 0:
		e := fault.New(fault.RateLimited, "%s may not be called so often: %s; try again in %s", tool, v.Reason, roundUp(v.RetryAfter)).Retry()
		e.Data, _ = json.Marshal(map[string]int64{"retry_after_ms": v.RetryAfter.Milliseconds() + 1})
		return e
	case v.Action == rules.Ask:
		e := fault.New(fault.ApprovalRequired, "%s waits for a person's approval: %s", tool, v.Reason).Retry()
		if v.Approval != "" {
			e.Data, _ = json.Marshal(map[string]string{"approval_id": v.Approval})
		}
		return e
	}
	return fault.New(fault.Denied, "%s may not be called: %s", tool, v.Reason)
}

func roundUp(d time.Duration) time.Duration {
	unit := time.Second
	if d < unit {
		unit = time.Millisecond
	}
	return d.Truncate(unit) + unit
}
