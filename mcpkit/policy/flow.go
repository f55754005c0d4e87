package policy

import (
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// maxResults is how many results are remembered; the oldest are forgotten first,
// and what is forgotten counts as unknown.
const maxResults = 16384

// maxProvenance is how many ids of one call are looked up; more count as unknown.
const maxProvenance = 1024

// results remembers how far the data of each result is trusted.
type results struct {
	mu    sync.RWMutex
	trust map[string]rules.Trust
	ring  []string
	next  int
}

// remember keeps the trust of a result. One that is remembered can sink and
// never rise, or a second result under its id would launder it.
func (r *results) remember(id string, t rules.Trust) {
	if id == "" || len(id) > 256 {
		return // not remembered is unknown
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.trust[id]; ok {
		r.trust[id] = old.Lower(t)
		return
	}
	if r.trust == nil {
		r.trust = map[string]rules.Trust{}
	}
	if len(r.ring) < maxResults {
		r.ring = append(r.ring, id)
	} else {
		delete(r.trust, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % maxResults
	}
	r.trust[id] = t.Lower(t)
}

// lowest is the least trust among some results, and the id that has it. Without
// ids there is nothing to distrust.
func (r *results) lowest(ids []string) (rules.Trust, string) {
	switch {
	case len(ids) == 0:
		return rules.Official, ""
	case len(ids) > maxProvenance:
		return rules.Unknown, ids[0]
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	least, worst := rules.Official, ids[0]
	for _, id := range ids {
		t, ok := r.trust[id]
		if !ok {
			t = rules.Unknown
		}
		if lower := least.Lower(t); lower != least {
			least, worst = lower, id
		}
	}
	return least, worst
}
