package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/teardown"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// openPolicy puts the gate in front of the tools.
func (p *Platform) openPolicy(ctx context.Context, down *teardown.Stack) error {
	r, err := settings.Policy(p.o)
	if err != nil {
		return err
	}
	store, err := policy.OpenStore(ctx, filepath.Join(p.layout.State(), "policy.db"), policy.StoreOptions{
		Redact: func(raw json.RawMessage) json.RawMessage { return p.redactJSON(raw) }, Logger: p.log,
	})
	if err != nil {
		return err
	}
	down.Add("policy", func(context.Context) error { return store.Close() })
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
	p.gate.SetConfig(p.rules.Without(slices.Collect(maps.Keys(p.strangers))...).Aliased(servers.Aliases(p.manifests)))
	p.mu.Unlock()
	p.host.Reconsider()
}

// reloadPolicy puts a changed policy file into force. One with a fault changes
// nothing but the state.
func (p *Platform) reloadPolicy() {
	o := p.options()
	r, err := settings.Policy(o)
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
	raw, err := rules.ReadFile(cmp.Or(p.options().Policy, settings.DefaultPolicy))
	if err != nil {
		raw = []byte(err.Error())
	}
	return sha256.Sum256(raw)
}
