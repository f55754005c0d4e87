package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	kindTimer = "timer"
	kindAlarm = "alarm"

	maxActive    = 1000            // timers and alarms together, with rings not yet handed over
	maxLabel     = 200             // characters of a label or a session id
	maxMissed    = 10_000          // rings counted as missed; daily that is 27 years
	lateAfter    = time.Second     // a ring this long after its due time is late
	clockJump    = 2 * time.Second // a difference of wall and monotonic time that is no drift
	checkEvery   = 30 * time.Second
	retryAfter   = time.Second
	handoverTime = 5 * time.Second // for one ring
)

// Item is one active timer or alarm.
type Item struct {
	ID               string     `json:"id"`   // such as timer-12
	Kind             string     `json:"kind"` // timer or alarm
	Label            string     `json:"label,omitempty"`
	SessionID        string     `json:"session_id,omitempty"`
	DueAt            time.Time  `json:"due_at"` // the next ring
	CreatedAt        time.Time  `json:"created_at"`
	DurationMS       int64      `json:"duration_ms,omitempty"`       // of a timer
	Rule             *Rule      `json:"rule,omitempty"`              // of an alarm
	LastRungAt       *time.Time `json:"last_rung_at,omitempty"`      // the due time of a repeated alarm's last ring
	RemainingSeconds int64      `json:"remaining_seconds,omitempty"` // when it was asked for; never stored
}

// Ring is one item that came due, as its event tells it.
type Ring struct {
	ID         string     `json:"id"`
	Kind       string     `json:"kind"` // timer or alarm
	Label      string     `json:"label,omitempty"`
	SessionID  string     `json:"session_id,omitempty"`
	DueAt      time.Time  `json:"due_at"` // of several missed, the latest
	RungAt     time.Time  `json:"rung_at"`
	Late       bool       `json:"late"` // due while the clock was down, or more than a second ago
	LateByMS   int64      `json:"late_by_ms"`
	Missed     int        `json:"missed"`                 // due times that passed without a ring, this one included; 0 if on time
	FirstDueAt *time.Time `json:"first_due_at,omitempty"` // of several missed, the earliest
	Repeat     Repeat     `json:"repeat,omitempty"`
	NextDueAt  *time.Time `json:"next_due_at,omitempty"` // of a repeated alarm
}

// Key is the same for the same ring, through any crash.
func (r *Ring) Key() string {
	return r.ID + "@" + r.DueAt.UTC().Format(time.RFC3339Nano)
}

// Options are what a Service needs of its surroundings.
type Options struct {
	Dir    string // for the state; exists
	Logger *slog.Logger
	Zone   string // where none is asked for

	// Ring hands a ring over. Once it returns nil the ring is its to keep; after
	// an error it is offered again. The same ring may come twice, with the same
	// key, if the process died in between.
	Ring func(context.Context, Ring) error

	// Changed is called after every change of the active items. It must not block.
	Changed func()

	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
}

// Service keeps timers and alarms. One goroutine, the one in Run, owns the state;
// the methods hand their work to it.
type Service struct {
	opt    Options
	zone   *time.Location
	lock   *os.File
	st     *state
	opened time.Time
	ops    chan func()
	done   chan struct{}

	// Of Run alone.
	unsaved  bool   // the state on disk is behind
	trouble  string // what was last complained of, so that it is said once
	lastWall time.Time
	lastMono time.Time
}

// Open takes opt.Dir for this process and reads the state in it. Nothing rings and
// no method answers until Run, at whose end the folder is free again.
func Open(opt Options) (*Service, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	zone, err := loadZone(opt.Zone)
	if err != nil {
		return nil, err
	}
	held, err := lock(opt.Dir)
	if err != nil {
		return nil, err
	}
	st, err := load(opt.Dir)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	s := &Service{opt: opt, zone: zone, lock: held, st: st, ops: make(chan func()), done: make(chan struct{})}
	s.opened = s.wall()
	for i := range st.Items {
		it := &st.Items[i]
		// The wall clock may have been set back while nobody looked.
		if whole := time.Duration(it.DurationMS) * time.Millisecond; it.Kind == kindTimer && it.DueAt.Sub(s.opened) > whole {
			it.DueAt, s.unsaved = s.opened.Add(whole).In(zone), true
		}
	}
	s.realign(s.opened)
	return s, nil
}

