package inbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/bustest/crashtest"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

// publishThatExpires publishes an event and returns the name of its file.
func publishThatExpires(t *testing.T, x *Inbox, in time.Duration) string {
	t.Helper()
	e := bustest.Event("app", "test.event", 1)
	e.Payload.ExpireAt = &amp.Timestamp{Time: time.Now().Add(in)}
	if _, err := x.Publish(t.Context(), bus.Item{Envelope: e}); err != nil {
		t.Fatal(err)
	}
	return amp.FileName(e.Payload.Type, e.Header.MessageID)
}

func TestAboveTheSoftLimitExpiredEventsGiveWayAndDeliveryGoesOn(t *testing.T) {
	opt := options(t.TempDir())
	opt.Soft, opt.Hard = Limit{Files: 10, Do: Spill}, Limit{Files: 1000}
	x := open(t, opt)
	short := publishThatExpires(t, x, 200*time.Millisecond)
	long := publishThatExpires(t, x, time.Hour)
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := files(t, opt, queue.Pending); !slices.Contains(got, short) || !slices.Contains(got, long) {
		t.Fatalf("pending %v", got)
	}
	kept := publish(t, x, 20) // above the limit; nothing has expired yet
	eventually(t, "the expired event is in done", func() bool {
		kept = append(kept, publish(t, x, 1)...)
		return slices.Contains(files(t, opt, queue.Done), short)
	})
	eventually(t, "all visible", func() bool { return settled(x) })
	pending := files(t, opt, queue.Pending)
	for _, name := range append(kept, long) {
		if !slices.Contains(pending, name) {
			t.Errorf("%s is not pending", name)
		}
	}
	eventually(t, "counted", func() bool {
		c := x.Counters()
		return c.Spilled == 1 && c.Pending == int64(len(pending))
	})
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, opt); !r.OK() || r.Taken > 0 {
		t.Errorf("verify: %+v", r)
	}
}

func TestAtTheHardLimitExpiredEventsMakeRoom(t *testing.T) {
	opt := options(t.TempDir())
	opt.Hard = Limit{Files: 10, Do: Spill}
	opt.MaxLag = 5
	x := open(t, opt)
	for range 10 {
		publishThatExpires(t, x, 300*time.Millisecond)
	}
	names := publish(t, x, 8) // some of these wait until the others expire
	eventually(t, "all visible", func() bool { return settled(x) })
	pending := files(t, opt, queue.Pending)
	for _, name := range names {
		if !slices.Contains(pending, name) {
			t.Errorf("%s is not pending", name)
		}
	}
	if len(pending) > 10 {
		t.Errorf("%d pending", len(pending))
	}
}

func TestALimitOfBytesBlocksUntilTheBrainTakesSome(t *testing.T) {
	opt := options(t.TempDir())
	opt.Soft, opt.Hard = Limit{Bytes: 20_000, Do: Block}, Limit{Files: 1000}
	opt.Batch = 2
	x := open(t, opt)
	for range 10 {
		e := bustest.Event("app", "test.event", strings.Repeat("x", 5000))
		if _, err := x.Publish(t.Context(), bus.Item{Envelope: e}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "blocked", func() bool {
		s := x.State()
		return s.Err != nil && strings.Contains(s.Err.Error(), "soft limit is 0 files, 20000 bytes")
	})
	taken := 0
	for !settled(x) || taken < 10 {
		names := files(t, opt, queue.Pending)
		if len(names) > 6 {
			t.Errorf("%d files of 5 kB pending", len(names))
		}
		for _, name := range names {
			if err := os.Remove(filepath.Join(opt.Dir, queue.Pending, name)); err != nil {
				t.Fatal(err)
			}
			taken++
		}
	}
}

func TestTheCountOfPendingIsExactAfterAListingThatFilesMovedIn(t *testing.T) {
	opt := options(t.TempDir())
	open(t, opt).Close()
	pending := filepath.Join(opt.Dir, queue.Pending)
	place := func(n int) {
		if err := os.WriteFile(filepath.Join(pending, fmt.Sprintf("event_test.event_%d.json", n)), nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	n := 10_000
	for i := range n {
		place(i)
	}
	x := open(t, opt)
	for !x.pending.Listed() {
		place(n)
		n++
		time.Sleep(100 * time.Microsecond) // few of them, so that the count is nearly right
	}
	eventually(t, fmt.Sprint(n, " pending"), func() bool { return x.Counters().Pending == int64(n) })
}

func TestTheCountOfPendingFollowsTheBrainsMoves(t *testing.T) {
	opt := options(t.TempDir())
	before := open(t, opt)
	publish(t, before, 5)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	x := open(t, opt)
	names := publish(t, x, 20)
	pending, done := filepath.Join(opt.Dir, queue.Pending), filepath.Join(opt.Dir, queue.Done)
	count := func(want int64) {
		t.Helper()
		eventually(t, fmt.Sprint(want, " pending"), func() bool { return settled(x) && x.Counters().Pending == want })
	}
	count(25)
	for _, name := range names[:8] {
		if err := os.Rename(filepath.Join(pending, name), filepath.Join(done, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(pending, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	count(17)
	for _, name := range names[:3] { // handed back
		if err := os.Rename(filepath.Join(done, name), filepath.Join(pending, name)); err != nil {
			t.Fatal(err)
		}
	}
	count(20)
	if err := os.RemoveAll(pending); err != nil {
		t.Fatal(err)
	}
	publish(t, x, 2)
	count(2)
}

// The child publishes while strace looks on.
func TestPublishingListsNoFolder(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	spec := childSpec{Dir: dir, Log: filepath.Join(dir, "log"), Producers: 8, Each: 300, Mark: true}
	cmd := exec.Command(strace, "-f", "-y", "-o", trace, "-e", "trace=getdents64,renameat2,unlink,unlinkat", os.Args[0])
	cmd.Env = append(os.Environ(), crashtest.Env(t, spec))
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "ptrace") || strings.Contains(string(out), "PTRACE") {
			t.Skipf("tracing is not allowed here: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var marks, renames int
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.Contains(line, mark):
			marks++
		case marks != 1: // opening or closing
		case strings.Contains(line, "getdents") && strings.Contains(line, "/inbox"): // the journal looks at its few segments
			t.Errorf("while publishing: %s", line)
		case strings.Contains(line, "renameat2("):
			renames++
		}
	}
	if marks != 2 || renames < 1000 {
		t.Errorf("saw %d marks and %d renames", marks, renames)
	}
}
