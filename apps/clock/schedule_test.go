package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/apps/clock/walltime"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := walltime.LoadZone(name)
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

func TestAnAlarmRepeatsThroughTheDaysOfDaylightSaving(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule Rule
		now  string
		want []string
	}{
		{"daily into the gap", Rule{Repeat: walltime.Daily, Start: "2026-03-01", Clock: "02:30:00", Zone: "Europe/Berlin"}, "2026-03-28T02:30:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"daily over the doubled hour", Rule{Repeat: walltime.Daily, Start: "2026-10-01", Clock: "02:30:00", Zone: "Europe/Berlin"}, "2026-10-24T12:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"between the two of a doubled hour", Rule{Repeat: walltime.Daily, Start: "2026-10-01", Clock: "02:30:00", Zone: "Europe/Berlin"}, "2026-10-25T02:10:00+01:00",
			[]string{"2026-10-26T02:30:00+01:00"}},
		{"weekly", Rule{Repeat: walltime.Weekly, Days: []string{"sun", "wed"}, Start: "2026-11-01", Clock: "01:30:00", Zone: "America/New_York"}, "2026-10-30T00:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-04T01:30:00-05:00", "2026-11-08T01:30:00-05:00"}},
		{"not before its start", Rule{Repeat: walltime.Daily, Start: "2027-01-05", Clock: "07:00:00", Zone: "Asia/Shanghai"}, "2026-10-30T00:00:00Z",
			[]string{"2027-01-05T07:00:00+08:00", "2027-01-06T07:00:00+08:00"}},
		{"a skipped day rings once with the next", Rule{Repeat: walltime.Daily, Start: "2011-12-01", Clock: "00:00:00", Zone: "Pacific/Apia"}, "2011-12-29T12:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"}},
	} {
		now := instant(t, tt.now)
		for i, want := range tt.want {
			got, err := tt.rule.next(now)
			if err != nil || !got.Equal(instant(t, want)) {
				t.Errorf("%s, ring %d: got %v, %v, want %s", tt.name, i, got, err, want)
			}
			now = got
		}
	}
	once := Rule{Repeat: walltime.Once, Start: "2026-03-01", Clock: "07:00:00", Zone: "UTC"}
	if got, err := once.next(instant(t, "2026-03-01T07:00:00Z")); err != nil || !got.IsZero() {
		t.Errorf("once rang twice: %v, %v", got, err)
	}
}

// shown is what t's clock shows, written in UTC.
func shown(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

var testZones = []string{
	"America/New_York", "Europe/Berlin", "Asia/Shanghai", "Australia/Lord_Howe", "Africa/Casablanca",
	"UTC", "+05:45", "Pacific/Apia", "Africa/Cairo", "America/St_Johns", "Antarctica/Troll", "Europe/Dublin",
}

// checkNext holds one ring of a rule against what every ring promises, with
// nothing but the zone's own view of the instants around it.
func checkNext(t *testing.T, r Rule, now time.Time) {
	t.Helper()
	got, err := r.next(now)
	if err != nil {
		t.Fatal(err)
	}
	if r.Repeat == walltime.Once && got.IsZero() {
		return
	}
	if !got.After(now) {
		t.Fatalf("%+v: the ring after %s is %s", r, now, got)
	}
	loc := zone(t, r.Zone)
	local := got.In(loc)
	if local.Format(walltime.ClockForm) != r.Clock {
		// Then the clock leaps here, from was to is, over the asked reading.
		is := shown(local)
		was := shown(got.Add(-time.Nanosecond).In(loc)).Add(time.Nanosecond)
		clock, _ := time.Parse(walltime.ClockForm, r.Clock)
		leapt := func(asked time.Time) bool { return !asked.Before(was) && asked.Before(is) }
		if !leapt(walltime.On(walltime.Civil(was), clock)) && !leapt(walltime.On(walltime.Civil(is), clock)) {
			t.Fatalf("%+v: the ring after %s shows %s, and the clock leaps there from %s", r, now, local, was)
		}
	} else if r.Repeat == walltime.Weekly && !slices.Contains(r.Days, walltime.DayName(local.Weekday())) {
		t.Fatalf("%+v: rings on %s", r, local.Weekday())
	} else if earlier := got.Add(-time.Hour); earlier.After(now) && earlier.In(loc).Format(walltime.DateForm+walltime.ClockForm) == local.Format(walltime.DateForm+walltime.ClockForm) {
		t.Fatalf("%+v: rings at the second %s", r, local)
	}
	if r.Repeat == walltime.Daily && r.Start < now.In(loc).Format(walltime.DateForm) && got.Sub(now) > 49*time.Hour {
		t.Fatalf("%+v: no ring from %s until %s", r, now, got)
	}
}

func TestEveryRingIsAfterNowAndShowsTheAskedTimeUnlessInAGap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	begin := instant(t, "2005-01-01T00:00:00Z")
	for range 8_000 {
		// Half of the readings are where the clocks change.
		clock := time.Duration(rng.IntN(24*60)) * time.Minute
		if rng.IntN(2) == 0 {
			clock = time.Duration(rng.IntN(4*60)) * time.Minute
		}
		now := begin.Add(time.Duration(rng.Int64N(int64(30 * 365 * 24 * time.Hour))))
		name := testZones[rng.IntN(len(testZones))]
		if end := func() time.Time { _, end := now.In(zone(t, name)).ZoneBounds(); return end }(); !end.IsZero() && rng.IntN(2) == 0 {
			now = end.Add(time.Duration(rng.Int64N(int64(30*time.Hour))) - 26*time.Hour)
		}
		r := Rule{Repeat: walltime.Daily, Start: "2000-01-01", Clock: time.Time{}.Add(clock).Format(walltime.ClockForm), Zone: name}
		if rng.IntN(3) == 0 {
			r.Repeat, r.Days = walltime.Weekly, walltime.DayNames([]time.Weekday{time.Weekday(rng.IntN(7)), time.Weekday(rng.IntN(7))})
		}
		checkNext(t, r, now)
	}
}

func FuzzNextRing(f *testing.F) {
	f.Add(int64(1_774_746_000), uint16(150), uint8(1), false)
	f.Add(int64(1_792_890_000), uint16(90), uint8(3), true)
	f.Fuzz(func(t *testing.T, unix int64, minute uint16, place uint8, weekly bool) {
		if unix < 0 || unix > 16_725_225_600 { // the year 2500
			t.Skip()
		}
		clock := time.Duration(minute%1440) * time.Minute
		r := Rule{Repeat: walltime.Daily, Start: "1970-01-01", Clock: time.Time{}.Add(clock).Format(walltime.ClockForm), Zone: testZones[int(place)%len(testZones)]}
		if weekly {
			r.Repeat, r.Days = walltime.Weekly, []string{walltime.DayName(time.Weekday(minute % 7))}
		}
		checkNext(t, r, time.Unix(unix, 0))
	})
}

func BenchmarkNextRing(b *testing.B) {
	r := Rule{Repeat: walltime.Daily, Start: "2026-01-01", Clock: "02:30:00", Zone: "Europe/Berlin"}
	now := instant(b, "2026-03-28T12:00:00Z")
	for b.Loop() {
		if _, err := r.next(now); err != nil {
			b.Fatal(err)
		}
	}
}
