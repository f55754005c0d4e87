package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// DefaultPolicy is the policy file that is read where no other is named.
const DefaultPolicy = "policy.yaml"

// policyRules reads the policy file. Without one the built-in rules hold.
func policyRules(o *settings.Options) (*rules.Rules, error) {
	path := o.Policy
	if path == "" {
		if _, err := os.Stat(DefaultPolicy); errors.Is(err, fs.ErrNotExist) {
			return rules.Default(), nil
		}
		path = DefaultPolicy
	}
	r, err := rules.Load(path)
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	return r, nil
}

// openPolicy puts the gate in front of the tools.
func (p *Platform) openPolicy(ctx context.Context, down *teardown) error {
	r, err := policyRules(&p.o)
	if err != nil {
		return err
	}
	store, err := policy.OpenStore(ctx, filepath.Join(p.layout.State(), "policy.db"), policy.StoreOptions{
		Redact: func(raw json.RawMessage) json.RawMessage { return p.redactJSON(raw) }, Logger: p.log,
	})
	if err != nil {
		return err
	}
	down.add("policy", func(context.Context) error { return store.Close() })
	p.gate, p.rules = policy.NewGate(store, r, nil), r
	return nil
}

// enforce puts the rules of the policy file into force, where they are not nil, and
// tells them which servers bear an app's name, where that is not nil.
func (p *Platform) enforce(r *rules.Rules, strangers map[string]*manifest.Fault) {
	p.mu.Lock()
	p.rules = cmp.Or(r, p.rules)
	if strangers != nil {
		p.strangers = strangers
	}
	p.gate.SetConfig(p.rules.Without(slices.Collect(maps.Keys(p.strangers))...))
	p.mu.Unlock()
	p.host.Reconsider()
}

// reloadPolicy puts a changed policy file into force. One with a fault changes
// nothing but the state.
func (p *Platform) reloadPolicy() {
	o := p.options()
	r, err := policyRules(&o)
	p.mu.Lock()
	p.policyFault = err
	p.mu.Unlock()
	if err != nil {
		p.log.Error("the policy stays as it was", "error", err)
		return
	}
	p.enforce(r, nil)
	p.log.Info("the policy was read")
}

// policyState stands for the content of the policy file, or for why it cannot be
// read: it is another after a change.
func (p *Platform) policyState() [sha256.Size]byte {
	path := p.options().Policy
	if path == "" {
		path = DefaultPolicy
	}
	raw, err := rules.ReadFile(path)
	if err != nil {
		raw = []byte(err.Error())
	}
	return sha256.Sum256(raw)
}

// Approvals lists questions to people.
func (p *Platform) Approvals(ctx context.Context, states ...approval.State) ([]approval.Approval, error) {
	return p.gate.Approvals.List(ctx, states...)
}

// Approval is one question.
func (p *Platform) Approval(ctx context.Context, id string) (approval.Approval, error) {
	a, err := p.gate.Approvals.Show(ctx, id)
	return a, approvalFault(err)
}

// Approve answers a question with yes.
func (p *Platform) Approve(ctx context.Context, id string, scope approval.Scope, actor string) (approval.Approval, error) {
	a, err := p.gate.Approvals.Approve(ctx, id, scope, actor)
	return a, approvalFault(err)
}

// Deny answers a question with no.
func (p *Platform) Deny(ctx context.Context, id, actor, reason string) (approval.Approval, error) {
	a, err := p.gate.Approvals.Deny(ctx, id, actor, reason)
	return a, approvalFault(err)
}

// Revoke takes an answer back, or closes a question.
func (p *Platform) Revoke(ctx context.Context, id, actor string) (approval.Approval, error) {
	a, err := p.gate.Approvals.Revoke(ctx, id, actor)
	return a, approvalFault(err)
}

func approvalFault(err error) error {
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return fault.New(control.ApprovalNotFound, "%v", err)
	case errors.Is(err, approval.ErrDecided):
		return fault.New(control.ApprovalDecided, "%v", err)
	}
	return err
}

// Explain says what would become of a call of a tool, and why.
func (p *Platform) Explain(name string) (policy.Explanation, error) {
	tool, err := p.host.Table().Resolve(name)
	if err != nil {
		return policy.Explanation{}, err
	}
	return p.gate.Engine.Explain(tool), nil
}

// Review is the review of the catalogue as it stands, or of a server's part.
func (p *Platform) Review(server string) (*review.Report, error) {
	p.host.Table() // reviews what is new
	report := p.gate.Pins.Report()
	if server == "" {
		return report, nil
	}
	server = p.serverName(server)
	if s := p.kitStatus(server); s == nil {
		return nil, p.unknownServer(server)
	}
	report.Servers = slices.DeleteFunc(report.Servers, func(s review.ServerReport) bool { return s.Server != server })
	return report, nil
}

// Diff is how a server's tools differ from what was approved.
func (p *Platform) Diff(server string) ([]review.ToolDiff, error) {
	p.host.Table()
	server = p.serverName(server)
	if s := p.kitStatus(server); s == nil {
		return nil, p.unknownServer(server)
	}
	return p.gate.Pins.Diff(server), nil
}

// Pin approves a server's tools, or one of them, as they were reviewed.
func (p *Platform) Pin(ctx context.Context, a review.Approval) error {
	p.host.Table()
	a.Server = p.serverName(a.Server)
	if s := p.kitStatus(a.Server); s == nil {
		return p.unknownServer(a.Server)
	}
	return p.gate.Pins.Approve(ctx, a)
}
