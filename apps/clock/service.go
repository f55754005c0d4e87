package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/apps/clock/walltime"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	kindTimer = "timer"
	kindAlarm = "alarm"

	maxActive = 1000 // timers and alarms together, with rings not yet handed over
	maxLabel  = 200  // characters of a label or a session id
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

// Options are what a Service needs of its surroundings.
type Options struct {
	Dir    string // for the state; exists
	Logger *slog.Logger
	Zone   string // where none is asked for

	// Ring hands a ring over. walltime.Once it returns nil the ring is its to keep; after
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
	unsaved  bool              // the state on disk is behind
	trouble  map[string]string // what does not work at the moment, and why
	lastWall time.Time
	lastMono time.Time
}

// Open takes opt.Dir for this process and reads the state in it. Nothing rings and
// no method answers until Run, at whose end the folder is free again.
func Open(opt Options) (*Service, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	zone, err := walltime.LoadZone(opt.Zone)
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
	s := &Service{opt: opt, zone: zone, lock: held, st: st, ops: make(chan func()), done: make(chan struct{}), trouble: map[string]string{}}
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

// reason is why the file system refused, without the path, or err's own words.
func reason(err error) string {
	var (
		path *fs.PathError
		link *os.LinkError
	)
	switch {
	case errors.As(err, &path):
		return path.Err.Error()
	case errors.As(err, &link):
		return link.Err.Error()
	}
	return err.Error()
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
			return fault.New("CLOCK_STORAGE", "nothing was changed, because it could not be stored: %s", reason(err)).Retry()
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

// AddTimer sets a timer for a length as walltime.Duration reads it. walltime.Once it returns
// nil the timer survives a power cut.
func (s *Service) AddTimer(ctx context.Context, length, label, sessionID string) (Item, error) {
	d, err := walltime.Duration(length)
	if err != nil {
		return Item{}, err
	}
	now := s.wall().In(s.zone).Truncate(time.Millisecond)
	due := now.Add(d + time.Millisecond) // never early
	return s.add(ctx, Item{Kind: kindTimer, Label: label, SessionID: sessionID, CreatedAt: now, DueAt: due, DurationMS: d.Milliseconds()})
}

// AddAlarm sets an alarm as parseAlarm reads it. walltime.Once it returns nil the alarm
// survives a power cut.
func (s *Service) AddAlarm(ctx context.Context, r walltime.Request, label, sessionID string) (Item, error) {
	if r.Zone == "" {
		r.Zone = s.opt.Zone
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
			return fault.New("CLOCK_NOT_FOUND", "no timer or alarm %s is active: it may have rung; list_timers shows those that are", walltime.Quote(id))
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
		if loc, err = walltime.LoadZone(zone); err != nil {
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
