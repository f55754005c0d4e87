package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/apps/clock/walltime"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func code(err error) string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestAnAlarmIsReadInEveryForm(t *testing.T) {
	now := instant(t, "2026-11-29T21:00:00+08:00") // a Sunday
	for _, tt := range []struct {
		req    walltime.Request
		due    string
		repeat walltime.Repeat
		days   string
	}{
		{walltime.Request{Text: "07:30"}, "2026-11-30T07:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "21:30"}, "2026-11-29T21:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "21:00"}, "2026-11-30T21:00:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "21:00:01"}, "2026-11-29T21:00:01+08:00", walltime.Once, ""},
		{walltime.Request{Text: "９：３０ pm"}, "2026-11-29T21:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "12am"}, "2026-11-30T00:00:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "2026-12-01 07:30"}, "2026-12-01T07:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "2026-12-01T07:30"}, "2026-12-01T07:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "2026/12/1 7:30"}, "2026-12-01T07:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "2026年12月1日 早上7点半"}, "2026-12-01T07:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "2026-12-01T07:30:00Z"}, "2026-12-01T15:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "2026-12-01T07:30:00.5-05:00"}, "2026-12-01T20:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "2026-11-01T01:30:00-05:00", Zone: "America/New_York"}, "", walltime.Once, ""}, // past
		{walltime.Request{Text: "2027-11-07T01:30:00-05:00", Zone: "America/New_York"}, "2027-11-07T01:30:00-05:00", walltime.Once, ""},
		{walltime.Request{Text: "2027-11-07 01:30", Zone: "America/New_York"}, "2027-11-07T01:30:00-04:00", walltime.Once, ""},
		{walltime.Request{Text: "每天 07:30"}, "2026-11-30T07:30:00+08:00", walltime.Daily, ""},
		{walltime.Request{Text: "每天早上7点"}, "2026-11-30T07:00:00+08:00", walltime.Daily, ""},
		{walltime.Request{Text: "every day 22:00"}, "2026-11-29T22:00:00+08:00", walltime.Daily, ""},
		{walltime.Request{Text: "07:30", Repeat: walltime.Daily}, "2026-11-30T07:30:00+08:00", walltime.Daily, ""},
		{walltime.Request{Text: "2026-12-05 07:30", Repeat: walltime.Daily}, "2026-12-05T07:30:00+08:00", walltime.Daily, ""},
		{walltime.Request{Text: "2026-01-01 07:30", Repeat: walltime.Daily}, "2026-11-30T07:30:00+08:00", walltime.Daily, ""},
		{walltime.Request{Text: "明天 07:30"}, "2026-11-30T07:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "明天晚上8点15分"}, "2026-11-30T20:15:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "Tomorrow 07:30"}, "2026-11-30T07:30:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "后天 中午12点"}, "2026-12-01T12:00:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "今天 23:59"}, "2026-11-29T23:59:00+08:00", walltime.Once, ""},
		{walltime.Request{Text: "每周一三五 07:30"}, "2026-11-30T07:30:00+08:00", walltime.Weekly, "mon wed fri"},
		{walltime.Request{Text: "每星期日 07:30"}, "2026-12-06T07:30:00+08:00", walltime.Weekly, "sun"},
		{walltime.Request{Text: "every Tue, Thu and saturday 6:00"}, "2026-12-01T06:00:00+08:00", walltime.Weekly, "tue thu sat"},
		{walltime.Request{Text: "工作日 07:30"}, "2026-11-30T07:30:00+08:00", walltime.Weekly, "mon tue wed thu fri"},
		{walltime.Request{Text: "周末 9:00"}, "2026-12-05T09:00:00+08:00", walltime.Weekly, "sun sat"},
		{walltime.Request{Text: "07:30", Repeat: walltime.Weekly}, "2026-11-30T07:30:00+08:00", walltime.Weekly, "mon"},
		{walltime.Request{Text: "22:30", Repeat: walltime.Weekly}, "2026-11-29T22:30:00+08:00", walltime.Weekly, "sun"},
		{walltime.Request{Text: "07:30", Days: []string{"周二", "Friday", "tue"}}, "2026-12-01T07:30:00+08:00", walltime.Weekly, "tue fri"},
		{walltime.Request{Text: "每周二 07:30", Repeat: walltime.Weekly, Days: []string{"tue"}}, "2026-12-01T07:30:00+08:00", walltime.Weekly, "tue"},

		{walltime.Request{Text: "今天 07:30"}, "", walltime.Once, ""},
		{walltime.Request{Text: "2026-11-29 20:59"}, "", walltime.Once, ""},
		{walltime.Request{Text: "2040-11-29 20:59"}, "", walltime.Once, ""},
		{walltime.Request{Text: "9999-12-31 23:59", Repeat: walltime.Daily}, "", walltime.Once, ""},
		{walltime.Request{Text: "2026-02-30 07:30"}, "", walltime.Once, ""},
		{walltime.Request{Text: "2026-13-01T07:30:00Z"}, "", walltime.Once, ""},
		{walltime.Request{Text: "24:00"}, "", walltime.Once, ""},
		{walltime.Request{Text: "07:60"}, "", walltime.Once, ""},
		{walltime.Request{Text: "7"}, "", walltime.Once, ""},
		{walltime.Request{Text: "13pm"}, "", walltime.Once, ""},
		{walltime.Request{Text: "晚上12点"}, "", walltime.Once, ""},
		{walltime.Request{Text: ""}, "", walltime.Once, ""},
		{walltime.Request{Text: "soon"}, "", walltime.Once, ""},
		{walltime.Request{Text: "每周八 07:30"}, "", walltime.Once, ""},
		{walltime.Request{Text: "every blue monday 07:30"}, "", walltime.Once, ""},
		{walltime.Request{Text: "每天 07:30", Repeat: walltime.Once}, "", walltime.Once, ""},
		{walltime.Request{Text: "每周一 07:30", Days: []string{"tue"}}, "", walltime.Once, ""},
		{walltime.Request{Text: "07:30", Repeat: walltime.Daily, Days: []string{"tue"}}, "", walltime.Once, ""},
		{walltime.Request{Text: "07:30", Repeat: "hourly"}, "", walltime.Once, ""},
		{walltime.Request{Text: "07:30", Days: []string{"someday"}}, "", walltime.Once, ""},
		{walltime.Request{Text: strings.Repeat("7", 10_000)}, "", walltime.Once, ""},
	} {
		if tt.req.Zone == "" {
			tt.req.Zone = "Asia/Shanghai"
		}
		rule, due, err := parseAlarm(tt.req, now)
		switch {
		case tt.due == "":
			if code(err) != "CLOCK_INVALID_TIME" || len(err.Error()) > 600 {
				t.Errorf("%+v: got %v, %v", tt.req, due, err)
			}
		case err != nil:
			t.Errorf("%+v: %v", tt.req, err)
		case !due.Equal(instant(t, tt.due)) || rule.Repeat != tt.repeat || strings.Join(rule.Days, " ") != tt.days:
			t.Errorf("%+v: got %s %+v, want %s %s %s", tt.req, due.Format(time.RFC3339), rule, tt.due, tt.repeat, tt.days)
		}
	}
	if _, _, err := parseAlarm(walltime.Request{Text: "07:30", Zone: "Mars/Base"}, now); code(err) != "CLOCK_UNKNOWN_TIMEZONE" {
		t.Errorf("an unknown zone: %v", err)
	}
}

func FuzzParseAlarm(f *testing.F) {
	for _, s := range []string{"07:30", "每天 07:30", "2026-12-01T07:30:00+08:00", "每周一三五 早上7点半", "every mon,tue 7pm"} {
		f.Add(s, "", "mon", uint8(0))
	}
	f.Fuzz(func(t *testing.T, text, repeat, day string, place uint8) {
		req := walltime.Request{Text: text, Repeat: walltime.Repeat(repeat), Zone: testZones[int(place)%len(testZones)]}
		if day != "" {
			req.Days = []string{day}
		}
		now := time.Unix(1_796_000_000, 0)
		rule, due, err := parseAlarm(req, now)
		if err != nil {
			if code(err) == "" {
				t.Fatalf("%q: an error without a code: %v", text, err)
			}
			return
		}
		if !due.After(now) || !slices.Contains([]walltime.Repeat{walltime.Once, walltime.Daily, walltime.Weekly}, rule.Repeat) || (rule.Repeat == walltime.Weekly) != (len(rule.Days) > 0) {
			t.Fatalf("%q: %s %+v", text, due, rule)
		}
		if !rule.Exact {
			checkNext(t, *rule, now)
		}
	})
}
