// Package servers makes of manifests what the server kit runs: how a process is
// started or a remote server connected, the session over it, and when a change
// of the manifest has the server replaced. It also knows which servers bear the
// name of a built-in app and are another program.
package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/authority"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// Connector opens the sessions of servers.
type Connector struct {
	Layout    settings.Layout
	Private   []string // files and folders beside Layout that no confined server may reach
	Authority *authority.Authority
	Manager   *client.Manager
	Log       *slog.Logger
}

// Spec is how the server kit is to run, or to keep connected, a manifest's server. It
// carries the manifest whole: what the kit does not do itself is done by Connect, from
// the same manifest that Revision is made of.
func (x *Connector) Spec(m *manifest.Manifest) (serverkit.Spec, error) {
	var spec serverkit.Spec
	if m.MCP.Transport == manifest.HTTP {
		spec = remoteSpec(m)
	} else {
		dir, err := x.Layout.MakeApp(m.Package)
		if err != nil {
			return spec, err
		}
		spec = MakeSpec(m, dir)
		if err := x.confine(m, &spec); err != nil {
			return spec, err
		}
	}
	spec.Revision = revision(m)
	spec.Connect = func(ctx context.Context, in serverkit.Instance, pipes serverkit.Pipes) (serverkit.Session, error) {
		return x.connect(ctx, m, in, pipes)
	}
	return spec, nil
}

// revision is a hash of the manifest without what takes effect on a server as it runs:
// words for people, what the commands are meant to be, and what the server kit takes
// over in place. The content of the private key that the manifest names counts like a
// value of the manifest. A key that is not named here has the server replaced where it
// changes, so that no key can be without effect.
func revision(m *manifest.Manifest) string {
	c := *m
	c.Name, c.Version, c.Description, c.Commands = "", "", "", nil
	c.Disabled = false // Spec.Disabled
	c.MCP.Secrets, c.MCP.HealthTimeout, c.MCP.Restart, c.MCP.Stop = nil, manifest.Default().MCP.HealthTimeout, manifest.Restart{}, manifest.Stop{}
	raw, err := json.Marshal([]any{m.Dir, &c, authority.KeyState(m)})
	if err != nil {
		panic("servers: encoding a manifest: " + err.Error()) // strings, numbers and maps of strings encode
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// MakeSpec is how a process server is started, its session left out; appData is
// the folder of its own data.
func MakeSpec(m *manifest.Manifest, appData string) serverkit.Spec {
	env := serverkit.BaseEnv(os.LookupEnv)
	env = append(env, "AURORA_APP_DATA_DIR="+appData, "AURORA_APP_PACKAGE="+m.Package)
	for _, name := range slices.Sorted(maps.Keys(m.MCP.Env)) {
		env = append(env, name+"="+m.MCP.Env[name])
	}
	return serverkit.Spec{
		Name: m.Package, Command: m.Argv(), Dir: m.WorkDir(), Env: env, Secrets: m.SecretValues(),
		StartTimeout: m.MCP.HealthTimeout.Duration, Disabled: m.Disabled, Restart: restartPolicy(m),
		Stop: stopPolicy(m),
	}
}

func restartPolicy(m *manifest.Manifest) serverkit.RestartPolicy {
	r := m.MCP.Restart
	return serverkit.RestartPolicy{
		Never: !r.Enabled || r.MaxAttempts == 0, Max: r.MaxAttempts,
		Base: r.Backoff.Duration, Cap: r.MaxBackoff.Duration, StableAfter: r.Stable.Duration,
	}
}

func stopPolicy(m *manifest.Manifest) serverkit.StopPolicy {
	s := m.MCP.Stop
	drain := s.Drain.Duration
	if drain == 0 {
		drain = -1 // calls in flight are not waited for
	}
	return serverkit.StopPolicy{CloseWait: s.CloseWait.Duration, TermWait: s.TermWait.Duration, Drain: drain}
}

// Config is how the session of a server treats it.
func Config(m *manifest.Manifest) session.Config {
	var roots []*mcp.Root
	if m.MCP.Roots {
		roots = []*mcp.Root{{URI: (&url.URL{Scheme: "file", Path: m.WorkDir()}).String(), Name: "working directory"}}
	}
	return session.Config{
		Roots: roots, Sampling: m.MCP.Sampling, Elicit: m.MCP.Elicitation,
		CallTimeout: m.MCP.CallTimeout.Duration, MaxCallTime: m.MCP.MaxCallTime.Duration, MaxLine: int(m.MCP.MaxLine),
		IncludeTools: m.MCP.Tools.Include, ExcludeTools: m.MCP.Tools.Exclude,
		Relay: handshake.Features{Roots: m.MCP.Roots, Sampling: m.MCP.Sampling, Elicitation: m.MCP.Elicitation},
	}
}

// remoteSpec is how the server kit is to keep a manifest's server connected.
func remoteSpec(m *manifest.Manifest) serverkit.Spec {
	return serverkit.Spec{
		Name: m.Package, Endpoint: m.MCP.URL, Secrets: m.SecretValues(), StartTimeout: m.MCP.HealthTimeout.Duration,
		Disabled: m.Disabled, Restart: restartPolicy(m), Stop: stopPolicy(m),
	}
}

// wire makes the way to a manifest's server over HTTP.
func (x *Connector) wire(m *manifest.Manifest) (*httpwire.Wire, error) {
	h := http.Header{}
	for name, value := range m.MCP.Headers {
		h.Set(name, value)
	}
	authorizer, err := x.Authority.Of(m)
	if err != nil {
		return nil, err
	}
	return httpwire.New(httpwire.Options{
		Name: m.Package, URL: m.MCP.URL, Header: h, Authorizer: authorizer, Logger: x.Log,
		MaxMessage: int(m.MCP.MaxLine), UserAgent: "aurora-platform/" + settings.Version,
		Proxy: http.ProxyFromEnvironment, // never for this machine
	})
}

// connect opens a session over a fresh process's pipes, or to a server at a URL.
func (x *Connector) connect(ctx context.Context, m *manifest.Manifest, in serverkit.Instance, pipes serverkit.Pipes) (serverkit.Session, error) {
	c := session.Conn{
		Server: in.Name, Alias: m.Alias, Instance: fmt.Sprint(in.Number), Crashes: in.Crashes, Config: Config(m),
		Hold: true, // until the start of the server has been told
	}
	if m.MCP.Transport == manifest.HTTP {
		w, err := x.wire(m)
		if err != nil {
			return nil, err
		}
		c.Wire = w
	} else {
		c.Stdin, c.Stdout = pipes.Stdin, pipes.Stdout
	}
	s, err := x.Manager.Connect(ctx, c)
	if err != nil {
		x.Authority.Refused(in.Name, err)
		if errors.Is(err, handshake.ErrProbeKilled) {
			return nil, fmt.Errorf("%w: %w", serverkit.ErrRespawn, err)
		}
		return nil, err
	}
	return kitSession{s}, nil
}

// kitSession is a client's session as the server kit sees it.
type kitSession struct{ *session.Session }

func (s kitSession) Err() error {
	err := s.Session.Err()
	if errors.Is(err, session.ErrHung) {
		return fmt.Errorf("%w: %w", serverkit.ErrHung, err)
	}
	return err
}

func (s kitSession) Info() serverkit.SessionInfo {
	i := s.Session.Info()
	return serverkit.SessionInfo{
		ProtocolVersion: i.ProtocolVersion, ServerName: i.ServerName, ServerVersion: i.ServerVersion, Tools: i.Tools,
	}
}
