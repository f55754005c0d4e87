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
