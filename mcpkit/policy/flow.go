package policy

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// maxResults is how many results are remembered; the oldest are forgotten first,
// and what is forgotten counts as unknown.
const maxResults = 16384

// maxProvenance is how many ids of one call are looked up; more count as unknown.
const maxProvenance = 1024

// results remembers how far the data of each result is trusted. It is full after
// some thousand calls and stays that: so there is no pointer in it, which the
// collector would follow again and again.
type results struct {
	mu    sync.RWMutex
	trust map[uint64]uint8 // place in rules.Trusts, by keyOfResult
	ring  []uint64
	next  int
}

var resultSeed = maphash.MakeSeed()

// keyOfResult stands for the id of a call. Nobody can choose two ids with one key
// who does not know the seed, and one of 2^64 keys is seldom among the remembered
// by chance.
func keyOfResult(id string) uint64 { return maphash.String(resultSeed, id) }

// level is the place of a trust in rules.Trusts; a word that is no level has that
// of Unknown.
func level(t rules.Trust) uint8 {
	return uint8(slices.Index(rules.Trusts, t.Lower(t)))
}

// remember keeps the trust of a result. One that is remembered can sink and
// never rise, or a second result under its id would launder it.
func (r *results) remember(id string, t rules.Trust) {
	if id == "" || len(id) > 256 {
		return // not remembered is unknown
	}
	key := keyOfResult(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.trust[key]; ok {
		r.trust[key] = max(old, level(t))
		return
	}
	if r.trust == nil {
		r.trust = map[uint64]uint8{}
	}
	if len(r.ring) < maxResults {
		r.ring = append(r.ring, key)
	} else {
		delete(r.trust, r.ring[r.next])
		r.ring[r.next] = key
		r.next = (r.next + 1) % maxResults
	}
	r.trust[key] = level(t)
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
		t := rules.Unknown
		if n, ok := r.trust[keyOfResult(id)]; ok {
			t = rules.Trusts[n]
		}
		if lower := least.Lower(t); lower != least {
			least, worst = lower, id
		}
	}
	return least, worst
}
