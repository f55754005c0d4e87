package features

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// ProblemList is the code of a list that is longer than the limits, for
// [Options].Report.
const ProblemList = "list_guard"

// list is a list that the cache may have; offered says whether the server offers it.
func (c *Client) list(ctx context.Context, offered bool, method, member string) ([]json.RawMessage, error) {
	if what, _, _ := strings.Cut(method, "/"); !offered {
		return nil, c.notOffered(what)
	}
	if kept, ok := c.cache.get(method); ok {
		return kept, nil
	}
	return c.Relist(ctx, method, member)
}

// Relist reads all pages of a list of resources or prompts anew.
func (c *Client) Relist(ctx context.Context, method, member string) ([]json.RawMessage, error) {
	gen := c.cache.now()
	items, fresh, err := c.walk(ctx, method, member)
	if err == nil {
		c.cache.put(gen, method, items, fresh)
	}
	return items, err
}

// ListTools reads all pages of the list of tools, as raw objects. unfit says for
// each why the wire cannot carry calls of it, or ""; it is nil where the wire can
// carry all. fresh is for how long the list is good by the server's word, or 0.
func (c *Client) ListTools(ctx context.Context) (items []json.RawMessage, unfit []string, fresh time.Duration, err error) {
	items, fresh, err = c.walk(ctx, "tools/list", "tools")
	if c.o.Tools != nil && err == nil {
		unfit = c.o.Tools(items)
	}
	return items, unfit, fresh, err
}

// maxFresh bounds for how long a server's word on its freshness is taken.
const maxFresh = 24 * time.Hour

// fresh is for how long an answer is good, by the server's word (2026-07-28,
// caching). A session is one server's and speaks for one principal, so that
// answers of either cacheScope may be kept in it; nothing of it is shared.
func (c *Client) fresh(res json.RawMessage) time.Duration {
	ms, ok := rpc.Integer(jsontext.Get(res, "ttlMs"))
	if !c.o.Agreed.Stateless() || !ok || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxFresh.Milliseconds())) * time.Millisecond
}

// walk reads all pages of a list, within limits. When one is reached, time is
// up, or a later page fails, it reports that and keeps what it has.
// The list is fresh for as long as its most short-lived page.
func (c *Client) walk(ctx context.Context, method, member string) (items []json.RawMessage, fresh time.Duration, _ error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.ListTimeout)
	defer cancel()
	guard := func(format string, args ...any) {
		c.o.Report(ProblemList, method+": "+fmt.Sprintf(format, args...), nil)
	}
	cursors := map[string]bool{}
	size := 0
	m := rpc.Request{Method: method, Asker: c.o.Agreed.Metadata.Members()}
	for page := 1; ; page++ {
		res, err := c.o.Conn.Do(ctx, m)
		switch {
		case err != nil && page > 1 && (err.Code == fault.Protocol || err.Code == fault.Timeout):
			guard("no more after %d pages: %v", page-1, err)
			return items, 0, nil
		case err != nil:
			return nil, 0, err
		}
		if f := c.fresh(res); page == 1 || f < fresh {
			fresh = f
		}
		if !jsontext.Elements(jsontext.Get(res, member), func(v []byte) bool { items = append(items, v); return true }) {
			return nil, 0, fault.New(fault.Protocol, "the result of %s has no array %q", method, member)
		}
		size += len(res)
		next := jsontext.Get(res, "nextCursor")
		switch {
		case len(items) > c.o.MaxTools:
			guard("more than %d items", c.o.MaxTools)
			return items[:c.o.MaxTools], fresh, nil
		case len(next) == 0, string(next) == "null", string(next) == `""`:
			return items, fresh, nil
		case cursors[string(next)]:
			guard("a cursor came again after %d pages", page)
			return items, fresh, nil
		case page == c.o.MaxPages:
			guard("more than %d pages", page)
			return items, fresh, nil
		case size > c.o.MaxLine:
			guard("more than %d bytes", c.o.MaxLine)
			return items, fresh, nil
		}
		cursors[string(next)] = true
		m.Params = append([]byte(`"cursor":`), rpc.OneLine(next)...)
	}
}
