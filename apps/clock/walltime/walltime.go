// Package walltime reads what people write for durations, zones and alarms, and finds
// the instants at which a zone shows a reading of the wall clock.
//
//	d, err := walltime.Duration("1小时30分钟")
//	alarm, err := walltime.Read(walltime.Request{Text: "every mon,wed 07:30", Zone: "Europe/Berlin"}, now)
//	at := walltime.First(walltime.On(day, clock), zone)
//
// The package keeps no alarm and rings none.
package walltime

import "time"

// Repeat says how often an alarm rings.
type Repeat string

// The ways to repeat.
const (
	Once   Repeat = "once"
	Daily  Repeat = "daily"
	Weekly Repeat = "weekly"
)

// Forms of package time in which readings are written.
const (
	DateForm  = "2006-01-02"
	ClockForm = "15:04:05"
)

// Civil is the date that t shows, as midnight UTC.
func Civil(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// On is the reading of clock on day, written in UTC as readings are here.
func On(day, clock time.Time) time.Time {
	h, m, s := clock.Clock()
	return day.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second)
}

// First turns a wall clock reading, written in UTC, into the first instant at
// which loc shows it, or the end of the gap if loc skips it. It walks the zone's
// periods itself because time.Date promises neither.
func First(reading time.Time, loc *time.Location) time.Time {
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
