package main

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// cache remembers answers that cost a request. It holds at most max entries, the
// least recently used goes first. An entry is fresh for its ttl; after that it
// is asked for anew, and while asking fails it is still given out, marked stale,
// until it is as old as keep. Callers who want the same key at the same time
// share one request.
type cache[V any] struct {
	max   int
	ttlOf func(V) time.Duration
	keep  time.Duration
	now   func() time.Time

	mu      sync.Mutex
	entries map[string]*list.Element // of *cached[V]
	recent  *list.List               // the most recently used first
	flights map[string]*flight[V]
}

type cached[V any] struct {
	key   string
	value V
	at    time.Time
	stale bool
}

// flight is a request under way. The fields but done are set when done is closed.
type flight[V any] struct {
	done      chan struct{}
	result    cached[V]
	err       error
	abandoned bool // its caller gave up, so err says nothing about the provider
}

func newCache[V any](max int, ttl, keep time.Duration, now func() time.Time) *cache[V] {
	return &cache[V]{
		max:     max,
		ttlOf:   func(V) time.Duration { return ttl },
		keep:    keep,
		now:     now,
		entries: map[string]*list.Element{},
		recent:  list.New(),
		flights: map[string]*flight[V]{},
	}
}

// get returns what is cached under key, or what load returns. One caller loads,
// the others wait for it and share what it got.
func (c *cache[V]) get(ctx context.Context, key string, load func(context.Context) (V, error)) (cached[V], error) {
	for {
		c.mu.Lock()
		if e := c.lookup(key); e != nil && c.now().Sub(e.at) < c.ttlOf(e.value) {
			c.mu.Unlock()
			return *e, nil
		}
		f, busy := c.flights[key]
		if !busy {
			f = &flight[V]{done: make(chan struct{}), abandoned: true}
			c.flights[key] = f
		}
		c.mu.Unlock()
		if !busy {
			c.fly(ctx, key, f, load)
			return f.result, f.err
		}
		select {
		case <-f.done:
			if !f.abandoned {
				return f.result, f.err
			}
		case <-ctx.Done():
			return cached[V]{}, timedOut(ctx.Err())
		}
	}
}

// fly makes the request of f. A panic in load leaves f abandoned.
func (c *cache[V]) fly(ctx context.Context, key string, f *flight[V], load func(context.Context) (V, error)) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.flights, key)
		close(f.done)
	}()
	v, err := load(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	f.abandoned = err != nil && ctx.Err() != nil
	if err == nil {
		e := &cached[V]{key: key, value: v, at: c.now()}
		c.store(e)
		f.result = *e
	} else if e := c.lookup(key); e != nil && c.now().Sub(e.at) < c.keep {
		f.result = *e
		f.result.stale = true
	} else {
		f.err = err
	}
}

// lookup returns the entry under key or nil. The caller holds mu.
func (c *cache[V]) lookup(key string) *cached[V] {
	el, ok := c.entries[key]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(el)
	return el.Value.(*cached[V])
}

// store adds or replaces an entry. The caller holds mu.
func (c *cache[V]) store(e *cached[V]) {
	if el, ok := c.entries[e.key]; ok {
		el.Value = e
		c.recent.MoveToFront(el)
		return
	}
	c.entries[e.key] = c.recent.PushFront(e)
	for len(c.entries) > c.max {
		oldest := c.recent.Back()
		c.recent.Remove(oldest)
		delete(c.entries, oldest.Value.(*cached[V]).key)
	}
}