// wall is the time of day without a monotonic reading.
func (s *Service) wall() time.Time { return s.opt.Now().Round(0) }

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
			if ring.Repeat != Once {
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

// complain reports whether err is one, and logs it unless it was the last to be:
// what is tried every second would fill the log.
func (s *Service) complain(what string, err error) bool {
	if err == nil {
		return false
	}
	if said := what + err.Error(); said != s.trouble {
		s.trouble = said
		s.opt.Logger.Error(what, "error", err)
	}
	return true
}

// do runs op in Run's goroutine.
func (s *Service) do(ctx context.Context, op func() error) error {
	reply := make(chan error, 1)
	select {
	case s.ops <- func() { reply <- op() }:
		return <-reply // Run does what it took, always
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return fault.New("CLOCK_STOPPED", "the clock is shutting down").Retry()
	}
}

// change applies f to a copy of the state, which becomes the state once it is on
// disk.
func (s *Service) change(ctx context.Context, f func(*state) error) error {
	return s.do(ctx, func() error {
		st := &state{Version: s.st.Version, LastID: s.st.LastID, Items: slices.Clone(s.st.Items), Rings: slices.Clone(s.st.Rings)}
		if err := f(st); err != nil {
			return err
		}
		if err := st.save(s.opt.Dir); err != nil {
			s.opt.Logger.Error("a change was refused", "error", err)
			return fault.New("CLOCK_STORAGE", "nothing was changed, because it could not be stored: %v", errors.Unwrap(err)).Retry()
		}
		s.st, s.unsaved = st, false
		s.opt.Changed()
		return nil
	})
}

// add gives it a number and makes it active.
func (s *Service) add(ctx context.Context, it Item) (Item, error) {
	for _, text := range []*string{&it.Label, &it.SessionID} {
		*text = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, *text))
		if n := utf8.RuneCountInString(*text); n > maxLabel {
			return Item{}, fault.New("CLOCK_INVALID_ARGUMENT", "a label or session id has %d characters; %d are the most", n, maxLabel)
		}
	}
	err := s.change(ctx, func(st *state) error {
		if len(st.Items)+len(st.Rings) >= maxActive {
			return fault.New("CLOCK_LIMIT", "%d timers and alarms are active, which is the most; cancel some first", maxActive)
		}
		st.LastID++
		it.ID = fmt.Sprintf("%s-%d", it.Kind, st.LastID)
		st.Items = append(st.Items, it)
		return nil
	})
	return it, err
}

// AddTimer sets a timer for a length as parseDuration reads it. Once it returns
// nil the timer survives a power cut.
func (s *Service) AddTimer(ctx context.Context, length, label, sessionID string) (Item, error) {
	d, err := parseDuration(length)
	if err != nil {
		return Item{}, err
	}
	now := s.wall().In(s.zone).Truncate(time.Millisecond)
	due := now.Add(d + time.Millisecond) // never early
	return s.add(ctx, Item{Kind: kindTimer, Label: label, SessionID: sessionID, CreatedAt: now, DueAt: due, DurationMS: d.Milliseconds()})
}

// AddAlarm sets an alarm as parseAlarm reads it. Once it returns nil the alarm
// survives a power cut.
func (s *Service) AddAlarm(ctx context.Context, r request, label, sessionID string) (Item, error) {
	if r.zone == "" {
		r.zone = s.opt.Zone
	}
	now := s.wall().Truncate(time.Millisecond)
	rule, due, err := parseAlarm(r, now)
	if err != nil {
		return Item{}, err
	}
	return s.add(ctx, Item{Kind: kindAlarm, Label: label, SessionID: sessionID, CreatedAt: now.In(due.Location()), DueAt: due, Rule: rule})
}

// Cancel ends a timer or an alarm and returns what it was.
func (s *Service) Cancel(ctx context.Context, id string) (was Item, err error) {
	err = s.change(ctx, func(st *state) error {
		i := slices.IndexFunc(st.Items, func(it Item) bool { return it.ID == id })
		if i < 0 {
			return fault.New("CLOCK_NOT_FOUND", "no timer or alarm %s is active: it may have rung; list_timers shows those that are", quote(id))
		}
		was = st.Items[i]
		st.Items = slices.Delete(st.Items, i, i+1)
		return nil
	})
	return was, err
}

// List returns the active items of a kind, or of both for "", the next to ring
// first.
func (s *Service) List(ctx context.Context, kind string) ([]Item, error) {
	items := []Item{}
	err := s.do(ctx, func() error {
		now := s.wall()
		for _, it := range s.st.Items {
			if kind == "" || it.Kind == kind {
				it.RemainingSeconds = int64(max(it.DueAt.Sub(now), 0) / time.Second)
				items = append(items, it)
			}
		}
		return nil
	})
	slices.SortStableFunc(items, byDue)
	return items, err
}

func byDue(a, b Item) int { return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID)) }

// Time is the time of day in one zone.
type Time struct {
	Local    string `json:"local"` // RFC 3339 with offset
	UTC      string `json:"utc"`
	Weekday  string `json:"weekday"`
	Timezone string `json:"timezone"`
	Offset   string `json:"utc_offset"` // such as +08:00
	DST      bool   `json:"dst"`        // daylight saving is in force
	UnixMS   int64  `json:"unix_ms"`
}

// Time is the time in a zone, or in the service's own for "".
func (s *Service) Time(zone string) (Time, error) {
	loc := s.zone
	if zone != "" {
		var err error
		if loc, err = loadZone(zone); err != nil {
			return Time{}, err
		}
	}
	now := s.wall()
	t := now.In(loc)
	return Time{
		Local: t.Format(time.RFC3339), UTC: t.UTC().Format(time.RFC3339), Weekday: t.Weekday().String(),
		Timezone: loc.String(), Offset: t.Format("-07:00"), DST: t.IsDST(), UnixMS: t.UnixMilli(),
	}, nil
}
