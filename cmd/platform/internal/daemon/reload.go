package daemon

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/aurorabot-dev/platform/apps"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/watch"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// DefaultManifests is the folder that is read where none is named.
const DefaultManifests = "manifests"

// sources says where manifests are: those that were named and no others, else
// the built-in apps and, where it exists, the folder "manifests".
func (o *Options) sources() load.Options {
	src := load.Options{Dirs: o.Manifests, Lookup: os.LookupEnv}
	if len(o.Manifests) == 0 {
		src.Embedded, src.EmbeddedDir = apps.Manifests, o.Data
		if info, err := os.Stat(DefaultManifests); err == nil && info.IsDir() {
			src.Dirs = []string{DefaultManifests}
		}
	}
	return src
}

// Reload reads the manifests again and starts, restarts and stops servers to
// match. A server whose manifest has a fault now goes on as it was.
func (p *Platform) Reload() {
	o := p.options()
	found, err := load.Manifests(o.sources())
	faults := split(err)
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
	strangers := p.o.strangers(found)
	for _, f := range distrusted(p.gate.Engine.Rules(), strangers) {
		p.log.Warn("manifest", "warning", f)
	}
	p.enforce(nil, strangers)
	for _, f := range faults {
		p.log.Error("manifest", "error", f)
	}

	var secrets []string
	var specs []serverkit.Spec
	for _, m := range next {
		spec, err := p.spec(m)
		if err != nil {
			p.log.Error("server", "name", m.Package, "error", err)
			continue
		}
		specs, secrets = append(specs, spec), append(secrets, spec.Secrets...)
	}
	p.configure(secrets)
	p.kit.Apply(specs)
}

// split lists the single faults of a load.
func split(err error) []error {
	var many *multierror.Error
	if errors.As(err, &many) {
		return slices.Clone(many.Errors)
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// Faults are what was wrong with manifests at the last reload.
func (p *Platform) Faults() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.faults)
}

// watch reloads whenever settings, policy or manifests change on disk, and when asked.
func (p *Platform) watch(ctx context.Context, asked <-chan os.Signal, settings *Settings, down *teardown) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			p.watchFolders(ctx, asked, settings)
		}
	}()
	down.add("watch", func(context.Context) error { stop(); <-done; return nil })
}

// watchFolders watches until ctx ends, or until the settings name other folders.
func (p *Platform) watchFolders(ctx context.Context, asked <-chan os.Signal, settings *Settings) {
	o := p.options()
	src := o.sources()
	if len(o.Manifests) == 0 {
		src.Dirs = []string{DefaultManifests} // it may come later
	}
	w := watch.New(watch.Options{Manifests: src, Logger: p.log})
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { w.Run(ctx) })
	look := time.NewTicker(policyLook)
	defer look.Stop()
	policy, file := p.policyState(), settings.state()
	for {
		changed := false // the settings
		select {
		case <-look.C:
			if now := settings.state(); now != file {
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
			changed, file = true, settings.state()
		}
		if changed {
			p.reloadSettings(settings)
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
