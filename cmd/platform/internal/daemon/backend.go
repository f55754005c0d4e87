package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/metrics"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// Version says what runs.
func (p *Platform) Version() control.Version { return settings.BuildVersion() }

// Status is the platform as a whole.
func (p *Platform) Status() control.Status {
	c := p.bridge.Counts()
	st := control.Status{
		Version: settings.BuildVersion(), PID: os.Getpid(), StartedAt: p.started, Data: p.o.Data, Inbox: p.layout.Inbox(),
		State: "ok", Problems: append(append([]string{}, p.problems...), p.bus.Problems()...),
		Events: control.Events{Accepted: c.Accepted, Duplicate: c.Duplicate, Rejected: c.Rejected, Expired: c.Expired, Waiting: c.Waiting},
	}
	if err := p.busErr(); err != nil {
		st.State = "degraded"
		st.Problems = append(st.Problems, "inbox: "+err.Error())
	}
	for _, f := range p.Faults() {
		st.Problems = append(st.Problems, f.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	st.Problems = append(st.Problems, p.settings...)
	for _, f := range settings.Split(p.policyFault) {
		st.Problems = append(st.Problems, f.Error())
	}
	for _, f := range servers.Distrusted(p.rules, p.strangers) {
		st.Problems = append(st.Problems, f.Error())
	}
	return st
}

// busMetrics is the state of the bus for a scrape.
func (p *Platform) busMetrics() metrics.Bus {
	b := p.busCounts()
	b.Degraded = p.busErr() != nil
	return b
}

// serverMetrics is the state of the servers for a scrape.
func (p *Platform) serverMetrics() []metrics.Server {
	servers := p.Servers()
	out := make([]metrics.Server, len(servers))
	for i, s := range servers {
		out[i] = metrics.Server{Name: s.Name, Phase: s.Phase, Restarts: s.Restarts, Tools: s.Tools}
	}
	return out
}

// Servers is the state of each server by name.
func (p *Platform) Servers() []control.Server {
	now := time.Now()
	p.mu.Lock()
	manifests := p.manifests
	p.mu.Unlock()
	out := []control.Server{}
	for _, s := range p.kit.Status() {
		since := s.Since
		v := control.Server{
			Name: s.Name, Phase: string(s.Phase), PID: s.PID, Since: &since, UptimeMS: s.Uptime.Milliseconds(),
			Restarts: s.Restarts, Problem: s.Waiting, ProtocolVersion: s.Session.ProtocolVersion, ServerVersion: s.Session.ServerVersion,
			Tools: s.Session.Tools, URL: s.Endpoint, Command: s.Command, Dir: s.Dir, Log: s.LogPath,
		}
		if m := manifests[s.Name]; m != nil {
			v.Alias, v.Title, v.Manifest = m.Alias, m.Name, wherever(m.Path)
		}
		if s.Phase == serverkit.Ready {
			v.StartMS = s.Since.Sub(now.Add(-s.Uptime)).Milliseconds()
			if live := p.manager.Session(s.Name); live != nil {
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

// Act starts, stops or restarts a server.
func (p *Platform) Act(ctx context.Context, name, action string) error {
	name = p.serverName(name)
	var err error
	switch action {
	case "start":
		err = p.kit.Start(ctx, name)
	case "stop":
		err = p.kit.Stop(ctx, name)
	case "restart":
		err = p.kit.Restart(ctx, name)
	}
	switch {
	case errors.Is(err, serverkit.ErrUnknownServer):
		return p.unknownServer(name)
	case err == nil || ctx.Err() != nil:
		return err
	}
	return fault.New(fault.ServerNotReady, "%v", err) // it is disabled, or did not start
}

// kitStatus is the state of one server's process, or nil.
func (p *Platform) kitStatus(name string) *serverkit.Status {
	for _, s := range p.kit.Status() {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// down says why a server that is configured takes no calls just now.
func (p *Platform) down(name string) *fault.Error {
	s := p.kitStatus(name)
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

// serverName takes an alias for the server it stands for.
func (p *Platform) serverName(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != "" && p.manifests[name] == nil {
		for pkg, m := range p.manifests {
			if m.Alias == name {
				return pkg
			}
		}
	}
	return name
}

func (p *Platform) unknownServer(name string) error {
	return control.NoServer(name, p.Servers())
}

// Tools are the tool records, of one server or of all.
func (p *Platform) Tools(server string) []control.Tool {
	server = p.serverName(server)
	table := p.host.Table()
	out := []control.Tool{}
	for _, t := range table.Tools() {
		if server == "" || t.Source.Server == server {
			v := p.gate.Engine.Judge(policy.Request{Tool: t})
			out = append(out, control.Tool{
				Tool: t, ExportName: table.ExportName(t.ID()), Risk: rules.RiskWord(v.Risk), Trust: v.Trust, Action: v.Action,
			})
		}
	}
	return out
}

// Export is the catalogue as function tools.
func (p *Platform) Export(profile, server string) ([]byte, error) {
	e, err := p.host.Export(profile, p.serverName(server))
	if err != nil {
		return nil, fault.New(control.UnknownProfile, "%v", err)
	}
	return e.JSON(), nil
}

// Call carries a call through the gate.
func (p *Platform) Call(ctx context.Context, r control.CallRequest) (*control.CallResponse, error) {
	res, err := p.host.Call(ctx, host.Call{
		ID: r.ID, Name: r.Name, Arguments: r.Arguments, Entrance: r.Entrance, Trace: r.Trace, Progress: r.Progress,
		Timeout:    time.Duration(r.TimeoutMS) * time.Millisecond,
		Provenance: r.Provenance, IdempotencyKey: r.IdempotencyKey, Approval: r.Approval, ApprovedBy: r.ApprovedBy, Wait: r.Wait,
	})
	if err != nil {
		return nil, err
	}
	return &control.CallResponse{
		CallID: res.CallID, Server: res.Tool.Server, Tool: res.Name, IsError: res.IsError,
		DurationMS: res.Duration.Milliseconds(), WaitedMS: res.Waited.Milliseconds(),
		Result: res.Raw, Flags: res.Flags, Artifact: res.Artifact, Replayed: res.Replayed,
	}, nil
}

// logPoll is how often a followed log is looked at.
const logPoll = 200 * time.Millisecond

// Logs reads a server's log file. A file that has become shorter was rotated and
// is read from its beginning.
func (p *Platform) Logs(ctx context.Context, server string, n int, follow bool, emit func(lines []string) error) error {
	name := p.serverName(server)
	var path string
	for _, s := range p.kit.Status() {
		if s.Name == name {
			path = s.LogPath
		}
	}
	if path == "" {
		// A server that was removed has left its log.
		path = p.kit.LogPath(name)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			return p.unknownServer(server)
		}
	}
	last, offset, err := tail(path, n)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", name, err)
	}
	if err := emit(last); err != nil {
		return err
	}
	tick := time.NewTicker(logPoll)
	defer tick.Stop()
	for follow {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if offset, err = readOn(path, offset, emit); err != nil {
			return err
		}
	}
	return nil
}

// tail returns the last n lines of a file and where it ended. A file that is
// not there yet is empty.
func tail(path string, n int) (lines []string, end int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		l, err := r.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		if errors.Is(err, io.EOF) {
			return lines[max(0, len(lines)-n):], end, nil // a line without its end comes with the next read
		}
		end += int64(len(l))
		if lines = append(lines, l[:len(l)-1]); len(lines) > 2*n+100 {
			lines = append(lines[:0], lines[len(lines)-n:]...)
		}
	}
}

// readOn passes on the whole lines after offset and returns where they end.
func readOn(path string, offset int64, emit func(lines []string) error) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return offset, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return offset, err
	} else if info.Size() < offset {
		offset = 0 // the log was rotated
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	for r := bufio.NewReader(f); ; {
		l, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return offset, nil
		}
		if err != nil {
			return offset, err
		}
		if err := emit([]string{l[:len(l)-1]}); err != nil {
			return offset, err
		}
		offset += int64(len(l))
	}
}

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
