package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const maxWarnings = 20 // tools left out of one list that are told of one by one

// list is one of the lists that a server may offer.
type list struct {
	name    string // in signal.Capability, and the member of the result
	method  string
	key     string // the member that tells items apart
	changed string // the notification
}

const (
	tools = iota
	resources
	prompts
)

var allLists = [...]list{
	tools:     {"tools", "tools/list", "name", "notifications/tools/list_changed"},
	resources: {"resources", "resources/list", "uri", "notifications/resources/list_changed"},
	prompts:   {"prompts", "prompts/list", "name", "notifications/prompts/list_changed"},
}

type digest = [sha256.Size]byte

// lists is what a session knows of its server's lists.
type lists struct {
	wake chan struct{} // capacity 1: something is dirty

	mu    sync.Mutex
	kept  [len(allLists)]bool              // the server offers it
	dirty [len(allLists)]bool              // it may have changed
	sums  [len(allLists)]map[string]digest // by key; nil: never read
	tools []*catalog.Tool                  // in the server's order
	err   error                            // of the last reading of tools
	fresh time.Duration                    // of tools, by the server's word; 0 where it gave none
	out   string                           // which tools were left out, and why
}

// keep takes up the lists that the server offers, and only those.
func (l *lists) keep(c features.Capabilities) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = [...]bool{tools: c.Tools, resources: c.Resources, prompts: c.Prompts}
}

// changed marks the list that the notification method tells of. It reports
// false where that is none, or not offered.
func (l *lists) changed(method string) bool {
	i := slices.IndexFunc(allLists[:], func(x list) bool { return x.changed == method })
	if i < 0 {
		return false
	}
	l.mu.Lock()
	kept := l.kept[i]
	l.dirty[i] = l.dirty[i] || kept
	l.mu.Unlock()
	if kept {
		l.poke()
	}
	return kept
}

func (l *lists) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// allDirty marks every list.
func (l *lists) allDirty() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty = l.kept
}

// takeDirty is which lists are to be read again; they count as clean.
func (l *lists) takeDirty() (d [len(allLists)]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, l.dirty = l.dirty, d
	return d
}

type listState struct {
	tools []*catalog.Tool
	sums  map[string]digest
	err   error
	fresh time.Duration
}

func (l *lists) state() listState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return listState{l.tools, l.sums[tools], l.err, l.fresh}
}

func (l *lists) offers(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[i]
}

// readTools reads the list of tools and takes it over. A list that cannot be
// read leaves the one before in place: the error is in the session's Info.
func (s *server) readTools(ctx context.Context) {
	if !s.lists.offers(tools) {
		return
	}
	raws, unfit, fresh, err := s.session.ListTools(ctx)
	s.lists.mu.Lock()
	s.lists.fresh = fresh
	if err != nil {
		s.lists.err = err
	}
	s.lists.mu.Unlock()
	if err != nil {
		s.log.Warn("the tools of the server cannot be listed", "error", err)
		return
	}
	list := make([]*catalog.Tool, 0, len(raws))
	sums := make(map[string]digest, len(raws))
	var out []string
	for i, raw := range raws {
		t, reason := catalog.Decode(raw)
		if unfit != nil && unfit[i] != "" {
			t, reason = nil, unfit[i]
		} else if t != nil && sums[t.Source.OriginalName] != (digest{}) {
			t, reason = nil, "its name is taken by an earlier tool"
		}
		if t == nil {
			if out = append(out, fmt.Sprintf("tool %d was left out: %s", i+1, reason)); len(out) > maxWarnings {
				out[maxWarnings] = fmt.Sprintf("tool %d and perhaps others were left out", i+1)
				out = out[:maxWarnings+1]
			}
			continue
		}
		if !s.session.Keeps(t.Source.OriginalName) {
			continue
		}
		t.Source.Kind, t.Source.Server, t.Alias = "mcp", s.session.Server(), s.session.Alias()
		t.Name = t.ID().Canonical()
		list = append(list, t)
		sums[t.Source.OriginalName] = sha256.Sum256(raw)
	}
	s.lists.mu.Lock()
	news := strings.Join(out, "\n") != s.lists.out
	s.lists.out = strings.Join(out, "\n")
	s.lists.mu.Unlock()
	if news { // each is said once, not with every reading
		for _, line := range out {
			s.session.Announce(session.ProblemTool, line)
		}
	}
	s.compare(tools, sums, list)
}

// refresh reads a list again and tells of a change.
func (s *server) refresh(ctx context.Context, i int) {
	if i == tools {
		s.readTools(ctx)
		return
	}
	l := allLists[i]
	raws, err := s.session.Relist(ctx, l.method, l.name)
	if err != nil {
		s.log.Debug("a list of the server cannot be read", "list", l.name, "error", err)
		return
	}
	sums := make(map[string]digest, len(raws))
	for _, raw := range raws {
		var key string
		if json.Unmarshal(jsontext.Get(raw, l.key), &key) == nil && key != "" {
			sums[key] = sha256.Sum256(raw)
		}
	}
	s.compare(i, sums, nil)
}

// compare takes over the digests of a list, and list if they are those of the tools.
// Where they differ from those before, the catalogue is published and the change
// announced. The first reading is no change, as lifecycle.started tells of it.
func (s *server) compare(i int, sums map[string]digest, list []*catalog.Tool) {
	s.lists.mu.Lock()
	if i == tools {
		s.lists.tools, s.lists.err = list, nil
	}
	before := s.lists.sums[i]
	s.lists.sums[i] = sums
	s.lists.mu.Unlock()
	c := difference(before, sums)
	if len(c.Added)+len(c.Removed)+len(c.Changed) == 0 {
		return
	}
	if i == tools {
		s.m.publish(s)
	}
	if before == nil && !s.ready.Load() || before == nil && i != tools {
		return
	}
	c.List = allLists[i].name
	s.log.Info("a list of the server changed", "list", c.List,
		"added", len(c.Added), "removed", len(c.Removed), "changed", len(c.Changed))
	s.session.Emit(signal.Signal{
		Kind: signal.CapabilityChanged, Data: &c,
		Summary: fmt.Sprintf("server %s: %d %s, %d added, %d removed, %d changed",
			s.session.Server(), c.Count, c.List, len(c.Added), len(c.Removed), len(c.Changed)),
	})
}

func difference(before, after map[string]digest) (c signal.Capability) {
	for name, sum := range after {
		if old, ok := before[name]; !ok {
			c.Added = append(c.Added, name)
		} else if old != sum {
			c.Changed = append(c.Changed, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			c.Removed = append(c.Removed, name)
		}
	}
	slices.Sort(c.Added)
	slices.Sort(c.Removed)
	slices.Sort(c.Changed)
	c.Count, c.Fingerprint = len(after), fingerprint(after)
	return c
}

// fingerprint is the same for the same items, in whatever order they are listed.
func fingerprint(sums map[string]digest) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[name]
		fmt.Fprintf(h, "%d:%s", len(name), name)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
