package decision

import (
	"fmt"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// Explanation says what becomes of calls of a tool, and which rules say so. Its
// JSON is stable: fields are added, never renamed.
type Explanation struct {
	Server string       `json:"server"`
	Tool   string       `json:"tool"` // canonical name, safe to print
	Action rules.Action `json:"action"`
	Rule   rules.Source `json:"rule"` // the one that decides
	Reason string       `json:"reason"`
	Causes []string     `json:"causes,omitempty"` // why a person is asked

	Trust     rules.Trust  `json:"trust"`
	TrustRule rules.Source `json:"trust_rule"`
	Risk      string       `json:"risk"`
	RiskRule  rules.Source `json:"risk_rule"`
	// ActionRule says what the risk means.
	ActionRule rules.Source     `json:"action_rule"`
	Review     review.State     `json:"review,omitempty"`
	Findings   []review.Finding `json:"findings,omitempty"`
	Limits     []LimitState     `json:"limits,omitempty"`
	// Flow is what becomes of a call whose arguments come from data of each
	// trust, where it differs from Action.
	Flow []FlowState `json:"flow,omitempty"`
	// Idle are rules of the file that cover no server or tool that there is: one of
	// them may be meant for this tool.
	Idle []rules.Source `json:"idle,omitempty"`
}

// LimitState is a budget that covers the tool, and what is left of it.
type LimitState struct {
	Rule rules.Source `json:"rule"`
	Left int          `json:"left"` // calls that could be made at once
}

// FlowState is what becomes of a call with data of one trust.
type FlowState struct {
	From   rules.Trust  `json:"from"`
	Action rules.Action `json:"action"`
	Rule   rules.Source `json:"rule"`
}

// Explain says what Decide would say of a call without provenance, and why. It
// takes nothing from any budget.
func (e *Engine) Explain(t *catalog.Tool) Explanation {
	now := e.current.Load()
	n := e.entry(now, t)
	v := e.judge(now.rules, n, nil)
	x := Explanation{
		Server: n.id.Server, Tool: n.name,
		Action: v.Action, Rule: v.Rule, Reason: v.Reason, Causes: v.Causes.Strings(),
		Trust: n.trust, TrustRule: n.trustBy, Risk: rules.RiskWord(n.risk), RiskRule: n.riskBy, ActionRule: n.actionBy,
	}
	if e.pins != nil {
		x.Review = e.pins.State(n.id, n.hash)
		hash, findings, ok := e.pins.Seen(n.id)
		if !ok || hash != n.hash {
			findings = review.Scan(t)
		}
		x.Findings = findings
	}
	at := e.now()
	for _, q := range n.quotas {
		s := LimitState{Rule: q.budget.Source}
		if q.limiter != nil {
			s.Left = max(0, int(q.limiter.TokensAt(at)))
		}
		x.Limits = append(x.Limits, s)
	}
	for _, from := range rules.Trusts {
		if a, by, ok := now.rules.Flow(from, n.risk); ok && v.Action.Stricter(a) != v.Action {
			x.Flow = append(x.Flow, FlowState{from, a, by})
		}
	}
	x.Idle = now.rules.Idle()
	return x
}

// String is the explanation in a few lines for a person.
func (x Explanation) String() string {
	s := fmt.Sprintf("%s: %s, because %s\n  trust %s (%s)\n  risk %s (%s)\n", x.Tool, x.Action, x.Reason, x.Trust, x.TrustRule, x.Risk, x.RiskRule)
	if x.Review != "" {
		s += fmt.Sprintf("  definition %s, %d findings\n", x.Review, len(x.Findings))
	}
	for _, l := range x.Limits {
		s += fmt.Sprintf("  limit %s: %d left\n", l.Rule, l.Left)
	}
	for _, f := range x.Flow {
		s += fmt.Sprintf("  with data of %s trust: %s (%s)\n", f.From, f.Action, f.Rule)
	}
	for _, rule := range x.Idle {
		s += fmt.Sprintf("  without effect: %s covers no server or tool that there is\n", rule)
	}
	return s
}
