package main

import (
	"fmt"
	"slices"
	"time"
)

// Repeat says how often an alarm rings.
type Repeat string

const (
	Once   Repeat = "once"
	Daily  Repeat = "daily"
	Weekly Repeat = "weekly"
)

const (
	dateForm  = "2006-01-02"
	clockForm = "15:04:05"
)

// Rule is when an alarm rings, as its owner said it: a reading of the wall clock
// in a time zone. The instants follow from it afresh whenever they are needed,
// so a changed clock or a new edition of the time zone data moves the alarm and
// never its meaning.
type Rule struct {
	Repeat Repeat   `json:"repeat"`
	Days   []string `json:"days,omitempty"`  // of a weekly alarm: sun, mon, …
	Start  string   `json:"start,omitempty"` // YYYY-MM-DD, the first local date on which it may ring, if that was said
	Clock  string   `json:"clock"`           // HH:MM:SS
	Zone   string   `json:"timezone"`        // as loadZone takes it
	Exact  bool     `json:"exact,omitempty"` // the one instant was given with its offset: the rule is only a record
}

// next is the first instant strictly after now at which r rings, or the zero
// time if a rule for one ring has no more to come.
//
// A reading that the zone skips rings at the first valid instant after the gap;
// one that occurs twice rings the first time. An alarm for 02:30 in Berlin rings
// at 03:00 on the last Sunday of March and once on the last Sunday of October.
func (r *Rule) next(now time.Time) (time.Time, error) {
	loc, err := loadZone(r.Zone)
	if err != nil {
		return time.Time{}, err
	}
	clock, err := time.Parse(clockForm, r.Clock)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the clock of a rule: %w", err)
	}
	var start time.Time
	if r.Start != "" || r.Repeat == Once {
		if start, err = time.Parse(dateForm, r.Start); err != nil {
			return time.Time{}, fmt.Errorf("reading the start of a rule: %w", err)
		}
	}
	if r.Repeat == Weekly && len(r.Days) == 0 {
		return time.Time{}, fmt.Errorf("a weekly rule names no day")
	}
	// A day back, because a clock set back over midnight has yesterday twice.
	day := civil(now.In(loc)).AddDate(0, 0, -1)
	if r.Repeat == Once || day.Before(start) {
		day = start
	}
	for ; ; day = day.AddDate(0, 0, 1) {
		if r.Repeat == Weekly && !slices.Contains(r.Days, dayName(day.Weekday())) {
			continue
		}
		if at := first(on(day, clock), loc); at.After(now) {
			return at, nil
		}
		if r.Repeat == Once {
			return time.Time{}, nil
		}
	}
}

// civil is the date that t shows, as midnight UTC.
func civil(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// on is the reading of clock on day, written in UTC as readings are here.
func on(day, clock time.Time) time.Time {
	h, m, s := clock.Clock()
	return day.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second)
}

// first turns a wall clock reading, written in UTC, into the first instant at
// which loc shows it, or the end of the gap if loc skips it. It walks the zone's
// periods itself because time.Date promises neither.
func first(reading time.Time, loc *time.Location) time.Time {
	// No offset reaches 26 hours, so the walk begins before any candidate.
	period := reading.Add(-26 * time.Hour).In(loc)
	for {
		start, end := period.ZoneBounds()
		_, offset := period.Zone()
		at := reading.Add(-time.Duration(offset) * time.Second).In(loc)
		if end.IsZero() || at.Before(end) {
			// Before this period and not in the one before: in no period.
			if at.Before(start) {
				return start
			}
			return at
		}
		period = end
	}
}
