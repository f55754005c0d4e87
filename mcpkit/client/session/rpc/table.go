package rpc

import (
	"encoding/json"
	"math"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Requests of this package have the ids from FirstID to lastID, over and over; the
// SDK counts from 1. All fit into 32 bits, for the servers that need that.
const (
	FirstID = 1 << 30
	lastID  = math.MaxInt32
	keptIDs = 1024 // abandoned requests whose late answers are known as such
)

// pending is a request that was sent and is not answered.
type pending struct {
	answer   chan answer          // capacity 1: each request gets one
	progress chan json.RawMessage // capacity 1, the latest; nil where nobody asked
	origin   any                  // of the request
}

// answer is what became of a request: a result, a JSON-RPC error object, or why
// there is neither.
type answer struct {
	result, problem json.RawMessage
	err             *fault.Error
}

// requests is the table of pending requests. It is safe for concurrent use.
type requests struct {
	mu      sync.Mutex
	next    int64
	pending map[int64]*pending
	late    map[int64]bool // given up, not answered yet
	order   []int64        // the keys of late and of earlier late ones, a ring
	at      int
	closed  *fault.Error // why there are no more; nil while there are
}

func (t *requests) add(p *pending) (int64, *fault.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		e := *t.closed
		return 0, &e
	}
	if t.pending == nil {
		t.pending = map[int64]*pending{}
	}
	for {
		if t.next < FirstID || t.next > lastID {
			t.next = FirstID
		}
		id := t.next
		t.next++
		if t.pending[id] == nil {
			t.pending[id] = p
			return id, nil
		}
	}
}

func (t *requests) get(id int64) *pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending[id]
}

// take is get, and the request is no longer pending. It also reports whether
// the id is that of one that was given up.
func (t *requests) take(id int64) (p *pending, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, late = t.pending[id], t.late[id]
	delete(t.pending, id)
	delete(t.late, id)
	return p, late
}

// abandon forgets a request of which an answer may still come. It reports
// false where that has happened.
func (t *requests) abandon(id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[id] == nil {
		return false
	}
	delete(t.pending, id)
	if t.late == nil {
		t.late = map[int64]bool{}
	}
	if len(t.order) < keptIDs {
		t.order = append(t.order, id)
	} else {
		delete(t.late, t.order[t.at])
		t.order[t.at] = id
		t.at = (t.at + 1) % keptIDs
	}
	t.late[id] = true
	return true
}

// close fails all requests, those to come too, and returns the ids that were
// pending. Only the first cause counts.
func (t *requests) close(cause *fault.Error) (ids []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed == nil {
		t.closed = cause
	}
	for id, p := range t.pending {
		e := *cause
		p.answer <- answer{err: e.Unknown()}
		ids = append(ids, id)
	}
	t.pending = nil
	return ids
}

// over reports whether there are no more requests.
func (t *requests) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed != nil
}
