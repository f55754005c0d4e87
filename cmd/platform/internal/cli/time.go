package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// errTime is a point in time that Time cannot read.
var errTime = errors.New("neither an age such as 10m, 2h or 7d, nor a time such as 15:00, yesterday, 2026-06-17 or 2026-06-17T14:30:00+08:00")

// Time reads a point in time: an age, a time of the day that was last, today or
// yesterday, alone or with a time of the day, or a date, alone or with one. Without a
// time zone the local one is meant. Nothing is the zero time.
func Time(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days, "%d", &n); err == nil && n >= 0 && fmt.Sprint(n) == days {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	day, clock, _ := strings.Cut(strings.ToLower(strings.TrimSpace(s)), " ")
	back := 0
	switch day {
	case "now":
		return now, nil
	case "today":
	case "yesterday":
		back = 1
	default:
		day, clock = "", s
	}
	at, err := clockOf(clock)
	if err != nil && (day == "" || clock != "") {
		return time.Time{}, fmt.Errorf("%q is %w", s, errTime)
	}
	t := time.Date(now.Year(), now.Month(), now.Day()-back, at.Hour(), at.Minute(), at.Second(), 0, now.Location())
	if day == "" && t.After(now) { // the one of yesterday was last
		t = t.AddDate(0, 0, -1)
	}
	return t, nil
}

// clockOf reads a time of the day.
func clockOf(s string) (t time.Time, err error) {
	for _, layout := range []string{"15:04", "15:04:05", "3:04pm", "3pm"} {
		if t, err = time.Parse(layout, strings.ToLower(strings.TrimSpace(s))); err == nil {
			return t, nil
		}
	}
	return time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), err
}
