package walltime

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestADurationIsReadInEveryForm(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"25m": 25 * time.Minute, "1h30m": 90 * time.Minute, "90s": 90 * time.Second, "90": 90 * time.Second,
		"1.5": 1500 * time.Millisecond, "1.5h": 90 * time.Minute, " 2 H ": 2 * time.Hour, "1h 30m": 90 * time.Minute,
		"2 hours and 5 minutes": 125 * time.Minute, "1 day, 2 hrs": 26 * time.Hour, "1w": 7 * 24 * time.Hour,
		"25分钟": 25 * time.Minute, "1小时30分": 90 * time.Minute, "2个小时": 2 * time.Hour, "３０秒": 30 * time.Second, "1天": 24 * time.Hour,
		"365d": 365 * 24 * time.Hour, "1s": time.Second,
	} {
		if got, err := Duration(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "0", "0s", "0.5s", "-5m", "366d", "5x", "m", "5m5", "1h-1m", "NaN", "Inf", "1e9", "999999999w", "9999999999", "十分钟", "5 m m",
		strings.Repeat("1s", 200),
	} {
		if got, err := Duration(text); code(err) != "CLOCK_INVALID_DURATION" {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestAZoneIsAnIANANameOrAnOffset(t *testing.T) {
	at := instant(t, "2026-01-01T00:00:00Z")
	for name, want := range map[string]string{
		"Asia/Shanghai": "08:00", "UTC": "00:00", "+08:00": "08:00", "UTC+8": "08:00", "gmt-3": "21:00", "+0530": "05:30", "-09:30": "14:30",
	} {
		loc, err := LoadZone(name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got := at.In(loc).Format("15:04"); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
		if again, err := LoadZone(loc.String()); err != nil || at.In(again).Format(time.RFC3339) != at.In(loc).Format(time.RFC3339) {
			t.Errorf("%q: its name %q does not lead back to it: %v", name, loc, err)
		}
	}
	for _, name := range []string{"", "Local", "Beijing", "../../etc/passwd", "/etc/localtime", "+25:00", "UTC+", "\x00", strings.Repeat("x", 1000)} {
		if _, err := LoadZone(name); code(err) != "CLOCK_UNKNOWN_TIMEZONE" {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1h30m")
	f.Add("1小时30分钟")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Duration(text)
		if err == nil && (d < minDuration || d > maxDuration) || err != nil && code(err) == "" {
			t.Fatalf("%q: %v, %v", text, d, err)
		}
	})
}

func TestAReadingBecomesItsFirstInstantOrTheEndOfTheGap(t *testing.T) {
	for _, tt := range []struct{ zone, reading, want, why string }{
		{"America/New_York", "2026-07-01 02:30", "2026-07-01T02:30:00-04:00", "plain"},
		{"America/New_York", "2026-03-08 01:59", "2026-03-08T01:59:00-05:00", "before the gap"},
		{"America/New_York", "2026-03-08 02:00", "2026-03-08T03:00:00-04:00", "start of the gap"},
		{"America/New_York", "2026-03-08 02:30", "2026-03-08T03:00:00-04:00", "in the gap"},
		{"America/New_York", "2026-03-08 03:00", "2026-03-08T03:00:00-04:00", "end of the gap"},
		{"America/New_York", "2026-11-01 01:00", "2026-11-01T01:00:00-04:00", "twice: the first"},
		{"America/New_York", "2026-11-01 01:30", "2026-11-01T01:30:00-04:00", "twice: the first"},
		{"America/New_York", "2026-11-01 02:00", "2026-11-01T02:00:00-05:00", "once again"},
		{"Europe/Berlin", "2026-03-29 02:30", "2026-03-29T03:00:00+02:00", "in the gap"},
		{"Europe/Berlin", "2026-10-25 02:30", "2026-10-25T02:30:00+02:00", "twice: the first"},
		{"Europe/Berlin", "2026-10-25 03:00", "2026-10-25T03:00:00+01:00", "after it"},
		{"Asia/Shanghai", "2026-03-29 02:30", "2026-03-29T02:30:00+08:00", "no daylight saving"},
		{"Asia/Shanghai", "1986-05-04 02:30", "1986-05-04T03:00:00+09:00", "there was once"},
		{"Australia/Lord_Howe", "2026-10-04 02:00", "2026-10-04T02:30:00+11:00", "a gap of half an hour"},
		{"Australia/Lord_Howe", "2026-10-04 02:29", "2026-10-04T02:30:00+11:00", "a gap of half an hour"},
		{"Australia/Lord_Howe", "2026-10-04 02:30", "2026-10-04T02:30:00+11:00", "after it"},
		{"Australia/Lord_Howe", "2026-04-05 01:30", "2026-04-05T01:30:00+11:00", "half an hour twice"},
		{"Australia/Lord_Howe", "2026-04-05 01:59", "2026-04-05T01:59:00+11:00", "half an hour twice"},
		{"Australia/Lord_Howe", "2026-04-05 02:00", "2026-04-05T02:00:00+10:30", "after it"},
		{"Africa/Casablanca", "2026-02-15 02:30", "2026-02-15T02:30:00+01:00", "Ramadan sets it back: the first"},
		{"Africa/Casablanca", "2026-03-22 02:30", "2026-03-22T03:00:00+01:00", "and forward again: the gap"},
		{"Pacific/Apia", "2011-12-30 07:30", "2011-12-31T00:00:00+14:00", "a day that never was"},
		{"Africa/Cairo", "2026-04-24 00:30", "2026-04-24T01:00:00+03:00", "a gap at midnight"},
		{"UTC+5:30", "2026-04-24 00:30", "2026-04-24T00:30:00+05:30", "a fixed offset"},
	} {
		reading, err := time.Parse("2006-01-02 15:04", tt.reading)
		if err != nil {
			t.Fatal(err)
		}
		if got := First(reading, zone(t, tt.zone)); !got.Equal(instant(t, tt.want)) {
			t.Errorf("%s %s (%s): got %s, want %s", tt.zone, tt.reading, tt.why, got.Format(time.RFC3339), tt.want)
		}
	}
}

func code(err error) string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// instant reads RFC 3339.
func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
