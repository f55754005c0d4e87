package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/apps/clock/walltime"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Rule is when an alarm rings, as its owner said it: a reading of the wall clock
// in a time zone. The instants follow from it afresh whenever they are needed,
// so a changed clock or a new edition of the time zone data moves the alarm and
// never its meaning.
type Rule struct {
	Repeat walltime.Repeat `json:"repeat"`
	Days   []string        `json:"days,omitempty"`  // of a weekly alarm: sun, mon, …
	Start  string          `json:"start,omitempty"` // YYYY-MM-DD, the first local date on which it may ring, if that was said
	Clock  string          `json:"clock"`           // HH:MM:SS
	Zone   string          `json:"timezone"`        // as walltime.LoadZone takes it
	Exact  bool            `json:"exact,omitempty"` // the one instant was given with its offset: the rule is only a record
}

// next is the first instant strictly after now at which r rings, or the zero
// time if a rule for one ring has no more to come.
//
// A reading that the zone skips rings at the first valid instant after the gap;
// one that occurs twice rings the first time. An alarm for 02:30 in Berlin rings
// at 03:00 on the last Sunday of March and once on the last Sunday of October.
func (r *Rule) next(now time.Time) (time.Time, error) {
	loc, err := walltime.LoadZone(r.Zone)
	if err != nil {
		return time.Time{}, err
	}
	clock, err := time.Parse(walltime.ClockForm, r.Clock)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the clock of a rule: %w", err)
	}
	var start time.Time
	if r.Start != "" || r.Repeat == walltime.Once {
		if start, err = time.Parse(walltime.DateForm, r.Start); err != nil {
			return time.Time{}, fmt.Errorf("reading the start of a rule: %w", err)
		}
	}
	if r.Repeat == walltime.Weekly && len(r.Days) == 0 {
		return time.Time{}, fmt.Errorf("a weekly rule names no day")
	}
	// A day back, because a clock set back over midnight has yesterday twice.
	day := walltime.Civil(now.In(loc)).AddDate(0, 0, -1)
	if r.Repeat == walltime.Once || day.Before(start) {
		day = start
	}
	for ; ; day = day.AddDate(0, 0, 1) {
		if r.Repeat == walltime.Weekly && !slices.Contains(r.Days, walltime.DayName(day.Weekday())) {
			continue
		}
		if at := walltime.First(walltime.On(day, clock), loc); at.After(now) {
			return at, nil
		}
		if r.Repeat == walltime.Once {
			return time.Time{}, nil
		}
	}
}

// maxAhead bounds an alarm's first ring.
const maxAhead = 10 * 366 * 24 * time.Hour

// parseAlarm reads an alarm's time and finds its first ring after now.
func parseAlarm(r walltime.Request, now time.Time) (*Rule, time.Time, error) {
	alarm, err := walltime.Read(r, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	at := alarm.At
	rule := &Rule{Repeat: alarm.Repeat, Days: alarm.Days, Start: alarm.Start, Clock: alarm.Clock, Zone: alarm.Zone}
	bad := func(why string) (*Rule, time.Time, error) {
		return nil, time.Time{}, fault.New("CLOCK_INVALID_TIME", "the time %s %s", walltime.Quote(r.Text), why)
	}
	if rule.Exact = rule.Repeat == walltime.Once && !at.IsZero(); !rule.Exact {
		if at, err = rule.next(now); err != nil {
			return bad("cannot be found: " + err.Error())
		}
	}
	loc, err := walltime.LoadZone(rule.Zone)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case !at.After(now):
		return bad("is past, it is " + now.In(loc).Format(time.RFC3339) + " now; give a later one, or a date")
	case at.Sub(now) > maxAhead:
		return bad("is more than ten years ahead")
	}
	return rule, at.In(loc), nil
}
