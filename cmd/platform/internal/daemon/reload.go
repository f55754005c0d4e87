package daemon

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/teardown"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/watch"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// Reload reads the manifests again and starts, restarts and stops servers to
// match. A server whose manifest has a fault now goes on as it was.
func (p *Platform) Reload() {
	o := p.options()
	found, err := load.Manifests(o.Sources())
	faults := settings.Split(err)
	p.mu.Lock()
	found = load.Keep(slices.Collect(maps.Values(p.manifests)), found, err)
	next := make(map[string]*manifest.Manifest, len(found))
	for _, m := range found {
		next[m.Package] = m
		for _, w := range m.Warnings {
			p.log.Warn("manifest", "warning", w)
		}
	}
	p.manifests, p.faults = next, faults
	p.mu.Unlock()
	strangers := servers.Strangers(p.o.Data, found)
	for _, f := range servers.Distrusted(p.gate.Engine.Rules(), strangers) {
		p.log.Warn("manifest", "warning", f)
	}
	p.enforce(nil, strangers)
	for _, f := range faults {
		p.log.Error("manifest", "error", f)
	}

	var secrets []string
	var specs []serverkit.Spec
	for _, m := range next {
		spec, err := p.connector.Spec(m)
		if err != nil {
			p.log.Error("server", "name", m.Package, "error", err)
			continue
		}
		specs, secrets = append(specs, spec), append(secrets, spec.Secrets...)
	}
	p.secrets.Configure(secrets)
	p.kit.Apply(specs)
}

// Faults are what was wrong with manifests at the last reload.
func (p *Platform) Faults() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.faults)
}

// watch reloads whenever settings, policy or manifests change on disk, and when asked.
func (p *Platform) watch(ctx context.Context, asked <-chan os.Signal, source *settings.Source, down *teardown.Stack) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			p.watchFolders(ctx, asked, source)
		}
	}()
	down.Add("watch", func(context.Context) error { stop(); <-done; return nil })
}

// watchFolders watches until ctx ends, or until the settings name other folders.
func (p *Platform) watchFolders(ctx context.Context, asked <-chan os.Signal, source *settings.Source) {
	o := p.options()
	src := o.Sources()
	if len(o.Manifests) == 0 {
		src.Dirs = []string{settings.DefaultManifests} // it may come later
	}
	w := watch.New(watch.Options{Manifests: src, Logger: p.log})
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { w.Run(ctx) })
	look := time.NewTicker(policyLook)
	defer look.Stop()
	policy, file := p.policyState(), source.State()
	for {
		changed := false // the settings
		select {
		case <-look.C:
			if now := source.State(); now != file {
				file, changed = now, true
				break
			}
			if now := p.policyState(); now != policy {
				policy = now
				p.reloadPolicy()
			}
			continue
		case _, ok := <-w.Changed():
			if !ok {
				return
			}
			p.log.Info("manifests changed")
		case <-asked:
			p.log.Info("told to read settings, policy and manifests again")
			changed, file = true, source.State()
		}
		if changed {
			p.reloadSettings(source)
			p.reloadPolicy()
			policy = p.policyState()
		}
		p.Reload()
		if !slices.Equal(p.options().Manifests, o.Manifests) {
			return
		}
	}
}

// policyLook is how often the files of settings and policy are looked at for a change.
const policyLook = 2 * time.Second

// options are the settings as they are in force now. Those of settings.AtStart are in p.o.
func (p *Platform) options() settings.Options {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}

// reloadSettings reads the settings again. Those with a fault change nothing.
func (p *Platform) reloadSettings(source *settings.Source) {
	if source == nil {
		return
	}
	next, problems, err := source.Next(p.o)
	for _, f := range settings.Split(err) {
		problems = append(problems, "the settings stay as they were: "+f.Error())
	}
	p.mu.Lock()
	p.settings = problems
	if err == nil {
		p.live = next
	}
	p.mu.Unlock()
	for _, problem := range problems {
		p.log.Warn("settings", "problem", problem)
	}
	if err == nil {
		p.kit.SetSpawnsPerMinute(next.SpawnsPerMinute)
		p.log.Info("the settings were read")
	}
}
