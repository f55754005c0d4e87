package main

import (
	"context"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/apps/clock/walltime"
)

const (
	maxMissed    = 10_000          // rings counted as missed; daily that is 27 years
	lateAfter    = time.Second     // a ring this long after its due time is late
	clockJump    = 2 * time.Second // a difference of wall and monotonic time that is no drift
	checkEvery   = 30 * time.Second
	retryAfter   = time.Second
	handoverTime = 5 * time.Second // for one ring
)

// Ring is one item that came due, as its event tells it.
type Ring struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind"` // timer or alarm
	Label      string          `json:"label,omitempty"`
	SessionID  string          `json:"session_id,omitempty"`
	DueAt      time.Time       `json:"due_at"` // of several missed, the latest
	RungAt     time.Time       `json:"rung_at"`
	Late       bool            `json:"late"` // due while the clock was down, or more than a second ago
	LateByMS   int64           `json:"late_by_ms"`
	Missed     int             `json:"missed"`                 // due times that passed without a ring, this one included; 0 if on time
	FirstDueAt *time.Time      `json:"first_due_at,omitempty"` // of several missed, the earliest
	Repeat     walltime.Repeat `json:"repeat,omitempty"`
	NextDueAt  *time.Time      `json:"next_due_at,omitempty"` // of a repeated alarm
}

// Key is the same for the same ring, through any crash.
func (r *Ring) Key() string {
	return r.ID + "@" + r.DueAt.UTC().Format(time.RFC3339Nano)
}

// Run rings what comes due until ctx is done. It is called once.
func (s *Service) Run(ctx context.Context) {
	defer close(s.done)
	defer s.lock.Close()
	s.lastWall, s.lastMono = s.wall(), time.Now()
	for {
		var due <-chan time.Time // nil while there is nothing to wait for
		if wait := s.settle(ctx); wait >= 0 {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case op := <-s.ops:
			op()
		case <-due:
		}
	}
}

// settle rings everything that is due and says how long nothing will be;
// negative means until something is asked for.
//
// A ring is first decided and written down, together with what becomes of its
// item; then handed over; then struck out. A crash at any point repeats at most
// the handing over, with the same key.
func (s *Service) settle(ctx context.Context) time.Duration {
	now := s.wall()
	moved := s.watchClock(now)
	rung := s.decide(now)
	if rung || s.unsaved {
		// A ring that cannot be written down still rings: better twice with one
		// key than never.
		s.persist()
	}
	if s.handOver(ctx) {
		s.persist()
	}
	if moved || rung {
		s.opt.Changed()
	}

	wait := time.Duration(-1)
	for _, it := range s.st.Items {
		if d := max(it.DueAt.Sub(s.wall()), 0); wait < 0 || d < wait {
			wait = d
		}
	}
	if s.unsaved || len(s.st.Rings) > 0 {
		return retryAfter
	}
	return min(wait, checkEvery) // the wall clock may be set while we wait
}

// watchClock notices that the wall clock was set or the machine slept. Repeated
// alarms follow the clock to its new reading. Timers keep the length they were
// asked for when the clock is set back; a leap forward may have been a sleep,
// which counts, so what it passed over rings, late.
func (s *Service) watchClock(now time.Time) (moved bool) {
	jump := now.Sub(s.lastWall) - time.Since(s.lastMono)
	s.lastWall, s.lastMono = now, time.Now()
	if jump.Abs() < clockJump {
		return false
	}
	s.opt.Logger.Warn("the wall clock jumped", "by", jump)
	for i := range s.st.Items {
		if it := &s.st.Items[i]; it.Kind == kindTimer && jump < 0 {
			it.DueAt, s.unsaved = it.DueAt.Add(jump), true
		}
	}
	s.realign(now)
	return true
}

