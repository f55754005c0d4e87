package retention

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

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
)

// rig is a data folder with a journal, and the retention of it.
type rig struct {
	Options
	layout settings.Layout
}

func newRig(t *testing.T, keep settings.Retention) *rig {
	t.Helper()
	layout := settings.Layout{Data: t.TempDir()}
	store, err := artifact.Open(layout.Artifacts(), artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queue.Prepare(layout.Inbox()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(layout.Journal(), 0o700); err != nil {
		t.Fatal(err)
	}
	return &rig{Options{
		Data: layout.Data, Folders: audit.Folders{Inbox: layout.Inbox(), Journal: layout.Journal()}, Artifacts: store,
		Delivered: func() uint64 { return 0 }, Policy: func() settings.Retention { return keep }, Log: slog.New(slog.DiscardHandler),
	}, layout}
}

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
			p := newRig(t, c.keep)
			ages := map[string]time.Duration{"old": 10 * day, "mid": 5 * day, "new": 2 * day}
			folders := []string{queue.Pending, queue.Processing, queue.Done, queue.Failed, queue.Rejected}
			at := map[string]string{} // of artifacts: path to age
			for label, age := range ages {
				when := time.Now().Add(-age)
				for _, folder := range folders {
					path := filepath.Join(p.Folders.Inbox, folder, fmt.Sprintf("event_t_%s.json", label))
					if err := errors.Join(os.WriteFile(path, make([]byte, 8<<10), 0o600), os.Chtimes(path, when, when)); err != nil {
						t.Fatal(err)
					}
				}
				ref, err := p.Artifacts.Put(t.Context(), strings.NewReader(strings.Repeat(label, 2731)[:8<<10]), "text/plain")
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(p.layout.Artifacts(), ref.SHA256[:2], ref.SHA256)
				if err := os.Chtimes(path, when, when); err != nil {
					t.Fatal(err)
				}
				at[path] = label
			}
			if err := New(p.Options).Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, folder := range folders {
				var left []string
				for _, label := range []string{"mid", "new", "old"} {
					if _, err := os.Stat(filepath.Join(p.Folders.Inbox, folder, fmt.Sprintf("event_t_%s.json", label))); err == nil {
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

func TestWhatAnEventThatWaitsNamesStaysAndGoesWithIt(t *testing.T) {
	p := newRig(t, settings.Retention{Days: 7, Bytes: 1})
	j, err := journal.Open(journal.Options{Dir: p.Folders.Journal})
	if err != nil {
		t.Fatal(err)
	}
	p.Delivered = j.DeliveredTo
	old := time.Now().Add(-30 * 24 * time.Hour)
	put := func(content string) (hash, path string) {
		t.Helper()
		ref, err := p.Artifacts.Put(t.Context(), strings.NewReader(content), "text/plain")
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(p.layout.Artifacts(), ref.SHA256[:2], ref.SHA256)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		return ref.SHA256, path
	}
	event := func(hash string) []byte {
		return []byte(`{"payload":{"data":{"truncated":true,"artifact":{"sha256":"` + hash + `","size":1}}}}`)
	}
	paths := map[string]string{}
	files := map[string]string{}
	for _, folder := range []string{queue.Pending, queue.Processing, queue.Done} {
		hash, path := put(folder)
		paths[folder] = path
		files[folder] = filepath.Join(p.Folders.Inbox, folder, amp.FileName("t", folder))
		if err := os.WriteFile(files[folder], event(hash), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hash, path := put("undelivered")
	paths["undelivered"] = path
	var pos uint64
	if err := j.Append(t.Context(), func(q journal.Queue) (err error) {
		pos, err = q.Add(segment.Record{Kind: segment.Deliver, Name: amp.FileName("t", "u"), Body: event(hash)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := j.Wait(t.Context(), pos); err != nil {
		t.Fatal(err)
	}
	_, paths["nobody's"] = put("nobody's")
	left := func() (names []string) {
		t.Helper()
		if err := New(p.Options).Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, path := range paths {
			if _, err := os.Stat(path); err == nil {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	if got, want := left(), []string{queue.Pending, queue.Processing, "undelivered"}; !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	j.Delivered(pos)
	if err := errors.Join(os.Remove(files[queue.Pending]), os.Rename(files[queue.Processing], filepath.Join(p.Folders.Inbox, queue.Failed, amp.FileName("t", queue.Processing)))); err != nil {
		t.Fatal(err)
	}
	if got := left(); len(got) > 0 {
		t.Errorf("left are %q", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	paths["kept"] = ""
	_, paths["kept"] = put("kept")
	if err := os.RemoveAll(p.Folders.Journal); err != nil {
		t.Fatal(err)
	}
	if err := New(p.Options).Prune(t.Context()); err == nil {
		t.Error("without a journal, artifacts were pruned")
	}
	if _, err := os.Stat(paths["kept"]); err != nil {
		t.Error(err)
	}
}
