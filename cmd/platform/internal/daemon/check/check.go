// Package check says of what is configured how each server would be started or
// reached, and tries it out if asked, without a platform.
package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/authority"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// Result is what a check found. Its JSON is stable.
type Result struct {
	Servers  []Server `json:"servers"`
	Faults   []Fault  `json:"faults"`
	Warnings []Fault  `json:"warnings,omitempty"`
}

// Server is one server as it would be started.
type Server struct {
	Name      string   `json:"name"`
	Manifest  string   `json:"manifest"`
	Disabled  bool     `json:"disabled,omitempty"`
	Transport string   `json:"transport"`
	URL       string   `json:"url,omitempty"`     // of a server over HTTP
	Command   []string `json:"command,omitempty"` // effective; the program as an absolute path
	Dir       string   `json:"dir,omitempty"`
	Path      string   `json:"path,omitempty"` // PATH of the server
	Problem   string   `json:"problem,omitempty"`

	// With --live only.
	Live            bool     `json:"live,omitempty"`
	ProtocolVersion string   `json:"protocol_version,omitempty"`
	Tools           []string `json:"tools,omitempty"`
	Missing         []string `json:"missing,omitempty"`    // in commands, not in tools/list
	Undeclared      []string `json:"undeclared,omitempty"` // in tools/list, not in commands
}

// Fault is a fault or a warning with its place.
type Fault struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// OK reports whether nothing was found.
func (c *Result) OK() bool {
	return len(c.Faults) == 0 && !slices.ContainsFunc(c.Servers, func(s Server) bool {
		return s.Problem != "" || len(s.Missing) > 0 || len(s.Undeclared) > 0
	})
}

