package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// moment reads a point in time as [cli.Time] does, and as people say it: 15:00 is of
// today, and today and yesterday stand with or without such a time.
func moment(s string, now time.Time) (time.Time, error) {
	day, clock, _ := strings.Cut(s, " ")
	local, text := now.Local(), s
	switch {
	case day == "today":
		text = strings.TrimSpace(local.Format(time.DateOnly) + " " + clock)
	case day == "yesterday":
		text = strings.TrimSpace(local.AddDate(0, 0, -1).Format(time.DateOnly) + " " + clock)
	case strings.Contains(day, ":") && !strings.Contains(day, "-"):
		text = local.Format(time.DateOnly) + " " + s
	}
	t, err := cli.Time(text, now)
	if err != nil {
		return t, fmt.Errorf("%q is neither an age such as 10m, 2h or 7d nor a time such as 15:00, \"yesterday 15:00\" or 2026-06-17T14:30:00+08:00", s)
	}
	return t, nil
}
