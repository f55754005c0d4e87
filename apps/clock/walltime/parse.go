package walltime

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	maxTextBytes = 200                  // of a time, duration or zone as written
	minDuration  = time.Second          // of a timer
	maxDuration  = 365 * 24 * time.Hour // of a timer
	timeForms    = `"07:30", "2026-12-01 07:30", "2026-12-01T07:30:00+08:00", "tomorrow 07:30", "every day 07:30", "every mon,wed 07:30", "每天 07:30", "明天 07:30", "每周一三五 07:30", "工作日 07:30"`
)

var (
	durationPart = regexp.MustCompile(`^(\d{1,9}(?:\.\d{1,3})?)\s*(weeks?|w|days?|d|hours?|hrs?|hr|h|minutes?|mins?|m|seconds?|secs?|s|周|天|个小时|小时|分钟|分|秒钟|秒)[,\s]*(?:and\s+)?`)
	plainNumber  = regexp.MustCompile(`^\d{1,9}(?:\.\d{1,3})?$`)
	fixedZone    = regexp.MustCompile(`^(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?$`)
	instantForm  = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[t ](\d\d:\d\d)(:\d\d)?(?:\.\d{1,9})?(z|[+-]\d\d:\d\d)$`)
	clockAtEnd   = regexp.MustCompile(`^(.*?)\s*(?:(凌晨|早上|早晨|上午|中午|下午|傍晚|晚上)\s*)?(\d{1,2})(?::(\d\d)(?::(\d\d))?|[点點时時](?:(\d{1,2})分?|(半))?)?\s*(am|pm)?$`)
	dateAlone    = regexp.MustCompile(`^(\d{4})(?:-|/|年)(\d{1,2})(?:-|/|月)(\d{1,2})[t日]?$`)
	weeklyZh     = regexp.MustCompile(`^每(?:周|週|星期|礼拜)([一二三四五六日天周週星期、,和 ]+)$`)
	weeklyEn     = regexp.MustCompile(`^(?:every|weekly|weekly on)\s+(.+)$`)
	betweenDays  = regexp.MustCompile(`(?:\s|,|/|\band\b)+`)
)

// units are the durations of the words that durationPart knows, by prefix; the
// longest fitting prefix is first.
var units = []struct {
	word string
	unit time.Duration
}{
	{"个小时", time.Hour}, {"小时", time.Hour}, {"分", time.Minute}, {"秒", time.Second},
	{"周", 7 * 24 * time.Hour}, {"天", 24 * time.Hour},
	{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
}

// fold brings full-width digits and colons, capitals and stray space to one form.
func fold(s string) string {
	return strings.Join(strings.Fields(strings.ToLower(norm.NFKC.String(s))), " ")
}

// Duration reads a timer's length: "25m", "1h30m", "1小时30分钟", or a plain
// number of seconds.
func Duration(text string) (time.Duration, error) {
	bad := func(why string) error {
		return fault.New("CLOCK_INVALID_DURATION", `the duration %s %s; write it as "25m", "1h30m", "90s", "1小时30分钟" or a number of seconds`, Quote(text), why)
	}
	if len(text) > maxTextBytes {
		return 0, bad("is too long a text")
	}
	rest := fold(text)
	if plainNumber.MatchString(rest) {
		rest += "s"
	}
	var total float64 // nanoseconds; exact far beyond maxDuration's seconds
	if rest == "" {
		return 0, bad("is empty")
	}
	for rest != "" {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, bad("cannot be read")
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, bad("cannot be read")
		}
		for _, u := range units {
			if strings.HasPrefix(m[2], u.word) {
				total += n * float64(u.unit)
				break
			}
		}
		rest = rest[len(m[0]):]
	}
	if total < float64(minDuration) || total > float64(maxDuration) {
		return 0, bad("is outside 1 second to 365 days")
	}
	return time.Duration(total).Round(time.Millisecond), nil
}

// LoadZone is the zone of an IANA name, or of a fixed offset such as "UTC+8" or
// "+05:30".
func LoadZone(name string) (*time.Location, error) {
	if len(name) <= maxTextBytes && name != "" && name != "Local" {
		if m := fixedZone.FindStringSubmatch(strings.ToUpper(name)); m != nil {
			hours, _ := strconv.Atoi(m[2])
			minutes, _ := strconv.Atoi(m[3])
			if hours <= 14 {
				offset := hours*3600 + minutes*60
				if m[1] == "-" {
					offset = -offset
				}
				return time.FixedZone(fmt.Sprintf("UTC%s%02d:%02d", m[1], hours, minutes), offset), nil
			}
		} else if loc, err := time.LoadLocation(name); err == nil {
			return loc, nil
		}
	}
	return nil, fault.New("CLOCK_UNKNOWN_TIMEZONE", `there is no time zone %s; use an IANA name such as "Asia/Shanghai", "Europe/Berlin" or "UTC", or an offset such as "+08:00"`, Quote(name))
}

// Request is an alarm as asked for.
type Request struct {
	Text   string   // such as "tomorrow 07:30"
	Repeat Repeat   // empty: as the text says, else once
	Days   []string // of a weekly alarm, such as "mon" or "周一"
	Zone   string   // as LoadZone takes it
}

// Alarm is an alarm as it was read.
type Alarm struct {
	Repeat Repeat
	Days   []string  // of a weekly alarm: sun, mon, …
	Start  string    // YYYY-MM-DD, the first local date on which it may ring, or empty
	Clock  string    // HH:MM:SS
	Zone   string    // as LoadZone takes it
	At     time.Time // set where the text is an instant with its offset
}

// Read reads what an alarm is asked to be. Its errors are *fault.Error with the codes
// CLOCK_INVALID_TIME and CLOCK_UNKNOWN_TIMEZONE.
func Read(r Request, now time.Time) (*Alarm, error) {
	bad := func(format string, args ...any) (*Alarm, error) {
		return nil, fault.New("CLOCK_INVALID_TIME", "the time %s %s", Quote(r.Text), fmt.Sprintf(format, args...))
	}
	loc, err := LoadZone(r.Zone)
	if err != nil {
		return nil, err
	}
	if len(r.Text) > maxTextBytes {
		return bad("is too long a text; use one of %s", timeForms)
	}
	alarm := &Alarm{Repeat: r.Repeat, Zone: loc.String()}
	var days []time.Weekday
	for _, name := range r.Days {
		day, ok := weekday(fold(name))
		if !ok {
			return bad(`has the unknown day %s; use "mon" to "sun" or "周一" to "周日"`, Quote(name))
		}
		days = append(days, day)
	}
	if len(days) > 0 && alarm.Repeat == "" {
		alarm.Repeat = Weekly
	}

	var date time.Time // zero if none is named
	text, today := fold(r.Text), Civil(now.In(loc))
	if m := instantForm.FindStringSubmatch(text); m != nil {
		at, err := time.Parse(time.RFC3339, strings.ToUpper(m[1]+"T"+m[2]+cmp.Or(m[3], ":00")+m[4]))
		if err != nil {
			return bad("does not exist")
		}
		at = at.In(loc)
		date, alarm.Clock, alarm.At = Civil(at), at.Format(ClockForm), at
	} else {
		m := clockAtEnd.FindStringSubmatch(text)
		if m == nil {
			return bad("cannot be read; use one of %s", timeForms)
		}
		clock, why := readClock(m[2:])
		if why != "" {
			return bad("%s; use one of %s", why, timeForms)
		}
		alarm.Clock = clock
		var (
			repeat Repeat
			said   []time.Weekday
			ok     bool
		)
		if date, repeat, said, ok = readDay(strings.TrimSpace(m[1]), today); !ok {
			return bad("cannot be read; use one of %s", timeForms)
		}
		if repeat != "" {
			if alarm.Repeat != "" && alarm.Repeat != repeat || len(days) > 0 && !slices.Equal(DayNames(days), DayNames(said)) {
				return bad("says how it repeats and the arguments say otherwise; leave out repeat and days")
			}
			alarm.Repeat, days = repeat, said
		}
	}

	switch alarm.Repeat {
	case "":
		alarm.Repeat = Once
	case Once, Daily, Weekly:
	default:
		return bad("has the unknown repeat %s; use once, daily or weekly", Quote(string(alarm.Repeat)))
	}
	if len(days) > 0 && alarm.Repeat != Weekly {
		return bad("is not weekly, and only weekly alarms have days")
	}
	if !date.IsZero() {
		alarm.Start = date.Format(DateForm)
	} else {
		// A bare clock means the next time it shows, today or tomorrow.
		date = today
		if clock, _ := time.Parse(ClockForm, alarm.Clock); !First(On(today, clock), loc).After(now) {
			date = today.AddDate(0, 0, 1)
		}
		if alarm.Repeat == Once {
			alarm.Start = date.Format(DateForm)
		}
	}
	if alarm.Repeat == Weekly && len(days) == 0 {
		days = []time.Weekday{date.Weekday()}
	}
	alarm.Days = DayNames(days)
	return alarm, nil
}

// readClock reads the submatches of clockAtEnd after the first: part of the day,
// hour, minute, second, 点's minute, half, am or pm.
func readClock(m []string) (clock, why string) {
	if m[2] == "" && m[4] == "" && m[5] == "" && m[6] == "" && !strings.ContainsAny(m[1], "点點时時") && m[0] == "" {
		return "", "names no minute"
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi(m[2] + m[4])
	second, _ := strconv.Atoi(m[3])
	if m[5] != "" {
		minute = 30
	}
	if hour > 23 || minute > 59 || second > 59 {
		return "", "is not on the clock, which goes from 00:00 to 23:59"
	}
	part := m[0]
	if m[6] != "" {
		if part != "" || hour < 1 || hour > 12 {
			return "", "mixes am or pm with another clock"
		}
		part = m[6]
	}
	switch part {
	case "am", "凌晨":
		if hour == 12 {
			hour = 0
		}
	case "中午":
		if hour < 11 {
			hour += 12
		}
	case "pm", "下午", "傍晚", "晚上":
		if hour == 12 && part == "晚上" {
			return "", "may mean either midnight"
		}
		if hour < 12 {
			hour += 12
		}
	}
	return fmt.Sprintf("%02d:%02d:%02d", hour, minute, second), ""
}

// readDay reads what stands before the clock: nothing, a date, a word for a day
// or for a repetition. A zero date means that none was named.
func readDay(s string, today time.Time) (date time.Time, repeat Repeat, days []time.Weekday, ok bool) {
	switch s {
	case "":
		return time.Time{}, "", nil, true
	case "today", "今天", "今日":
		return today, "", nil, true
	case "tomorrow", "明天", "明日":
		return today.AddDate(0, 0, 1), "", nil, true
	case "day after tomorrow", "the day after tomorrow", "后天":
		return today.AddDate(0, 0, 2), "", nil, true
	case "大后天":
		return today.AddDate(0, 0, 3), "", nil, true
	case "every day", "everyday", "daily", "每天", "每日", "天天":
		return time.Time{}, Daily, nil, true
	case "weekdays", "every weekday", "工作日", "每个工作日":
		return time.Time{}, Weekly, []time.Weekday{1, 2, 3, 4, 5}, true
	case "weekends", "every weekend", "周末", "每周末":
		return time.Time{}, Weekly, []time.Weekday{0, 6}, true
	}
	if m := dateAlone.FindStringSubmatch(s); m != nil {
		date, err := time.Parse("2006-1-2", m[1]+"-"+m[2]+"-"+m[3])
		return date, "", nil, err == nil
	}
	if m := weeklyZh.FindStringSubmatch(s); m != nil {
		for _, c := range m[1] {
			if day, ok := weekday(string(c)); ok {
				days = append(days, day)
			}
		}
	} else if m := weeklyEn.FindStringSubmatch(s); m != nil {
		for _, name := range betweenDays.Split(m[1], -1) {
			day, ok := weekday(name)
			if !ok {
				return time.Time{}, "", nil, false
			}
			days = append(days, day)
		}
	}
	return time.Time{}, Weekly, days, len(days) > 0
}

// DayNames are the days as a rule has them: "sun" to "sat", each once, in order.
func DayNames(days []time.Weekday) (names []string) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if slices.Contains(days, day) {
			names = append(names, DayName(day))
		}
	}
	return names
}

// DayName is the name of a day as a rule has it.
func DayName(day time.Weekday) string { return strings.ToLower(day.String()[:3]) }

// weekday reads "mon", "Mondays", "一", "周一" and "星期日".
func weekday(s string) (time.Weekday, bool) {
	for _, lead := range []string{"周", "週", "星期", "礼拜"} {
		s = strings.TrimPrefix(s, lead)
	}
	for i, name := range []string{"日", "一", "二", "三", "四", "五", "六", "天"} {
		if s == name {
			return time.Weekday(i % 7), true
		}
	}
	for day := time.Sunday; day <= time.Saturday; day++ {
		name := strings.ToLower(day.String())
		if s = strings.TrimSuffix(s, "."); len(s) >= 3 && strings.HasPrefix(name+"s", s) {
			return day, true
		}
	}
	return 0, false
}

// Quote shows a caller's text, cut where it would drown the message.
func Quote(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return strconv.Quote(s)
}