// realign finds anew when the alarms to come ring, from what they were asked to
// be. An instant that has rung does not ring again.
func (s *Service) realign(now time.Time) {
	for i := range s.st.Items {
		it := &s.st.Items[i]
		if it.Rule == nil || it.Rule.Exact || !it.DueAt.After(now) {
			continue
		}
		next, err := it.Rule.next(now)
		if err == nil && it.LastRungAt != nil && next.Equal(*it.LastRungAt) {
			next, err = it.Rule.next(next)
		}
		if err != nil {
			s.opt.Logger.Error("an alarm keeps its due time: its rule fails", "id", it.ID, "error", err)
		} else if !next.IsZero() && !next.Equal(it.DueAt) {
			it.DueAt, s.unsaved = next, true
		}
	}
}

// decide moves everything due into the rings to hand over, earliest first.
func (s *Service) decide(now time.Time) (rung bool) {
	slices.SortStableFunc(s.st.Items, byDue)
	var keep []Item
	for _, it := range s.st.Items {
		// An alarm whose last ring is still here waits, and then has missed one.
		waits := slices.ContainsFunc(s.st.Rings, func(r Ring) bool { return r.ID == it.ID })
		if it.DueAt.After(now) || waits {
			keep = append(keep, it)
			continue
		}
		ring := Ring{ID: it.ID, Kind: it.Kind, Label: it.Label, SessionID: it.SessionID, DueAt: it.DueAt, RungAt: now.In(it.DueAt.Location()).Truncate(time.Millisecond)}
		due := 1
		if it.Rule != nil {
			ring.Repeat = it.Rule.Repeat
			if ring.Repeat != walltime.Once {
				due = s.advance(&it, &ring, now)
				keep = append(keep, it)
			}
		}
		behind := now.Sub(ring.DueAt)
		ring.LateByMS = behind.Milliseconds()
		if due > 1 || behind > lateAfter || ring.DueAt.Before(s.opened) {
			ring.Late, ring.Missed = true, due
		}
		s.st.Rings, rung = append(s.st.Rings, ring), true
		s.opt.Logger.Info("rang", "id", ring.ID, "due_at", ring.DueAt, "late_by_ms", ring.LateByMS, "missed", ring.Missed)
	}
	s.st.Items = keep
	return rung
}

// advance moves a repeated alarm past now, sets ring to the latest due time that
// it passes, and returns how many those are.
func (s *Service) advance(it *Item, ring *Ring, now time.Time) (due int) {
	after := func(t time.Time) time.Time {
		next, err := it.Rule.next(t)
		if err != nil { // its zone was known once and is no more
			s.opt.Logger.Error("an alarm repeats by 24 hours: its rule fails", "id", it.ID, "error", err)
			return t.Add(24 * time.Hour)
		}
		return next
	}
	first, next := it.DueAt, after(it.DueAt)
	for due = 1; !next.After(now) && due < maxMissed; due++ {
		ring.DueAt, next = next, after(next)
	}
	if !next.After(now) {
		next = after(now)
	}
	if due > 1 {
		ring.FirstDueAt = &first
	}
	last := ring.DueAt
	it.LastRungAt, it.DueAt, ring.NextDueAt = &last, next, &next
	return due
}

// handOver offers the rings, in order, until one is refused.
func (s *Service) handOver(ctx context.Context) (any bool) {
	for len(s.st.Rings) > 0 {
		ctx, cancel := context.WithTimeout(ctx, handoverTime)
		err := s.opt.Ring(ctx, s.st.Rings[0])
		cancel()
		if s.complain("a ring waits: it could not be handed over", err) {
			return any
		}
		s.st.Rings, any = s.st.Rings[1:], true
	}
	return any
}

// persist writes the state that the clock itself changed. Where that fails, settle
// tries again.
func (s *Service) persist() {
	s.unsaved = s.complain("what rang is not yet written down", s.st.save(s.opt.Dir))
}

// complain reports whether err is one, and logs it when it is news: what is tried
// every second would fill the log.
func (s *Service) complain(what string, err error) bool {
	if err == nil {
		delete(s.trouble, what)
		return false
	}
	if why := reason(err); s.trouble[what] != why {
		s.trouble[what] = why
		s.opt.Logger.Error(what, "error", err)
	}
	return true
}
