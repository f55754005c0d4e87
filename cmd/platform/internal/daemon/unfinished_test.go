package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/aurorabot-dev/platform/bridge/bus"
)

func TestAnEndOnASlowOrFullDiskIsAWarningAndAnyOtherFaultIsNot(t *testing.T) {
	backlog := &bus.Backlog{Records: 3}
	other := errors.New("the folder is gone")
	full := fmt.Errorf("writing: %w", syscall.ENOSPC)
	for name, c := range map[string]struct {
		err    error
		failed bool
		told   string
	}{
		"nothing":             {nil, false, ""},
		"a backlog":           {backlog, false, "records=3"},
		"and a full disk":     {backlog.With(full), false, "no space left"},
		"a full disk":         {full, false, "no space left"},
		"no time":             {fmt.Errorf("closing: %w", context.DeadlineExceeded), false, "deadline"},
		"something else":      {other, true, ""},
		"and a backlog":       {backlog.With(other), true, "records=3"},
		"a backlog for space": {&bus.Backlog{Records: 1, Cause: full}, false, "records=1"},
	} {
		var log strings.Builder
		p := &Platform{log: slog.New(slog.NewTextHandler(&log, nil))}
		err := p.unfinished(c.err)
		if (err != nil) != c.failed || !strings.Contains(log.String(), c.told) || c.told == "" && log.Len() > 0 {
			t.Errorf("%s: %v, told %q", name, err, log.String())
		}
	}
}
