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

// results remembers how far the data of each result is trusted. Every call adds one,
// and few ask for any: so it is a ring, to which one adds without looking.
type results struct {
	mu    sync.RWMutex
	keys  []uint64
	trust []uint8 // of each key: its place in rules.Trusts
	next  int     // the oldest, once the ring is full
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

// remember keeps the trust of a result.
func (r *results) remember(id string, t rules.Trust) {
	if id == "" || len(id) > 256 {
		return // not remembered is unknown
	}
	key, trust := keyOfResult(id), level(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) < maxResults {
		r.keys, r.trust = append(r.keys, key), append(r.trust, trust)
		return
	}
	r.keys[r.next], r.trust[r.next] = key, trust
	r.next = (r.next + 1) % maxResults
}

// of is the trust of a result. Of several under one id it is the least, or a second
// result would launder the first.
func (r *results) of(id string) rules.Trust {
	key, least, known := keyOfResult(id), uint8(0), false
	for i, k := range r.keys {
		if k == key {
			least, known = max(least, r.trust[i]), true
		}
	}
	if !known {
		return rules.Unknown
	}
	return rules.Trusts[least]
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
