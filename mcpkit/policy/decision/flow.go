package decision

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
	trust map[string]rules.Trust // by the id of the call
	order []string               // the ids, oldest first
}

// remember keeps the trust of a result. Of several results under one id the least
// trust holds, or a second result would launder the first.
func (r *results) remember(id string, t rules.Trust) {
	if id == "" || len(id) > 256 {
		return // an id that is not remembered counts as unknown
	}
	t = t.Lower(t) // a word that is no level becomes Unknown
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, known := r.trust[id]; known {
		r.trust[id] = old.Lower(t)
		return
	}
	if r.trust == nil {
		r.trust = map[string]rules.Trust{}
	}
	if len(r.order) == maxResults {
		delete(r.trust, r.order[0])
		r.order = r.order[1:]
	}
	r.trust[id], r.order = t, append(r.order, id)
}

// of is the trust of a result. The caller holds mu.
func (r *results) of(id string) rules.Trust {
	if t, known := r.trust[id]; known {
		return t
	}
	return rules.Unknown
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
		if lower := least.Lower(r.of(id)); lower != least {
			least, worst = lower, id
		}
	}
	return least, worst
}
