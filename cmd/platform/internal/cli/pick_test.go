package cli

import (
	"errors"
	"testing"
	"time"
)

func TestTheBeginningOfAnIDOrNothingIsEnoughWhereOneIsMeant(t *testing.T) {
	for _, tt := range []struct {
		given string
		ids   []string
		want  string
		err   string
	}{
		{"", []string{"01AB"}, "01AB", ""},
		{"", nil, "", "no question is open"},
		{"", []string{"01AB", "01CD"}, "", "several questions are open"},
		{"01a", []string{"01AB", "01CD"}, "01AB", ""},
		{"01", []string{"01AB", "01CD"}, "", `several questions have an id that begins with "01"`},
		{"01AB", []string{"01AB", "01ABC"}, "01AB", ""},
		{"zz", []string{"01AB"}, "zz", ""},
		{"01ABCD", []string{"01AB"}, "01ABCD", ""},
	} {
		got, err := Pick("question", tt.given, tt.ids)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.want || text != tt.err {
			t.Errorf("%q among %q is %q, %q", tt.given, tt.ids, got, text)
		}
	}
	var h *hinted
	if _, err := Pick("call", "", []string{"b", "a", "c", "d", "e", "f", "g"}); !errors.As(err, &h) || h.hint != "say which: a, b, c, d, e, … (2 more)" {
		t.Errorf("seven are told as %v", err)
	}
}

func TestTimesAreReadAsPeopleSayThem(t *testing.T) {
	zone := time.FixedZone("", 8*3600)
	now := time.Date(2026, 6, 17, 14, 30, 0, 0, zone)
	for in, want := range map[string]string{
		"10m": "2026-06-17T14:20:00+08:00", "7d": "2026-06-10T14:30:00+08:00", "now": "2026-06-17T14:30:00+08:00",
		"14:00": "2026-06-17T14:00:00+08:00", "15:00": "2026-06-16T15:00:00+08:00", "9:05:07": "2026-06-17T09:05:07+08:00", "3pm": "2026-06-16T15:00:00+08:00", "9:30am": "2026-06-17T09:30:00+08:00",
		"today": "2026-06-17T00:00:00+08:00", "yesterday": "2026-06-16T00:00:00+08:00", "Yesterday 15:00": "2026-06-16T15:00:00+08:00",
		"2026-06-01": "2026-06-01T00:00:00+08:00", "2026-06-01 12:00": "2026-06-01T12:00:00+08:00", "2026-06-01T12:00": "2026-06-01T12:00:00+08:00", "2026-06-01T12:00:00Z": "2026-06-01T12:00:00Z",
	} {
		got, err := Time(in, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q is %v, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"tomorrow", "25:00", "-5m", "yesterday soon", "12", "1.5d"} {
		if got, err := Time(in, now); !errors.Is(err, errTime) {
			t.Errorf("%q is %v, %v", in, got, err)
		}
	}
	if got, err := Time("", now); err != nil || !got.IsZero() {
		t.Errorf("nothing is %v, %v", got, err)
	}
}
