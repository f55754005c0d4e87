package decision

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// maxBuckets bounds how many budgets are counted at once.
const maxBuckets = 8192

// bucketKey is one budget: a limit's numbers and what it counts for. A limit
// that a new policy repeats goes on counting.
type bucketKey struct {
	pattern, subject string
	calls, burst     int
	per              time.Duration
	tool             bool
}

// buckets are the budgets that were drawn on.
type buckets struct {
	mu sync.Mutex
	m  map[bucketKey]*rate.Limiter
}

func keyOf(b rules.Budget, id catalog.ID) bucketKey {
	subject := id.Server
	if b.Tool {
		subject += "\x00" + id.Tool
	}
	return bucketKey{b.Pattern, subject, b.Calls, b.Burst, b.Per, b.Tool}
}

// get is the limiter of a budget, or nil where there are too many to count.
func (s *buckets) get(b rules.Budget, id catalog.ID, now time.Time) *rate.Limiter {
	key := keyOf(b, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.m[key]; l != nil {
		return l
	}
	if s.m == nil {
		s.m = map[bucketKey]*rate.Limiter{}
	}
	// A full budget is like one that nobody has drawn on. A tool that was asked
	// about before goes on counting on the one it had.
	if len(s.m) >= maxBuckets {
		for k, l := range s.m {
			if l.TokensAt(now) >= float64(k.burst) {
				delete(s.m, k)
			}
		}
	}
	if len(s.m) >= maxBuckets {
		return nil
	}
	l := rate.NewLimiter(rate.Limit(float64(b.Calls)/b.Per.Seconds()), b.Burst)
	s.m[key] = l
	return l
}

// quota is a budget and its limiter, as the engine keeps them per tool.
type quota struct {
	budget  rules.Budget
	limiter *rate.Limiter // nil where it could not be counted
}

// draw takes one call from every budget, or none and says which one is used up
// and for how long.
func draw(quotas []quota, now time.Time) (spent *quota, wait time.Duration) {
	var taken [8]*rate.Reservation
	held := taken[:0]
	for i := range quotas {
		q := &quotas[i]
		if q.limiter == nil {
			spent, wait = q, q.budget.Per
		} else if r := q.limiter.ReserveN(now, 1); r.DelayFrom(now) > 0 {
			spent, wait = q, r.DelayFrom(now)
			r.CancelAt(now)
		} else {
			held = append(held, r)
			continue
		}
		for _, r := range held {
			r.CancelAt(now)
		}
		return spent, wait
	}
	return nil, 0
}
