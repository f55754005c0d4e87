package serverkit

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// restarts decides what follows a crash. It holds no clock and no process.
type restarts struct {
	policy  RestartPolicy
	crashes int // in a row
	final   int // of them, those that do not pass
	delays  *backoff.ExponentialBackOff
}

// jitter spreads delays by this share to either side, so that servers which
// fell together do not rise together.
const jitter = 0.2

func newRestarts(p RestartPolicy) *restarts {
	r := &restarts{}
	r.follow(p)
	return r
}

// follow has p decide from now on. Crashes that were counted stay counted.
func (r *restarts) follow(p RestartPolicy) {
	if r.delays != nil && r.policy == p {
		return
	}
	r.policy = p
	r.delays = &backoff.ExponentialBackOff{
		InitialInterval:     p.Base,
		RandomizationFactor: jitter,
		Multiplier:          2,
		MaxInterval:         p.Cap,
	}
}

// crashed counts a crash of an instance that had been ready for healthy. It
// returns how long to wait before the next start, or again=false if there is
// none. A crash that passes is none of those that are counted against Max.
func (r *restarts) crashed(healthy time.Duration, passes bool) (delay time.Duration, again bool) {
	if healthy >= r.policy.StableAfter {
		r.crashes, r.final = 0, 0
		r.delays.Reset()
	}
	r.crashes++
	if !passes {
		r.final++
	}
	if r.policy.Never || r.final > r.policy.Max {
		return 0, false
	}
	return min(r.delays.NextBackOff(), r.policy.Cap), true
}
