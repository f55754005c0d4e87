package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestADataFolderOfSomebodyElseSaysSo(t *testing.T) {
	for path, want := range map[string]bool{"/srv/data/kernel/inbox": true, "/root/key": false} {
		var out bytes.Buffer
		c := New(nil, nil, &out)
		c.Data = "/srv/data"
		code := c.report(t.Context(), nil, nil, fmt.Errorf("reading: %w", &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}))
		if hinted := strings.Contains(out.String(), "hint: /srv/data is for the user"); code != ExitFailed || hinted != want {
			t.Errorf("%s: code %d, %s", path, code, out.String())
		}
	}
}

func TestTheHintAboutAClosedQuestionHoldsForUsedOnesToo(t *testing.T) {
	hint := near(fault.New(control.ApprovalDecided, "X is used: the approval is not open"))
	if !strings.Contains(hint, "approvals show ID") || !strings.Contains(hint, "still stands") {
		t.Errorf("the hint is %q", hint)
	}
}
