package features

import (
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"time"
)

// Bounds of what one session keeps; beyond them the whole is forgotten.
const (
	maxCached      = 256
	maxCachedBytes = 8 << 20
)

// Keys of the cache: a method, followed by the URI for methodRead.
const (
	methodTemplates = "resources/templates/list"
	methodRead      = "resources/read"
)

// cache keeps what a server said is fresh for a while. It is safe for concurrent use.
type cache struct {
	mu    sync.Mutex
	gen   uint64 // counts what was dropped
	size  int
	items map[string]cached
}

type cached struct {
	parts []json.RawMessage
	until time.Time
	size  int
}

// now is the generation that put compares with, to know whether anything was dropped
// since.
func (c *cache) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gen
}

func (c *cache) get(key string) ([]json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.items[key]
	if ok && time.Now().Before(k.until) {
		return k.parts, true
	}
	return nil, false
}

// put keeps an answer whose request began at gen, unless a change was told of
// since: the answer may be from before it.
func (c *cache) put(gen uint64, key string, parts []json.RawMessage, fresh time.Duration) {
	size := len(key)
	for _, p := range parts {
		size += len(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	if fresh <= 0 || gen != c.gen || size > maxCachedBytes/4 {
		return
	}
	if c.items == nil || len(c.items) >= maxCached || c.size+size > maxCachedBytes {
		c.items, c.size = map[string]cached{}, 0
	}
	c.items[key] = cached{parts, time.Now().Add(fresh), size}
	c.size += size
}

// drop forgets what the keys begin with.
func (c *cache) drop(prefixes ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	for key := range maps.Clone(c.items) {
		for _, p := range prefixes {
			if strings.HasPrefix(key, p) {
				c.remove(key)
			}
		}
	}
}

func (c *cache) remove(key string) {
	if k, ok := c.items[key]; ok {
		c.size -= k.size
		delete(c.items, key)
	}
}

// listChanged forgets what the notification method says has changed.
func (c *cache) listChanged(method string) {
	switch method {
	case "notifications/resources/list_changed":
		c.drop("resources/")
	case "notifications/prompts/list_changed":
		c.drop("prompts/")
	}
}
