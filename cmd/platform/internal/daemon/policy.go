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

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/teardown"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
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
func (p *Platform) openPolicy(ctx context.Context, down *teardown.Stack) error {
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
