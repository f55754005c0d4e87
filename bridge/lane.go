package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const (
	// What only records how something came about is published with what follows
	// it, or so much later: most calls are over before that.
	recordPause = 10 * time.Millisecond

	// A lane begins no batch sooner than so long after the one before.
	gatherPause = 5 * time.Millisecond

	// A lane that has had nothing for so long is taken down.
	idleLane = 10 * time.Second
)

// lane holds the waiting signals of one server, in order, and has a goroutine that
// publishes them. The holder of the bridge's mu alone reads and writes its fields.
type lane struct {
	*Bridge
	server string
	queue  []signal.Signal // waiting; nil when empty
	due    time.Time       // when it has to be published
	taken  []signal.Signal // still to be published of what was due
	began  time.Time       // when the last batch was
	busy   bool            // the goroutine publishes, and looks again afterwards
	wake   chan struct{}   // capacity 1: the goroutine is to look
	woken  bool            // it will
	timer  *time.Timer     // wakes it; never stopped, as that costs more than to wake it in vain
	rings  time.Time       // when the timer does
	space  chan struct{}   // closed when room was made; nil where nobody waits for that
}

// Observe takes one signal into its server's lane. It waits while the lane is
// full, until ctx ends.
func (b *Bridge) Observe(ctx context.Context, s signal.Signal) error {
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return ErrClosed
		}
		l := b.lanes[s.Server]
		if l == nil {
			l = b.lane(s.Server)
		}
		if l.add(&s) {
			b.mu.Unlock()
			return nil
		}
		if l.space == nil {
			l.space = make(chan struct{})
		}
		space := l.space
		b.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return ctx.Err()
		case <-b.ctx.Done():
			return ErrClosed
		}
	}
}

// Room reports whether more may be begun of which a server's lane is told the end: an
// error where three quarters of the lane wait, because the bus takes nothing. The rest
// is for the ends of what has begun.
func (b *Bridge) Room(server string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[server]
	if l == nil {
		return nil
	}
	if n := len(l.queue) + len(l.taken); n >= l.o.LaneSize/4*3 {
		return fmt.Errorf("%d events of server %s wait to be recorded", n, server)
	}
	return nil
}

// lane makes a server's lane. The caller holds b.mu.
func (b *Bridge) lane(server string) *lane {
	l := &lane{Bridge: b, server: server, rings: time.Now().Add(idleLane), wake: make(chan struct{}, 1)}
	l.timer = time.AfterFunc(idleLane, l.look)
	b.lanes[server] = l
	b.work.Go(l.run)
	return l
}

// add appends a signal and sees to it that it is published in time. It reports
// false where the lane is full.
func (l *lane) add(s *signal.Signal) bool {
	first := l.queue == nil
	full := len(l.queue)+len(l.taken) >= l.o.LaneSize
	if !full {
		l.queue = append(l.queue, *s)
		l.waiting.Add(1)
	}
	switch {
	case full || len(l.queue) > defaultBatch || s.Ack != nil:
		l.by(time.Time{}, first)
	case !record(s):
		l.by(l.began.Add(gatherPause), first)
	case first:
		l.by(time.Now().Add(recordPause), first)
	}
	return !full
}

// by has what waits published at a time, or sooner if that was due.
func (l *lane) by(due time.Time, first bool) {
	if !first && !l.due.After(due) {
		return
	}
	l.due = due
	if l.busy || l.woken || !l.rings.After(due) {
		return
	}
	if pause := time.Until(due); pause > 0 {
		l.rings = due
		l.timer.Reset(pause)
		return
	}
	l.woken = true
	l.look()
}

// look wakes the goroutine.
func (l *lane) look() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run publishes what is due, until the bridge is closed or nothing comes any more.
func (l *lane) run() {
	defer l.timer.Stop()
	for {
		batch, over := l.take(defaultBatch)
		switch {
		case over:
			return
		case len(batch) == 0:
			<-l.wake
		default:
			l.publish(batch)
			l.waiting.Add(-int64(len(batch)))
			clear(batch)
		}
	}
}

// take takes up to n signals where they are due. Otherwise it sees to it that the
// timer rings before there is something to do, or takes the lane down.
func (l *lane) take(n int) (batch []signal.Signal, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.woken = false
	if len(l.taken) == 0 {
		now := time.Now()
		l.busy = l.queue != nil && (l.closed || !l.due.After(now))
		switch {
		case l.busy:
			l.taken, l.queue, l.began = l.queue, nil, now
		case l.queue == nil && (l.closed || now.Sub(l.began) >= idleLane):
			delete(l.lanes, l.server)
			return nil, true
		default:
			l.sleep(now)
			return nil, false
		}
	}
	n = min(n, len(l.taken))
	batch, l.taken = l.taken[:n], l.taken[n:]
	if l.space != nil {
		close(l.space)
		l.space = nil
	}
	return batch, false
}

// sleep has the timer ring in time for what waits, or for the end of the lane.
func (l *lane) sleep(now time.Time) {
	next := l.began.Add(idleLane)
	if l.queue != nil {
		next = l.due
	}
	if !l.rings.After(now) || l.rings.After(next) {
		l.rings = next
		l.timer.Reset(next.Sub(now))
	}
}
