package openai

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// Cache remembers converted schemas by profile and content, so that an export
// after one server's change converts that server's tools only. It is safe for
// concurrent use. The zero value is ready; a nil *Cache remembers nothing.
//
// It holds at most two generations of cacheSize conversions: when the younger
// is full, it becomes the older, and the older is forgotten.
type Cache struct {
	mu         sync.Mutex
	young, old map[cacheKey]*schema.Result
}

const cacheSize = 4096

type cacheKey struct {
	profile string
	schema  [sha256.Size]byte
}

func (c *Cache) convert(profile string, input json.RawMessage, r *rules.Rules) *schema.Result {
	if c == nil {
		return schema.Convert(input, r)
	}
	key := cacheKey{profile, sha256.Sum256(input)}
	c.mu.Lock()
	result, ok := c.young[key]
	if !ok {
		if result, ok = c.old[key]; ok {
			c.put(key, result)
		}
	}
	c.mu.Unlock()
	if ok {
		return result
	}
	result = schema.Convert(input, r)
	c.mu.Lock()
	c.put(key, result)
	c.mu.Unlock()
	return result
}

// put is called with the lock held.
func (c *Cache) put(key cacheKey, r *schema.Result) {
	if c.young == nil || len(c.young) >= cacheSize {
		c.young, c.old = make(map[cacheKey]*schema.Result), c.young
	}
	c.young[key] = r
}
