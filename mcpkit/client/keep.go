package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Keep looks after the session while nobody calls: it reads lists again when
// they change, and now and then in case nobody said so, and asks a silent server
// for a sign of life.
func (s *server) Keep(ctx context.Context) {
	cfg := s.session.Config()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, i := range []int{resources, prompts} { // to know a change when it comes
		if s.lists.offers(i) {
			s.refresh(ctx, i)
		}
	}
	s.session.Resubscribe(ctx)

	ping := time.NewTimer(cfg.PingInterval)
	defer ping.Stop()
	poll := time.NewTimer(s.nextPoll())
	defer poll.Stop()
	quiet := time.NewTimer(time.Hour) // runs while a change settles
	defer quiet.Stop()
	quiet.Stop()
	var since time.Time // of the first change that settles
	for {
		select {
		case <-s.session.Ended():
			return
		case <-s.lists.wake:
			if since.IsZero() {
				since = time.Now()
			}
			latest := since.Add(5 * cfg.Debounce)
			quiet.Reset(min(cfg.Debounce, time.Until(latest)))
			// Looking once per debounce is enough, however often it changes.
		case <-quiet.C:
			since = time.Time{}
			s.refreshDirty(ctx)
		case <-poll.C:
			s.lists.allDirty()
			s.refreshDirty(ctx)
			poll.Reset(s.nextPoll())
		case <-ping.C:
			ping.Reset(s.session.CheckAlive(ctx))
		}
	}
}

func (s *server) refreshDirty(ctx context.Context) {
	for i, dirty := range s.lists.takeDirty() {
		if dirty && s.session.Usable() == nil {
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
func (s *server) nextPoll() time.Duration {
	d := s.session.Config().PollInterval
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
