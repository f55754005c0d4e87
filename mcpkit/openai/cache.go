package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// Cache remembers exports and the conversions they are made of: the exports of the
// latest catalogue, so that an unchanged one is not encoded again, and converted
// schemas by profile and content, so that an export after one server's change
// converts that server's tools only. It is safe for concurrent use. The zero value
// is ready; a nil *Cache remembers nothing.
//
// It holds at most cacheExports exports, of one table, and two generations of
// cacheSize conversions: when the younger generation is full, it becomes the
// older, and the older is forgotten.
type Cache struct {
	mu         sync.Mutex
	table      *catalog.Table // that exports are of
	exports    map[exportKey]*Export
	young, old map[cacheKey]*schema.Result
}

const (
	cacheSize    = 4096
	cacheExports = 64
)

type cacheKey struct {
	profile string
	schema  [sha256.Size]byte
}

type exportKey struct{ profile, prefix, reserved, server string }

// Export is [New] for the tools of a table, of one server or, where server is
// empty, of all. opts.Cache is not used. Equal arguments give the same Export
// until there is one for another table: a catalogue that changes is a new table.
func (c *Cache) Export(table *catalog.Table, server string, opts Options) (*Export, error) {
	key := exportKey{opts.Profile, opts.Prefix, strings.Join(opts.Reserved, "\x00"), server}
	c.mu.Lock()
	var known *Export
	if c.table == table {
		known = c.exports[key]
	}
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	tools := table.Tools()
	if server != "" {
		tools = slices.DeleteFunc(slices.Clone(tools), func(t *catalog.Tool) bool { return t.Source.Server != server })
	}
	opts.Cache = c
	opts.table = table // so that the export of one server has the names of all
	if prefix := cmp.Or(opts.Prefix, DefaultPrefix); prefix != table.Prefix() {
		opts.table = catalog.NewTable(prefix, table.Tools())
	}
	x, err := New(tools, opts)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table != table || len(c.exports) >= cacheExports {
		c.table, c.exports = table, map[exportKey]*Export{}
	}
	c.exports[key] = x
	return x, nil
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
func (c *Cache) put(key cacheKey, result *schema.Result) {
	if c.young == nil || len(c.young) >= cacheSize {
		c.young, c.old = make(map[cacheKey]*schema.Result), c.young
	}
	c.young[key] = result
}
