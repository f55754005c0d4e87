package decision

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// Pins tells whether a tool's definition was approved, and what the last review
// saw of it; see [review.Pins]. It answers from memory.
type Pins interface {
	State(id catalog.ID, hash string) review.State
	Seen(id catalog.ID) (hash string, findings []review.Finding, ok bool)
}

// Engine decides by rules alone: it asks nobody and writes nothing. It is safe
// for concurrent use.
type Engine struct {
	now     func() time.Time
	pins    Pins
	results results
	buckets buckets
	bytes   byteBudgets
	current atomic.Pointer[ruling]

	names sync.Mutex
	table *catalog.Table // that rules know the names of
}

// NewEngine makes an Engine. Nil rules are the defaults; nil pins leave the
// review out; a nil clock is the real one.
func NewEngine(r *rules.Rules, pins Pins, now func() time.Time) *Engine {
	if now == nil {
		now = time.Now
	}
	e := &Engine{now: now, pins: pins}
	e.SetConfig(r)
	return e
}

// SetConfig puts other rules into force. Decisions after it returns follow them;
// budgets that the new rules repeat go on counting.
func (e *Engine) SetConfig(r *rules.Rules) {
	if r == nil {
		r = rules.Default()
	}
	e.names.Lock()
	defer e.names.Unlock()
	e.current.Store(&ruling{rules: r.Named(e.table)})
}

// Know tells of the tools that there are, by whose exported names rules may call them.
func (e *Engine) Know(table *catalog.Table) {
	e.names.Lock()
	defer e.names.Unlock()
	e.table = table
	e.current.Store(&ruling{rules: e.Rules().Named(table)})
}

// Rules are the rules in force.
func (e *Engine) Rules() *rules.Rules { return e.current.Load().rules }

// ruling is what one set of rules says of the tools that were asked about.
type ruling struct {
	rules *rules.Rules
	tools sync.Map // *catalog.Tool → *entry
	count atomic.Int64
}

// maxEntries bounds the memory for decisions; beyond, all is thought over again.
const maxEntries = 16384

// entry is what rules say of one tool as it is. It does not change.
type entry struct {
	id       catalog.ID
	name     string          // safe to print
	hash     string          // of the definition
	poison   *review.Finding // in the definition by itself
	trust    rules.Trust
	trustBy  rules.Source
	risk     catalog.Risk
	riskBy   rules.Source
	actionBy rules.Source
	quotas   []quota
	verdict  Verdict // by lists and risk alone
}

// entry looks a tool up, or thinks it over.
func (e *Engine) entry(r *ruling, t *catalog.Tool) *entry {
	if v, ok := r.tools.Load(t); ok {
		return v.(*entry)
	}
	n := e.consider(r.rules, t)
	if slices.ContainsFunc(n.quotas, func(q quota) bool { return q.limiter == nil }) {
		return n // there may be room to count it the next time
	}
	if r.count.Add(1) > maxEntries {
		r.tools.Clear()
		r.count.Store(1)
	}
	r.tools.Store(t, n)
	return n
}

func (e *Engine) consider(r *rules.Rules, t *catalog.Tool) *entry {
	id := t.ID()
	n := &entry{id: id, name: redact.Show(id.Canonical())}
	if e.pins != nil {
		n.hash = review.Hash(t)
		n.poison = review.Worst(review.Scan(t), review.Danger)
	}
	n.trust, n.trustBy = r.Trust(id.Server)
	n.risk, n.riskBy = r.Risk(id)
	v := Verdict{Risk: n.risk, Trust: n.trust, Actor: "policy"}
	v.Action, n.actionBy = r.Action(n.risk)
	v.Rule = n.riskBy
	v.Reason = fmt.Sprintf("its risk is %s (%s), which means %s (%s)", rules.RiskWord(n.risk), n.riskBy, v.Action, n.actionBy)
	if v.Action == rules.Ask {
		v.Causes = CauseRisk
	}
	if by, barred := r.Barred(id); barred {
		v.Action, v.Rule, v.Causes = rules.Deny, by, 0
		v.Reason = "it is barred (" + by.String() + ")"
	}
	n.verdict = v
	for _, b := range r.Budgets(id) {
		n.quotas = append(n.quotas, quota{b, e.buckets.get(b, id, e.now())})
	}
	return n
}

// Decide says what becomes of a call. It takes the call from the budgets of its
// server and tool unless it is denied. It does no I/O, and nothing of it grows
// with the size of the arguments.
func (e *Engine) Decide(r Request) Verdict {
	now := e.current.Load()
	n := e.entry(now, r.Tool)
	v := e.judge(now.rules, n, r.Provenance)
	if v.Action == rules.Deny || len(n.quotas) == 0 {
		return v
	}
	if q, wait := draw(n.quotas, e.now()); q != nil {
		v.Action, v.Causes, v.RetryAfter, v.Rule = rules.Deny, 0, wait, q.budget.Source
		v.Reason = "the limit is reached (" + q.budget.Source.String() + ")"
	}
	return v
}

