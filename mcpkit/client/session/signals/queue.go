package signals

import (
	"context"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// queue holds the signals of one session on their way to the sink. It is
// bounded by number and by bytes of notifications; one notification alone may
// be larger.
type queue struct {
	limit, maxBytes int

	mu      sync.Mutex
	changed sync.Cond
	items   []signal.Signal // a ring of at most limit
	bytes   int
	hold    bool      // nothing is taken
	yield   bool      // holding ends when the queue is full
	waiting int       // for room
	waited  time.Time // when somebody last did
	shut    bool      // nothing more comes
	rushed  bool      // nobody waits for room any more
	lost    int64
	added   int64 // signals so far,
	handed  int64 // and how many of them the taker is done with
}

func newQueue(limit, maxBytes int) *queue {
	q := &queue{limit: limit, maxBytes: maxBytes}
	q.changed.L = &q.mu
	return q
}

func (q *queue) full(size int) bool {
	return len(q.items) >= q.limit || len(q.items) > 0 && q.bytes+size > q.maxBytes
}

// put waits for room. It reports false, and drops s, once the queue is closed,
// or in a hurry and full.
func (q *queue) put(s signal.Signal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.full(len(s.Params)) && !q.shut && !q.rushed {
		if q.hold && q.yield {
			q.hold = false
			q.changed.Broadcast()
		}
		q.waiting++
		q.changed.Wait()
		q.waiting--
		q.waited = time.Now()
	}
	if q.shut || q.full(len(s.Params)) {
		q.lost++
		return false
	}
	q.add(s)
	return true
}

// offer is put for what may be dropped: it does not wait.
func (q *queue) offer(s signal.Signal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shut && !q.full(len(s.Params)) {
		q.add(s)
	}
}

func (q *queue) add(s signal.Signal) {
	if s.Time.IsZero() {
		s.Time = time.Now()
	}
	q.items = append(q.items, s)
	q.bytes += len(s.Params)
	q.added++
	q.changed.Broadcast()
}

// take waits for the next signal; false means that there will be none. The taker
// is done with the one before.
func (q *queue) take() (signal.Signal, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handed = q.added - int64(len(q.items))
	q.changed.Broadcast()
	for len(q.items) == 0 || q.hold {
		if len(q.items) == 0 && q.shut {
			return signal.Signal{}, false
		}
		q.changed.Wait()
	}
	s := q.items[0]
	q.items[0] = signal.Signal{}
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items = nil
	}
	q.bytes -= len(s.Params)
	q.changed.Broadcast()
	return s, true
}

// holdBack lets nothing be taken until release, but gives in when the queue is
// full before insist.
func (q *queue) holdBack() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold, q.yield = true, true
}

// insist ends the yielding of a hold that has not given in.
func (q *queue) insist() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.yield = false
}

// release ends a hold.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold = false
	q.changed.Broadcast()
}

// held reports whether somebody, the read loop as a rule, waits for room or has
// waited since then.
func (q *queue) held(since time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting > 0 || q.waited.After(since)
}

// close lets nothing more in. What is there can still be taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shut = true
	q.changed.Broadcast()
}

// hurry ends the waits for room, now and later.
func (q *queue) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rushed = true
	q.changed.Broadcast()
}

func (q *queue) dropped() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// settled waits until the taker is done with what is in the queue now, or ctx is
// done. While signals are held back it does not wait.
func (q *queue) settled(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})()
	q.mu.Lock()
	defer q.mu.Unlock()
	for until := q.added; q.handed < until && !q.hold && ctx.Err() == nil; {
		q.changed.Wait()
	}
}
