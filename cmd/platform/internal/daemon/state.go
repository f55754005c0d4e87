package daemon

import (
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/metrics"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
)

// problemsNow are what a person should know of: what was found at start, then the
// bus, the manifests, the settings and the policy.
func (p *Platform) problemsNow() []string {
	out := append(append([]string{}, p.problems...), p.bus.Problems()...)
	if err := p.degraded(); err != nil {
		out = append(out, "inbox: "+err.Error())
	}
	out = append(out, p.history.Problems()...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		out = append(out, f.Error())
	}
	out = append(out, p.settings...)
	for _, f := range settings.Split(p.policyFault) {
		out = append(out, f.Error())
	}
	for _, rule := range p.gate.Engine.Rules().Idle() {
		out = append(out, "policy: "+rule.String()+": the rule covers no server or tool that there is")
	}
	for _, f := range servers.Distrusted(p.rules, p.strangers) {
		out = append(out, f.Error())
	}
	return out
}

// running are the manifests of the servers that run, by package.
func (p *Platform) running() map[string]*manifest.Manifest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.manifests
}

// busMetrics is the state of the bus for a scrape.
func (p *Platform) busMetrics() metrics.Bus {
	b := p.busCounts()
	b.Degraded = p.degraded() != nil
	return b
}

// serverMetrics is the state of the servers for a scrape.
func (p *Platform) serverMetrics() []metrics.Server {
	all := p.servers.All()
	out := make([]metrics.Server, len(all))
	for i, s := range all {
		out[i] = metrics.Server{Name: s.Name, Phase: s.Phase, Restarts: s.Restarts, Tools: s.Tools}
	}
	return out
}
