package daemon

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
)

// testdata/formats has a data folder of each version, as it left one with the three
// apps: an entry of the diary was written, and its deletion asked for, which somebody
// approved for good. Add one with each release, and change none.
func TestTheDataFoldersOfEarlierVersionsAreOpened(t *testing.T) {
	folders, err := filepath.Glob("testdata/formats/*.tar.gz")
	if err != nil || len(folders) == 0 {
		t.Fatal("there is no folder of an earlier version", err)
	}
	for _, file := range folders {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			layout := settings.Layout{Data: t.TempDir()}
			if out, err := exec.Command("tar", "-xzf", file, "-C", layout.Data).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			at := audit.Folders{Inbox: layout.Inbox(), Journal: layout.Journal(), Artifacts: layout.Artifacts()}
			whole := func(records, files int64) {
				t.Helper()
				r, err := audit.Verify(at)
				if err != nil {
					t.Fatal(err)
				}
				if !r.OK() || len(r.Findings) > 0 || r.Records != records || r.Files != files {
					t.Errorf("found %+v, want %d records and %d files without a finding", r, records, files)
				}
			}
			whole(13, 13)

			list, err := queue.Dir(layout.Inbox()).List(queue.Filter{Type: "diary.written"}, queue.Page{})
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			known, err := queue.Dir(layout.Inbox()).Load(list[0])
			if err != nil || known.Problem != nil {
				t.Fatal(err, known)
			}
			x, err := inbox.Open(inbox.Options{Dir: layout.Inbox(), Journal: journal.Options{Dir: layout.Journal()}})
			if err != nil {
				t.Fatal(err)
			}
			if problems := x.Problems(); len(problems) > 0 || x.State().Err != nil {
				t.Errorf("the inbox has %q, %v", problems, x.State().Err)
			}
			again, fresh := *known.Envelope, *known.Envelope
			fresh.Header.MessageID = amp.NewID()
			got, err := x.Publish(t.Context(), bus.Item{Envelope: &again}, bus.Item{Envelope: &fresh})
			if err != nil || got[0].Status != bus.Duplicate || got[1].Status != bus.Accepted || got[1].Seq != 5 {
				t.Errorf("a known event and a new one are %+v, %v", got, err)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			whole(14, 14)

			kept, err := policy.OpenStore(t.Context(), filepath.Join(layout.State(), "policy.db"), policy.StoreOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Close()
			approved, err := kept.Approvals.List(t.Context(), approval.Approved)
			if err != nil || len(approved) != 1 || approved[0].Tool != "im.polaris.diary.delete_entry" {
				t.Errorf("approved are %+v, %v", approved, err)
			}
		})
	}
}
