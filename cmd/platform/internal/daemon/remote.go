package daemon

import (
	"encoding/json"
	"net/http"

	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// remoteSpec is how the server kit is to keep a manifest's server connected.
func remoteSpec(m *manifest.Manifest) serverkit.Spec {
	settings, _ := json.Marshal([]any{m.MCP.Headers, m.MCP.Auth}) // strings always marshal
	return serverkit.Spec{
		Name: m.Package, Endpoint: m.MCP.URL, Settings: string(settings), Secrets: m.SecretValues(),
		StartTimeout: m.MCP.HealthTimeout.Duration, Disabled: m.Disabled, Restart: restartPolicy(m),
	}
}

// wire makes the way to a manifest's server over HTTP.
func (p *Platform) wire(m *manifest.Manifest) (*httpwire.Wire, error) {
	h := http.Header{}
	for name, value := range m.MCP.Headers {
		h.Set(name, value)
	}
	authorizer, err := p.authority.of(m)
	if err != nil {
		return nil, err
	}
	return httpwire.New(httpwire.Options{
		Name: m.Package, URL: m.MCP.URL, Header: h, Authorizer: authorizer, Logger: p.log,
		MaxMessage: int(m.MCP.MaxLine), UserAgent: "aurora-platform/" + version,
		Proxy: http.ProxyFromEnvironment, // never for this machine
	})
}
