package history

import (
	"testing"
	"time"
)

func TestPointsInTimeAreReadAsPeopleSayThem(t *testing.T) {
	now := time.Date(2026, 6, 17, 14, 30, 0, 0, time.Local)
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 6, day, hour, minute, 0, 0, time.Local) }
	for s, want := range map[string]time.Time{
		"":                          {},
		"10m":                       at(17, 14, 20),
		"7d":                        at(10, 14, 30),
		"09:15":                     at(17, 9, 15),
		"today":                     at(17, 0, 0),
		"yesterday":                 at(16, 0, 0),
		"yesterday 15:00":           at(16, 15, 0),
		"2026-06-01":                at(1, 0, 0),
		"2026-06-01 08:05":          at(1, 8, 5),
		"2026-06-17T14:30:00+08:00": time.Date(2026, 6, 17, 6, 30, 0, 0, time.UTC),
	} {
		if got, err := moment(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"-1h", "tomorrow", "25:00", "yesterday noon", "07d", "2026-13-01"} {
		if got, err := moment(s, now); err == nil {
			t.Errorf("%q is %s", s, got)
		}
	}
}
