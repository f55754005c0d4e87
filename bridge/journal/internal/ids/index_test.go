package ids

import (
	"fmt"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

func TestIDsAreForgottenBeyondTheirNumberAndAge(t *testing.T) {
	x := NewIndex(100, time.Hour)
	start := time.Now()
	for i := 1; i <= 1000; i++ {
		x.Add(segment.KeyOf(fmt.Sprint(i)), uint64(i), 0, start)
		if len(x.entries) > 110 {
			t.Fatalf("%d entries", len(x.entries))
		}
	}
	for i, want := range map[int]bool{1: false, 900: false, 901: true, 1000: true} {
		if _, _, seen := x.Lookup(segment.KeyOf(fmt.Sprint(i))); seen != want {
			t.Errorf("id %d seen: %v", i, seen)
		}
	}
	x = NewIndex(1e6, time.Hour)
	for i := 1; i <= 5*markStep; i++ {
		x.Add(segment.KeyOf(fmt.Sprint(i)), uint64(i), 0, start.Add(time.Duration(i)*time.Second))
	}
	// The window of an hour reaches back 3600 records; marks make it at most one step longer.
	for i, want := range map[int]bool{1: false, 5*markStep - 3601 - markStep: false, 5*markStep - 3599: true} {
		if _, _, seen := x.Lookup(segment.KeyOf(fmt.Sprint(i))); seen != want {
			t.Errorf("id %d seen: %v (horizon %d)", i, seen, x.horizon)
		}
	}
}

func TestAClockThatIsWrongForAWhileForgetsNoID(t *testing.T) {
	const day = 24 * time.Hour
	x := NewIndex(1e6, 7*day)
	start, n := time.Now(), 0
	write := func(records int, at time.Time) {
		for range records {
			n++
			x.Add(segment.KeyOf(fmt.Sprint(n)), uint64(n), 0, at)
		}
	}
	write(3*markStep, start)
	write(3*markStep, start.Add(8*day))             // a start with a wrong clock
	write(3*markStep, start.Add(time.Minute))       // and one with the right clock
	write(3*markStep, start.Add(-400*day))          // the battery is empty
	write(3*markStep, start.Add(2*time.Minute))     // the time has been fetched
	write(3*markStep, start.Add(2*time.Minute+day)) // a quiet day
	for _, i := range []int{1, 3 * markStep, 6 * markStep, n} {
		if _, _, seen := x.Lookup(segment.KeyOf(fmt.Sprint(i))); !seen {
			t.Errorf("id %d is forgotten (horizon %d)", i, x.horizon)
		}
	}
	for h := range 8 * 24 { // more than the age, in hours of writing
		write(markStep, start.Add(2*day+time.Duration(h)*time.Hour))
	}
	if _, _, seen := x.Lookup(segment.KeyOf("1")); seen {
		t.Error("an id is remembered beyond the age")
	}
}

func TestTheSourcesRememberedAreBounded(t *testing.T) {
	s := Sources{}
	for i := range 3 * maxSources {
		s.Note(fmt.Sprint(i), 1, uint64(i+1))
	}
	if len(s) > maxSources {
		t.Errorf("%d sources", len(s))
	}
	if s[fmt.Sprint(3*maxSources-1)].Seq != 1 {
		t.Error("the latest source is forgotten")
	}
}
