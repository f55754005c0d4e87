package servers

import (
	"cmp"
	"os"
	"path/filepath"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/confine"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// Directory tells the state of the servers, and which of them a name or an alias
// stands for.
type Directory struct {
	Kit     *serverkit.Kit
	Manager *client.Manager
	// Manifests are those that run, by package. What it returns is never changed.
	Manifests func() map[string]*manifest.Manifest
}

// All is the state of each server, by name.
func (d *Directory) All() []control.Server {
	now := time.Now()
	manifests := d.Manifests()
	out := []control.Server{}
	for _, s := range d.Kit.Status() {
		since := s.Since
		v := control.Server{
			Name: s.Name, Phase: string(s.Phase), PID: s.PID, Since: &since, UptimeMS: s.Uptime.Milliseconds(),
			Restarts: s.Restarts, Problem: s.Waiting, ProtocolVersion: s.Session.ProtocolVersion, ServerVersion: s.Session.ServerVersion,
			Tools: s.Session.Tools, URL: s.Endpoint, Command: s.Command, Dir: s.Dir, Log: s.LogPath,
		}
		if m := manifests[s.Name]; m != nil {
			v.Alias, v.Title, v.Manifest = m.Alias, m.Name, wherever(m.Path)
			if m.MCP.Sandbox.Confined() {
				v.Sandbox = cmp.Or(m.MCP.Sandbox.Profile, confine.Default)
			}
		}
		if s.Phase == serverkit.Ready {
			v.StartMS = s.Since.Sub(now.Add(-s.Uptime)).Milliseconds()
			if live := d.Manager.Session(s.Name); live != nil {
				if v.Problem = live.Info().Degraded; v.Problem != "" {
					v.Phase = "degraded"
				}
			}
		}
		if e := s.LastExit; e != nil {
			v.LastExit = &control.Exit{Cause: e.Cause, Reason: e.Reason, Code: e.Code, Signal: e.Signal, At: e.Time, Stderr: e.Stderr}
			switch s.Phase {
			case serverkit.Failed, serverkit.Backoff, serverkit.NeedsAuth:
				v.Problem = e.Reason
			}
		}
		out = append(out, v)
	}
	return out
}

// Status is the state of one server's process, or nil.
func (d *Directory) Status(name string) *serverkit.Status {
	for _, s := range d.Kit.Status() {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// Down says why a server that is configured takes no calls just now.
func (d *Directory) Down(name string) *fault.Error {
	s := d.Status(name)
	switch {
	case s == nil || s.Phase == serverkit.Ready:
		return nil
	case s.Phase == serverkit.Stopping && s.Waiting != "":
		return fault.New(fault.ServerRestarted, "server %s is being replaced: %s; nothing was sent", name, s.Waiting).Retry()
	case s.Phase == serverkit.Stopped || s.Phase == serverkit.Disabled || s.Phase == serverkit.Stopping:
		return fault.New(fault.ServerStopped, "server %s is %s; nothing was sent", name, s.Phase)
	case s.Phase == serverkit.NeedsAuth:
		return fault.New(fault.NeedsAuth, "server %s wants an authorization that the platform does not have; nothing was sent", name)
	case s.Phase == serverkit.Failed:
		return fault.New(fault.ServerNotReady, "server %s has failed for good until somebody restarts it; nothing was sent", name)
	}
	return fault.New(fault.ServerNotReady, "server %s is not ready (%s); nothing was sent", name, s.Phase).Retry()
}

// Name takes an alias for the server it stands for.
func (d *Directory) Name(name string) string {
	manifests := d.Manifests()
	if name != "" && manifests[name] == nil {
		for pkg, m := range manifests {
			if m.Alias == name {
				return pkg
			}
		}
	}
	return name
}

// Find takes the name or the alias of a server that there is, and returns its name.
func (d *Directory) Find(name string) (string, error) {
	name = d.Name(name)
	if d.Status(name) == nil {
		return "", d.Unknown(name)
	}
	return name, nil
}

// Unknown is the error for the name of a server that there is not.
func (d *Directory) Unknown(name string) error { return control.NoServer(name, d.All()) }

// wherever is the path of a file for those who are in another folder than the
// platform; what is built in is no file and stays as it is called.
func wherever(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		if _, err := os.Stat(abs); err == nil {
			return abs
		}
	}
	return path
}