// Judge is Decide without the budgets: it takes nothing from any and knows of none.
func (e *Engine) Judge(r Request) Verdict {
	now := e.current.Load()
	return e.judge(now.rules, e.entry(now, r.Tool), r.Provenance)
}

// Definition is the hash of a tool's definition, or empty where the engine has no pins.
func (e *Engine) Definition(t *catalog.Tool) string {
	return e.entry(e.current.Load(), t).hash
}

// judge is Decide without the budgets.
func (e *Engine) judge(r *rules.Rules, n *entry, provenance []string) Verdict {
	v := n.verdict
	if v.Action == rules.Deny {
		return v
	}
	if e.pins != nil {
		if a, by, why := e.reviewed(r, n); a != rules.Allow {
			v.add(a, CauseReview, by, why)
		}
	}
	if len(provenance) > 0 {
		from, id := e.results.lowest(provenance)
		if a, by, ok := r.Flow(from, n.risk); ok && a != rules.Allow {
			v.add(a, CauseFlow, by, fmt.Sprintf("its arguments come from data of %s trust (result %.40s; %s)", from, redact.Show(id), by))
		}
	}
	return v
}

// add makes a verdict at least as strict as a, for one more reason.
func (v *Verdict) add(a rules.Action, cause Causes, by rules.Source, why string) {
	was := v.Action
	v.Action = was.Stricter(a)
	switch {
	case v.Action == rules.Deny && was != rules.Deny:
		v.Rule, v.Reason, v.Causes = by, why, 0
	case v.Action == rules.Ask && was == rules.Allow:
		v.Rule, v.Reason, v.Causes = by, why, cause
	case v.Action == rules.Ask:
		v.Reason += "; " + why
		v.Causes |= cause
	}
}

// reviewed is what the review of a tool's definition asks for.
func (e *Engine) reviewed(r *rules.Rules, n *entry) (rules.Action, rules.Source, string) {
	c := &r.Config().Review
	switch e.pins.State(n.id, n.hash) {
	case review.Approved:
		return rules.Allow, rules.Source{}, ""
	case review.Changed:
		by := r.ReviewSource("changed", c.Changed)
		return e.suspect(r, n, c.Changed, by, fmt.Sprintf("its definition is not the one that was approved (%s)", by))
	case review.Added:
		by := r.ReviewSource("added", c.Added)
		return e.suspect(r, n, c.Added, by, fmt.Sprintf("its server offers it only since it was approved (%s)", by))
	}
	first := c.First.Of(n.trust)
	by := r.ReviewSource("first."+string(n.trust), first)
	if first != rules.Pin {
		return e.suspect(r, n, rules.Action(first), by, fmt.Sprintf("nobody has approved its definition (%s)", by))
	}
	// The coming review will pin it. If there was one and did not, it had a
	// reason: one of the server's tools looks poisoned.
	if hash, _, ok := e.pins.Seen(n.id); ok && hash == n.hash {
		by = r.ReviewSource("findings", c.Findings)
		return e.suspect(r, n, c.Findings, by, fmt.Sprintf("its server was not approved at first sight, as its tools look suspicious (%s)", by))
	}
	return e.suspect(r, n, rules.Allow, by, "")
}

// suspect adds what a finding in the definition of a tool asks for that nobody
// has approved.
func (e *Engine) suspect(r *rules.Rules, n *entry, a rules.Action, by rules.Source, why string) (rules.Action, rules.Source, string) {
	poison := n.poison
	if hash, findings, ok := e.pins.Seen(n.id); ok && hash == n.hash {
		poison = review.Worst(findings, review.Danger) // a review saw it beside all others
	}
	if poison == nil {
		return a, by, why
	}
	found := fmt.Sprintf("its definition looks poisoned: %s at %s", poison.Message, poison.Pointer)
	if a != rules.Allow {
		found = why + "; " + found
	}
	findings := r.Config().Review.Findings
	stricter := a.Stricter(findings)
	if stricter != a {
		by = r.ReviewSource("findings", findings)
	}
	return stricter, by, found
}

// Trust is how far the data of a call's result is trusted: no further than the
// server, and no further than what the arguments came from.
func (e *Engine) Trust(r Request) rules.Trust {
	from, _ := e.results.lowest(r.Provenance)
	return e.entry(e.current.Load(), r.Tool).trust.Lower(from)
}

// RememberResult notes how far the data of a result is trusted, by the id of its
// call. The trust of an id never rises. The last 16384 results are remembered.
func (e *Engine) RememberResult(callID string, t rules.Trust) { e.results.remember(callID, t) }
