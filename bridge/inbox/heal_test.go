package inbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

func TestAJournalFolderThatIsRemovedIsSaidAndMadeAnewAndEventsGoOn(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	names := publish(t, x, 20)
	eventually(t, "all visible", func() bool { return settled(x) })
	removeFolder(t, opt.Journal.Dir)
	publish(t, x, 20)
	eventually(t, "all visible again", func() bool { return settled(x) })
	if got := len(files(t, opt, queue.Pending)); got != 40 {
		t.Errorf("%d visible", got)
	}
	if all := strings.Join(x.Problems(), "\n"); !strings.Contains(all, "was removed while it was in use; records up to 20") {
		t.Errorf("problems: %s", all)
	}
	duplicate := func(x *Inbox) {
		t.Helper()
		again := bustest.Event("app", "test.event", 0)
		_, again.Header.MessageID, _ = amp.ParseFileName(names[0])
		if r, err := x.Publish(t.Context(), bus.Item{Envelope: again}); err != nil || r[0].Status != bus.Duplicate {
			t.Errorf("an event whose record is gone, again: %+v, %v", r, err)
		}
	}
	duplicate(x)
	for _, name := range files(t, opt, queue.Pending) { // the Brain takes all
		if err := os.Remove(filepath.Join(opt.Dir, queue.Pending, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, opt)
	duplicate(x)
	publish(t, x, 1)
	eventually(t, "visible after a restart", func() bool { return settled(x) })
	if got := len(files(t, opt, queue.Pending)); got != 1 {
		t.Errorf("%d visible: what was taken came back", got)
	}
	if all := x.Problems(); len(all) > 0 {
		t.Errorf("problems after a restart: %v", all)
	}
}

func TestRecordsThatGoWithTheFolderBeforeTheyAreDeliveredAreNamed(t *testing.T) {
	var hold atomic.Bool
	opt := options(t.TempDir())
	opt.Journal.SegmentBytes = 4 << 10 // the reader has one of several open
	opt.Fault = func(step string) error {
		if hold.Load() && step == "inbox write" {
			return errors.New("held")
		}
		return nil
	}
	x := open(t, opt)
	publish(t, x, 1)
	eventually(t, "visible", func() bool { return settled(x) })
	hold.Store(true)
	publish(t, x, 100)
	removeFolder(t, opt.Journal.Dir)
	publish(t, x, 10)
	hold.Store(false)
	eventually(t, "what is there is visible", func() bool { return settled(x) })
	got := len(files(t, opt, queue.Pending))
	if got < 11 || got > 111 {
		t.Errorf("%d visible", got)
	}
	gone := slices.ContainsFunc(x.Problems(), func(s string) bool { return strings.Contains(s, "removed before they were delivered") })
	if gone != (got < 111) {
		t.Errorf("%d visible, problems %q", got, x.Problems())
	}
}

func TestDamageInAFullSegmentIsKeptAsideAndListedOnce(t *testing.T) {
	var hold atomic.Bool
	hold.Store(true)
	opt := options(t.TempDir())
	opt.Journal.SegmentBytes = 4 << 10
	opt.Fault = func(step string) error {
		if hold.Load() && step == "inbox write" {
			return errors.New("held")
		}
		return nil
	}
	x := open(t, opt)
	publish(t, x, 100)
	logs, err := filepath.Glob(filepath.Join(opt.Journal.Dir, "*.log"))
	if err != nil || len(logs) < 3 {
		t.Fatal(logs, err)
	}
	raw, err := os.ReadFile(logs[1])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(raw, []byte(`"payload"`))
	raw[at] ^= 1
	if err := os.WriteFile(logs[1], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	hold.Store(false)
	eventually(t, "the others are visible", func() bool { return settled(x) })
	if got := len(files(t, opt, queue.Pending)); got != 99 {
		t.Errorf("%d visible", got)
	}
	torn, err := filepath.Glob(filepath.Join(opt.Journal.Dir, "*.torn"))
	if err != nil || len(torn) != 1 {
		t.Fatalf("kept aside: %v, %v", torn, err)
	}
	kept, err := os.ReadFile(torn[0])
	if err != nil || len(kept) == 0 || !bytes.Contains(raw, kept) || !bytes.Contains(kept, raw[at:at+20]) {
		t.Errorf("kept %q, %v", kept, err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Verify(places(opt))
	if err != nil {
		t.Fatal(err)
	}
	about := 0
	for _, f := range report.Findings {
		if f.What == "lost_record" || f.What == "torn" {
			about++
			if !strings.Contains(f.Text, filepath.Base(torn[0])) {
				t.Errorf("it is not said where the bytes are: %s", f.Text)
			}
		}
	}
	if about != 1 {
		t.Errorf("listed %d times: %+v", about, report.Findings)
	}
}

// removeFolder removes a folder in which others make files meanwhile.
func removeFolder(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.Rename(dir, dir+".gone"), os.RemoveAll(dir+".gone")); err != nil {
		t.Fatal(err)
	}
}
