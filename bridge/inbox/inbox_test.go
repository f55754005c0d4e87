package inbox

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
)

// roomy takes the state of the machine's own disk out of the tests.
var roomy = space.Reserve{Bytes: 1, Percent: 1e-9, Inodes: 1e-9}

func options(dir string) Options {
	return Options{Dir: filepath.Join(dir, "inbox"), Retry: 2 * time.Millisecond,
		Journal: journal.Options{Dir: filepath.Join(dir, "journal"), SegmentBytes: 1 << 20, Space: roomy}}
}

// places are the folders of the inbox that opt says.
func places(opt Options) audit.Folders {
	return audit.Folders{Inbox: opt.Dir, Journal: opt.Journal.Dir}
}

func open(t testing.TB, opt Options) *Inbox {
	t.Helper()
	x, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// visible reads the files of one folder in their order.
func visible(t testing.TB, opt Options, folder string) []*amp.Envelope {
	t.Helper()
	return firstVisible(t, opt, folder, -1)
}

// firstVisible reads the first n of them; all where n is negative.
func firstVisible(t testing.TB, opt Options, folder string, n int) (all []*amp.Envelope) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(opt.Dir, folder))
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]time.Time{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		times[e.Name()] = info.ModTime()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return times[a.Name()].Compare(times[b.Name()]) })
	if n >= 0 {
		entries = entries[:min(n, len(entries))]
	}
	for _, entry := range entries {
		raw, err := os.ReadFile(filepath.Join(opt.Dir, folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		e, err := amp.Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", entry.Name(), err)
		}
		if name := amp.FileName(e.Payload.Type, e.Header.MessageID); name != entry.Name() {
			t.Fatalf("%s holds the envelope of %s", entry.Name(), name)
		}
		all = append(all, e)
	}
	return all
}

func recorded(t testing.TB, opt Options) (all []*amp.Envelope) {
	t.Helper()
	r, err := segment.OpenReader(opt.Journal.Dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := amp.Parse(rec.Body)
		if err != nil {
			t.Fatalf("record %d: %v", rec.Pos, err)
		}
		all = append(all, e)
	}
}

func TestTheInboxIsABus(t *testing.T) {
	for name, noSyncFS := range map[string]bool{"syncfs": false, "fsync": true} {
		t.Run(name, func(t *testing.T) {
			bustest.Run(t, func(t *testing.T) bustest.Harness {
				opt := options(t.TempDir())
				opt.NoSyncFS = noSyncFS
				return bustest.Harness{
					Open:      func(t testing.TB) bus.Bus { return open(t, opt) },
					Delivered: func(t testing.TB) []*amp.Envelope { return visible(t, opt, queue.Pending) },
					Recorded:  func(t testing.TB) []*amp.Envelope { return recorded(t, opt) },
					Rejected: func(t testing.TB, name string) (r bus.Rejected) {
						raw, err := os.ReadFile(filepath.Join(opt.Dir, queue.Rejected, name))
						if err != nil {
							t.Fatal(err)
						}
						if err := json.Unmarshal(raw, &r); err != nil {
							t.Fatal(err)
						}
						return r
					},
				}
			})
		})
	}
}
