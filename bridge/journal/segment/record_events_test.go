package segment

import (
	"slices"
	"testing"
)

func TestTheEventsOfARecordAreTheLinesOfItsBody(t *testing.T) {
	for _, c := range []struct {
		body   string
		before []string
		event  string
		first  uint64
	}{
		{`{"n":9}`, nil, `{"n":9}`, 9},
		{"{\"n\":8}\n{\"n\":9}", []string{`{"n":8}`}, `{"n":9}`, 8},
		{"{\"n\":7}\n{\"n\":8}\n{\"n\":9}", []string{`{"n":7}`, `{"n":8}`}, `{"n":9}`, 7},
		{"", nil, "", 9},
	} {
		r := Record{Seq: 9, Body: []byte(c.body)}
		var before []string
		for b := range r.Before() {
			before = append(before, string(b))
		}
		if !slices.Equal(before, c.before) || string(r.Event()) != c.event || r.First() != c.first {
			t.Errorf("%q is %q and %q, first %d", c.body, before, r.Event(), r.First())
		}
	}
}