// Run reads the manifests and says how each server would be started or reached.
// If live, it also starts each in a throw-away folder, or connects to it, and
// compares its tools with the manifest's commands.
func Run(ctx context.Context, o settings.Options, live bool, log *slog.Logger) (*Result, error) {
	var err error
	if o.Data, err = filepath.Abs(o.Data); err != nil {
		return nil, fmt.Errorf("finding the data folder: %w", err)
	}
	found, err := load.Manifests(o.Sources())
	out := &Result{Servers: []Server{}, Faults: []Fault{}}
	for _, f := range settings.Split(err) {
		out.Faults = append(out.Faults, checkedFault(f))
	}
	exe, strangers := servers.ExeDir(), servers.Strangers(o.Data, found)
	for _, m := range found {
		for _, w := range m.Warnings {
			out.Warnings = append(out.Warnings, checkedFault(w))
		}
		if f := strangers[m.Package]; f != nil {
			out.Warnings = append(out.Warnings, checkedFault(f))
		}
		s := Server{Name: m.Package, Manifest: m.Path, Disabled: m.Disabled, Transport: m.MCP.Transport}
		s.effective(m, o, exe)
		out.Servers = append(out.Servers, s)
	}
	slices.SortFunc(out.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	out.policy(o, found)
	if live {
		return out, checkLive(ctx, o, found, out, log)
	}
	return out, nil
}

// policy reads the policy as the platform would. A rule that covers no server is a
// warning: it may be about one that is set up elsewhere. Tools are not known here.
func (c *Result) policy(o settings.Options, found []*manifest.Manifest) {
	r, err := settings.Policy(o)
	for _, f := range settings.Split(err) {
		c.Faults = append(c.Faults, checkedFault(f))
	}
	if r == nil {
		return
	}
	byName := map[string]*manifest.Manifest{}
	for _, m := range found {
		byName[m.Package] = m
	}
	for _, rule := range r.Aliased(servers.Aliases(byName)).Idle() {
		c.Warnings = append(c.Warnings, Fault{File: rule.File, Line: rule.Line, Message: rule.Rule + ": the rule covers no server that there is",
			Hint: "write the name or the alias of a server above"})
	}
}

// effective fills in how the server would be started or reached, secrets removed.
func (s *Server) effective(m *manifest.Manifest, o settings.Options, exe string) {
	if m.MCP.Transport == manifest.HTTP {
		s.URL, _ = redact.New(m.SecretValues()).String(m.MCP.URL)
		return
	}
	spec := servers.MakeSpec(m, filepath.Join(o.Data, "apps", m.Package))
	s.Command, s.Dir, s.Path = spec.Command, spec.Dir, servers.PathOf(spec)
	file, err := servers.Program(spec, exe)
	if err == nil {
		s.Command = append([]string{file}, spec.Command[1:]...)
	}
	secrets := redact.New(spec.Secrets)
	for i := range s.Command {
		s.Command[i], _ = secrets.String(s.Command[i])
	}
	switch info, statErr := os.Stat(spec.Dir); {
	case m.Disabled:
	case err != nil:
		s.Problem = err.Error()
	case m.MCP.Cwd != "" && (statErr != nil || !info.IsDir()):
		s.Problem = fmt.Sprintf("the working directory %s is not a folder", spec.Dir)
	default:
		s.Problem = servers.SandboxProblem(m, spec, o.Private())
	}
}

func checkedFault(err error) Fault {
	var f *manifest.Fault
	if errors.As(err, &f) {
		return Fault{f.File, f.Line, f.Column, f.Key, f.Message, f.Hint}
	}
	return Fault{Message: err.Error()}
}

// checkLive starts every enabled server, or connects to it, once, without
// restarts.
func checkLive(ctx context.Context, o settings.Options, found []*manifest.Manifest, out *Result, log *slog.Logger) (err error) {
	scratch, err := os.MkdirTemp("", "platform-check-")
	if err != nil {
		return fmt.Errorf("making a folder for the check: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	layout, redactor := settings.Layout{Data: scratch}, redact.New(nil)
	log = slog.New(redactor.Handler(log.Handler()))
	grants, err := authority.New(o, log, authority.NewSecrets(redactor).Learn) // the tokens are those of the platform itself
	if err != nil {
		return err
	}
	manager, err := client.New(client.Options{Logger: log, Name: "aurora-platform", Version: settings.Version})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, manager.Close(context.WithoutCancel(ctx))) }()
	kit, err := serverkit.New(serverkit.Options{Logger: log, LogDir: layout.Logs()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kit.Shutdown(context.WithoutCancel(ctx))) }()

	connector := servers.Connector{Layout: layout, Private: o.Private(), Authority: grants, Manager: manager, Log: log}
	started := make(map[string]*manifest.Manifest)
	var specs []serverkit.Spec
	for _, m := range found {
		if m.Disabled {
			continue
		}
		spec, err := connector.Spec(m)
		if err != nil {
			return err
		}
		spec.Restart = serverkit.RestartPolicy{Never: true}
		started[m.Package] = m
		specs = append(specs, spec)
	}
	kit.Apply(specs)
	if err := kit.Wait(ctx); err != nil {
		return err
	}
	status := make(map[string]serverkit.Status)
	for _, s := range kit.Status() {
		status[s.Name] = s
	}
	tools := make(map[string][]string)
	for _, t := range manager.Tools().Tools {
		tools[t.Source.Server] = append(tools[t.Source.Server], t.Source.OriginalName)
	}
	for i := range out.Servers {
		s := &out.Servers[i]
		m := started[s.Name]
		if m == nil {
			continue
		}
		st := status[s.Name]
		if st.Phase != serverkit.Ready {
			if s.Problem = "it did not start"; st.LastExit != nil {
				s.Problem = st.LastExit.Reason
			}
			continue
		}
		s.Live, s.ProtocolVersion, s.Tools = true, st.Session.ProtocolVersion, tools[s.Name]
		if live := manager.Session(s.Name); live != nil && live.Info().Degraded != "" {
			s.Problem = live.Info().Degraded
			continue
		}
		drift := m.Drift(s.Tools)
		s.Missing, s.Undeclared = drift.Missing, drift.Undeclared
	}
	return nil
}
