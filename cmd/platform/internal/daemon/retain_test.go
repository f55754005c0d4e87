package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
)

func TestRetentionTakesWhatIsDealtWithByAgeAndSizeAndNothingThatWaits(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		keep settings.Retention
		want []string // of the files old, mid and new
	}{
		"age":      {settings.Retention{Days: 7}, []string{"mid", "new"}},
		"size":     {settings.Retention{Bytes: 10 << 10}, []string{"new"}}, // each is 8 KiB
		"both":     {settings.Retention{Days: 7, Bytes: 20 << 10}, []string{"mid", "new"}},
		"for ever": {settings.Retention{}, []string{"mid", "new", "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Platform{o: settings.Options{Data: t.TempDir()}, live: settings.Options{Retention: c.keep}, log: slog.New(slog.DiscardHandler)}
			p.layout = settings.Layout{Data: p.o.Data}
			var err error
			if p.artifacts, err = artifact.Open(p.layout.Artifacts(), artifact.Options{}); err != nil {
				t.Fatal(err)
			}
			if _, err := queue.Prepare(p.layout.Inbox()); err != nil {
				t.Fatal(err)
			}
			ages := map[string]time.Duration{"old": 10 * day, "mid": 5 * day, "new": 2 * day}
			folders := []string{queue.Pending, queue.Processing, queue.Done, queue.Failed, queue.Rejected}
			at := map[string]string{} // of artifacts: path to age
			for label, age := range ages {
				when := time.Now().Add(-age)
				for _, folder := range folders {
					path := filepath.Join(p.layout.Inbox(), folder, fmt.Sprintf("event_t_%s.json", label))
					if err := errors.Join(os.WriteFile(path, make([]byte, 8<<10), 0o600), os.Chtimes(path, when, when)); err != nil {
						t.Fatal(err)
					}
				}
				ref, err := p.artifacts.Put(t.Context(), strings.NewReader(strings.Repeat(label, 2731)[:8<<10]), "text/plain")
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(p.layout.Artifacts(), ref.SHA256[:2], ref.SHA256)
				if err := os.Chtimes(path, when, when); err != nil {
					t.Fatal(err)
				}
				at[path] = label
			}
			if err := p.prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, folder := range folders {
				var left []string
				for _, label := range []string{"mid", "new", "old"} {
					if _, err := os.Stat(filepath.Join(p.layout.Inbox(), folder, fmt.Sprintf("event_t_%s.json", label))); err == nil {
						left = append(left, label)
					}
				}
				want := c.want
				if folder == queue.Pending || folder == queue.Processing {
					want = []string{"mid", "new", "old"}
				}
				if !slices.Equal(left, want) {
					t.Errorf("%s: left are %v, want %v", folder, left, want)
				}
			}
			var left []string
			for path, label := range at {
				if _, err := os.Stat(path); err == nil {
					left = append(left, label)
				}
			}
			if slices.Sort(left); !slices.Equal(left, c.want) {
				t.Errorf("artifacts: left are %v, want %v", left, c.want)
			}
		})
	}
}
