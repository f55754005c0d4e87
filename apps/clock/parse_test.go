package main

import (
	"errors"
	"slices"
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
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "0", "0s", "0.5s", "-5m", "366d", "5x", "m", "5m5", "1h-1m", "NaN", "Inf", "1e9", "999999999w", "9999999999", "十分钟", "5 m m",
		strings.Repeat("1s", 200),
	} {
		if got, err := parseDuration(text); code(err) != "CLOCK_INVALID_DURATION" {
			t.Errorf("%q: got %v, %v", text, got, err)
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

func TestAZoneIsAnIANANameOrAnOffset(t *testing.T) {
	at := instant(t, "2026-01-01T00:00:00Z")
	for name, want := range map[string]string{
		"Asia/Shanghai": "08:00", "UTC": "00:00", "+08:00": "08:00", "UTC+8": "08:00", "gmt-3": "21:00", "+0530": "05:30", "-09:30": "14:30",
	} {
		loc, err := loadZone(name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got := at.In(loc).Format("15:04"); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
		if again, err := loadZone(loc.String()); err != nil || at.In(again).Format(time.RFC3339) != at.In(loc).Format(time.RFC3339) {
			t.Errorf("%q: its name %q does not lead back to it: %v", name, loc, err)
		}
	}
	for _, name := range []string{"", "Local", "Beijing", "../../etc/passwd", "/etc/localtime", "+25:00", "UTC+", "\x00", strings.Repeat("x", 1000)} {
		if _, err := loadZone(name); code(err) != "CLOCK_UNKNOWN_TIMEZONE" {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestAnAlarmIsReadInEveryForm(t *testing.T) {
	now := instant(t, "2026-11-29T21:00:00+08:00") // a Sunday
	for _, tt := range []struct {
		req    request
		due    string
		repeat Repeat
		days   string
	}{
		{request{text: "07:30"}, "2026-11-30T07:30:00+08:00", Once, ""},
		{request{text: "21:30"}, "2026-11-29T21:30:00+08:00", Once, ""},
		{request{text: "21:00"}, "2026-11-30T21:00:00+08:00", Once, ""},
		{request{text: "21:00:01"}, "2026-11-29T21:00:01+08:00", Once, ""},
		{request{text: "９：３０ pm"}, "2026-11-29T21:30:00+08:00", Once, ""},
		{request{text: "12am"}, "2026-11-30T00:00:00+08:00", Once, ""},
		{request{text: "2026-12-01 07:30"}, "2026-12-01T07:30:00+08:00", Once, ""},
		{request{text: "2026-12-01T07:30"}, "2026-12-01T07:30:00+08:00", Once, ""},
		{request{text: "2026/12/1 7:30"}, "2026-12-01T07:30:00+08:00", Once, ""},
		{request{text: "2026年12月1日 早上7点半"}, "2026-12-01T07:30:00+08:00", Once, ""},
		{request{text: "2026-12-01T07:30:00Z"}, "2026-12-01T15:30:00+08:00", Once, ""},
		{request{text: "2026-12-01T07:30:00.5-05:00"}, "2026-12-01T20:30:00+08:00", Once, ""},
		{request{text: "2026-11-01T01:30:00-05:00", zone: "America/New_York"}, "", Once, ""}, // past
		{request{text: "2027-11-07T01:30:00-05:00", zone: "America/New_York"}, "2027-11-07T01:30:00-05:00", Once, ""},
		{request{text: "2027-11-07 01:30", zone: "America/New_York"}, "2027-11-07T01:30:00-04:00", Once, ""},
		{request{text: "每天 07:30"}, "2026-11-30T07:30:00+08:00", Daily, ""},
		{request{text: "每天早上7点"}, "2026-11-30T07:00:00+08:00", Daily, ""},
		{request{text: "every day 22:00"}, "2026-11-29T22:00:00+08:00", Daily, ""},
		{request{text: "07:30", repeat: Daily}, "2026-11-30T07:30:00+08:00", Daily, ""},
		{request{text: "2026-12-05 07:30", repeat: Daily}, "2026-12-05T07:30:00+08:00", Daily, ""},
		{request{text: "2026-01-01 07:30", repeat: Daily}, "2026-11-30T07:30:00+08:00", Daily, ""},
		{request{text: "明天 07:30"}, "2026-11-30T07:30:00+08:00", Once, ""},
		{request{text: "明天晚上8点15分"}, "2026-11-30T20:15:00+08:00", Once, ""},
		{request{text: "Tomorrow 07:30"}, "2026-11-30T07:30:00+08:00", Once, ""},
		{request{text: "后天 中午12点"}, "2026-12-01T12:00:00+08:00", Once, ""},
		{request{text: "今天 23:59"}, "2026-11-29T23:59:00+08:00", Once, ""},
		{request{text: "每周一三五 07:30"}, "2026-11-30T07:30:00+08:00", Weekly, "mon wed fri"},
		{request{text: "每星期日 07:30"}, "2026-12-06T07:30:00+08:00", Weekly, "sun"},
		{request{text: "every Tue, Thu and saturday 6:00"}, "2026-12-01T06:00:00+08:00", Weekly, "tue thu sat"},
		{request{text: "工作日 07:30"}, "2026-11-30T07:30:00+08:00", Weekly, "mon tue wed thu fri"},
		{request{text: "周末 9:00"}, "2026-12-05T09:00:00+08:00", Weekly, "sun sat"},
		{request{text: "07:30", repeat: Weekly}, "2026-11-30T07:30:00+08:00", Weekly, "mon"},
		{request{text: "22:30", repeat: Weekly}, "2026-11-29T22:30:00+08:00", Weekly, "sun"},
		{request{text: "07:30", days: []string{"周二", "Friday", "tue"}}, "2026-12-01T07:30:00+08:00", Weekly, "tue fri"},
		{request{text: "每周二 07:30", repeat: Weekly, days: []string{"tue"}}, "2026-12-01T07:30:00+08:00", Weekly, "tue"},

		{request{text: "今天 07:30"}, "", Once, ""},
		{request{text: "2026-11-29 20:59"}, "", Once, ""},
		{request{text: "2040-11-29 20:59"}, "", Once, ""},
		{request{text: "9999-12-31 23:59", repeat: Daily}, "", Once, ""},
		{request{text: "2026-02-30 07:30"}, "", Once, ""},
		{request{text: "2026-13-01T07:30:00Z"}, "", Once, ""},
		{request{text: "24:00"}, "", Once, ""},
		{request{text: "07:60"}, "", Once, ""},
		{request{text: "7"}, "", Once, ""},
		{request{text: "13pm"}, "", Once, ""},
		{request{text: "晚上12点"}, "", Once, ""},
		{request{text: ""}, "", Once, ""},
		{request{text: "soon"}, "", Once, ""},
		{request{text: "每周八 07:30"}, "", Once, ""},
		{request{text: "every blue monday 07:30"}, "", Once, ""},
		{request{text: "每天 07:30", repeat: Once}, "", Once, ""},
		{request{text: "每周一 07:30", days: []string{"tue"}}, "", Once, ""},
		{request{text: "07:30", repeat: Daily, days: []string{"tue"}}, "", Once, ""},
		{request{text: "07:30", repeat: "hourly"}, "", Once, ""},
		{request{text: "07:30", days: []string{"someday"}}, "", Once, ""},
		{request{text: strings.Repeat("7", 10_000)}, "", Once, ""},
	} {
		if tt.req.zone == "" {
			tt.req.zone = "Asia/Shanghai"
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
	if _, _, err := parseAlarm(request{text: "07:30", zone: "Mars/Base"}, now); code(err) != "CLOCK_UNKNOWN_TIMEZONE" {
		t.Errorf("an unknown zone: %v", err)
	}
}

func FuzzParseAlarm(f *testing.F) {
	for _, s := range []string{"07:30", "每天 07:30", "2026-12-01T07:30:00+08:00", "每周一三五 早上7点半", "every mon,tue 7pm"} {
		f.Add(s, "", "mon", uint8(0))
	}
	f.Fuzz(func(t *testing.T, text, repeat, day string, place uint8) {
		req := request{text: text, repeat: Repeat(repeat), zone: testZones[int(place)%len(testZones)]}
		if day != "" {
			req.days = []string{day}
		}
		now := time.Unix(1_796_000_000, 0)
		rule, due, err := parseAlarm(req, now)
		if err != nil {
			if code(err) == "" {
				t.Fatalf("%q: an error without a code: %v", text, err)
			}
			return
		}
		if !due.After(now) || !slices.Contains([]Repeat{Once, Daily, Weekly}, rule.Repeat) || (rule.Repeat == Weekly) != (len(rule.Days) > 0) {
			t.Fatalf("%q: %s %+v", text, due, rule)
		}
		if !rule.Exact {
			checkNext(t, *rule, now)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1h30m")
	f.Add("1小时30分钟")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDuration(text)
		if err == nil && (d < minDuration || d > maxDuration) || err != nil && code(err) == "" {
			t.Fatalf("%q: %v, %v", text, d, err)
		}
	})
}
