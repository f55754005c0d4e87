package decision

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// Read is what the policy says of a resource or prompt that somebody asked for
// by name.
type Read struct {
	Max   int64 // bytes that its result may have
	Trust rules.Trust
}

// Read says whether something of a server may be read now. It does no I/O. The
// error is a *fault.Error: denied, or rate_limited while the server's budget is
// used up. Whoever has read says so with Spend.
func (e *Engine) Read(server string) (Read, error) {
	r := e.Rules()
	trust, _ := r.Trust(server)
	if by, barred := r.Unreadable(server); barred {
		return Read{Trust: trust}, fault.New(fault.Denied, "nothing of server %s may be read: it is barred (%s)", server, by)
	}
	c := r.Config().Resources
	now := e.now()
	if have := e.bytes.of(server, c, now).TokensAt(now); have < 1 {
		per := float64(c.PerMinute) / 60
		wait := time.Duration((1 - have) / per * float64(time.Second))
		f := fault.New(fault.RateLimited, "server %s was read to the limit of %d bytes a minute; try again in %s", server, c.PerMinute, roundUp(wait)).Retry()
		f.Data = fmt.Appendf(nil, `{"retry_after_ms":%d}`, wait.Milliseconds()+1)
		return Read{Trust: trust}, f
	}
	return Read{Max: int64(c.MaxBytes), Trust: trust}, nil
}

// Spend takes bytes that were read of a server from its budget, also where that
// leaves it in debt, and remembers how far the data is trusted, by its id.
func (e *Engine) Spend(server, id string, n int) {
	r := e.Rules()
	trust, _ := r.Trust(server)
	e.RememberResult(id, trust)
	c, now := r.Config().Resources, e.now()
	e.bytes.of(server, c, now).ReserveN(now, min(n, int(c.PerMinute)))
}

// byteBudgets are how many bytes of each server were read.
type byteBudgets struct {
	mu sync.Mutex
	m  map[string]*rate.Limiter
}

// of is the budget of a server, full where there was none. A changed limit keeps
// what was spent.
func (b *byteBudgets) of(server string, c rules.Reads, now time.Time) *rate.Limiter {
	limit, burst := rate.Limit(float64(c.PerMinute)/60), int(c.PerMinute)
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.m[server]
	if l == nil {
		if b.m == nil || len(b.m) >= maxBuckets {
			b.m = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(limit, burst)
		b.m[server] = l
	} else if l.Limit() != limit {
		l.SetLimitAt(now, limit)
		l.SetBurstAt(now, burst)
	}
	return l
}
