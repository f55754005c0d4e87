package stream

import "testing"

func TestSubjectsAreCoveredAsNATSDoesIt(t *testing.T) {
	for _, tc := range []struct {
		subject string
		by      string
		want    bool
	}{
		{"aurora.>", "aurora.>", true}, {"aurora.a.>", "aurora.>", true}, {"aurora.a.>", "*.a.>", true}, {"aurora.a.>", ">", true},
		{"aurora.>", "aurora.*", false}, {"aurora.>", "aurora.a.>", false}, {"aurora.a.>", "aurora.b.>", false},
		{"aurora.>", "aurora", false}, {"aurora.a.>", "aurora.*.>", true},
	} {
		if got := covered(tc.subject, []string{"x", tc.by}); got != tc.want {
			t.Errorf("%s covered by %s: %v", tc.subject, tc.by, got)
		}
	}
}
