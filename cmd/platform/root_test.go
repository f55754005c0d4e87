package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

func TestADataFolderOfSomebodyElseSaysSo(t *testing.T) {
	for path, want := range map[string]bool{"/srv/data/kernel/inbox": true, "/root/key": false} {
		var out bytes.Buffer
		c := &cli{err: console.New(&out), data: "/srv/data"}
		code := c.report(t.Context(), fmt.Errorf("reading: %w", &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}))
		if hinted := strings.Contains(out.String(), "hint: /srv/data is for the user"); code != exitFailed || hinted != want {
			t.Errorf("%s: code %d, %s", path, code, out.String())
		}
	}
}
