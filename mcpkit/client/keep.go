package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// keep looks after the session while nobody calls: it reads lists again when
// they change, and now and then in case nobody said so, and asks a silent server
// for a sign of life.
func (s *Session) keep() {
	defer s.work.Done()
	ctx, cancel := context.WithCancel(s.m.ctx)
	defer cancel()
	for _, i := range []int{resources, prompts} { // to know a change when it comes
		if s.lists.offers(i) {
			s.refresh(ctx, i)
		}
	}
	s.resubscribe(ctx)

	ping := time.NewTimer(s.cfg.PingInterval)
	defer ping.Stop()
	poll := time.NewTimer(s.nextPoll())
	defer poll.Stop()
	quiet := time.NewTimer(time.Hour) // runs while a change settles
	defer quiet.Stop()
	quiet.Stop()
	var since time.Time // of the first change that settles
	for {
		select {
		case <-s.ended:
			return
		case <-s.lists.wake:
			if since.IsZero() {
				since = time.Now()
			}
			latest := since.Add(5 * s.cfg.Debounce)
			quiet.Reset(min(s.cfg.Debounce, time.Until(latest)))
			// Looking once per debounce is enough, however often it changes.
		case <-quiet.C:
			since = time.Time{}
			s.refreshDirty(ctx)
		case <-poll.C:
			s.lists.allDirty()
			s.refreshDirty(ctx)
			poll.Reset(s.nextPoll())
		case <-ping.C:
			ping.Reset(s.watch(ctx))
		}
	}
}

func (s *Session) refreshDirty(ctx context.Context) {
	for i, dirty := range s.lists.takeDirty() {
		if dirty && !s.closing.Load() {
			s.refresh(ctx, i)
		}
	}
}

// Bounds of what a server's word on the freshness of its tools does to the poll.
const (
	leastPoll = 5 * time.Second
	mostPoll  = time.Hour
)

// nextPoll is sooner for a server whose tools could not be listed, and when they
// are no longer fresh where the server says when that is (2026-07-28, ttlMs).
func (s *Session) nextPoll() time.Duration {
	d := s.cfg.PollInterval
	if d < 0 {
		return 1<<63 - 1
	}
	l := s.lists.state()
	if l.err != nil {
		d /= 10
	} else if l.fresh > 0 {
		d = min(max(l.fresh, leastPoll), mostPoll)
	}
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// watch ends the session of a server that has been silent for too long and does
// not answer either. It returns when to look again. Silence is no fault while
// the server works on a call, or while nobody reads what it says.
func (s *Session) watch(ctx context.Context) time.Duration {
	silent := time.Since(time.Unix(0, s.life.Load()))
	if silent < s.cfg.PingInterval {
		return s.cfg.PingInterval - silent
	}
	busy := len(s.slots) > 0 && silent < s.cfg.MaxCallTime
	if busy || s.closing.Load() || s.signals.held(time.Now()) {
		return s.cfg.PingInterval
	}
	before, began := s.life.Load(), time.Now()
	m := message{method: "ping", timeout: s.cfg.PingTimeout}
	if s.version >= stateless {
		m.method = "server/discover" // there is no ping (2026-07-28)
	}
	// Any answer proves life, a refusal too.
	_, err := s.request(ctx, m)
	if err != nil && (err.Code == fault.Unreachable || err.Code == fault.ConnectionLost) && !s.closing.Load() {
		s.fail(fmt.Errorf("asking server %s for a sign of life: %w", s.server, err))
		s.wire.Close()
		return s.cfg.PingInterval
	}
	mute := err != nil && err.Code == fault.Timeout && s.life.Load() == before
	if mute && !s.signals.held(began) && !s.closing.Load() {
		s.fail(fmt.Errorf("%w: no sign of life for %v", ErrHung, (silent + s.cfg.PingTimeout).Round(time.Millisecond)))
		s.wire.Close()
	}
	return s.cfg.PingInterval
}
