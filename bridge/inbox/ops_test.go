package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/checkpoint"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/internal/slots"
)

func publish(t testing.TB, x *Inbox, n int) (names []string) {
	t.Helper()
	for i := range n {
		e := bustest.Event("app", "test.event", i)
		if _, err := x.Publish(t.Context(), bus.Item{Envelope: e}); err != nil {
			t.Fatal(err)
		}
		names = append(names, amp.FileName(e.Payload.Type, e.Header.MessageID))
	}
	return names
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func settled(x *Inbox) bool { return x.projector.Backlog() == 0 && x.State().Err == nil }

func files(t testing.TB, opt Options, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(opt.Dir, folder))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func verify(t testing.TB, opt Options) *audit.Report {
	t.Helper()
	r, err := audit.Verify(places(opt))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func words(r *audit.Report) (all []string) {
	for _, f := range r.Findings {
		all = append(all, f.What)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestASecondWriterIsToldWhichProcessHasTheInbox(t *testing.T) {
	opt := options(t.TempDir())
	open(t, opt)
	other := options(t.TempDir())
	other.Dir = opt.Dir
	for _, o := range []Options{opt, other} {
		if _, err := Open(o); !errors.Is(err, lockfile.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
			t.Errorf("second Open: %v", err)
		}
	}
}

// broken is a disk that fails one step with an error while it is on.
type broken struct {
	on   atomic.Bool
	hits atomic.Int64
	step string
	err  error
	once bool
}

func (b *broken) fault(step string) error {
	if step != b.step || !b.on.Load() {
		return nil
	}
	b.hits.Add(1)
	if b.once {
		b.on.Store(false)
	}
	return b.err
}

func TestADiskThatFailsAtAnyStepHoldsPublishersBackAndLosesNothing(t *testing.T) {
	for _, tc := range []struct {
		step string
		err  error
	}{
		{"journal write", syscall.EIO}, {"journal sync", syscall.EIO}, {"journal create", syscall.EROFS},
		{"inbox write", syscall.ENOSPC}, {"inbox sync", syscall.EIO}, {"inbox intent", syscall.EROFS},
		{"inbox rename", syscall.ENOSPC}, {"inbox folder sync", syscall.EIO}, {"inbox checkpoint", syscall.ENOSPC},
	} {
		t.Run(strings.ReplaceAll(tc.step, " ", "-"), func(t *testing.T) {
			disk := &broken{step: tc.step, err: tc.err}
			opt := options(t.TempDir())
			opt.Fault = disk.fault
			opt.MaxLag = 20
			opt.Journal.QueueBytes = 2000
			opt.Journal.SegmentBytes = 4 << 10 // so that segments are made while it is broken
			x := open(t, opt)
			publish(t, x, 10)
			eventually(t, "all visible", func() bool { return settled(x) })
			disk.on.Store(true)
			var wg sync.WaitGroup
			var done atomic.Int64
			const more = 100
			for range 4 {
				wg.Go(func() {
					for range more / 4 {
						publish(t, x, 1)
						done.Add(1)
					}
				})
			}
			eventually(t, "degraded", func() bool { return errors.Is(x.State().Err, tc.err) })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			for err := error(nil); err == nil; { // until there is no more room
				_, err = x.Publish(ctx, bus.Item{Envelope: bustest.Event("other", "t", 1)})
				if err != nil && (!errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, tc.err)) {
					t.Errorf("publishing while the disk fails: %v", err)
				}
			}
			// While batches follow each other at once, syncing the folder is part of
			// syncing the next, and so is the checkpoint: only the last of them meets
			// these steps.
			last := tc.step == "inbox folder sync" || tc.step == "inbox checkpoint"
			if done.Load() == more && !last {
				t.Error("nobody was held back")
			}
			disk.on.Store(false)
			wg.Wait()
			eventually(t, "all visible again", func() bool { return settled(x) })
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			mine := 0
			for _, e := range visible(t, opt, queue.Pending) {
				if e.Header.Source.App == "app" {
					mine++
				}
			}
			if r := verify(t, opt); mine != more+10 || !r.OK() || r.Taken > 0 || r.Backlog > 0 {
				t.Errorf("%d of %d visible; %+v", mine, more+10, r)
			}
			if left := files(t, opt, queue.Tmp); len(left) > 0 {
				t.Errorf("tmp holds %v", left)
			}
		})
	}
}

func TestAFolderRemovedWhileItRunsIsMadeAgain(t *testing.T) {
	for _, folder := range []string{queue.Pending, queue.Tmp, queue.Rejected} {
		t.Run(folder, func(t *testing.T) {
			opt := options(t.TempDir())
			x := open(t, opt)
			publish(t, x, 3)
			eventually(t, "visible", func() bool { return settled(x) })
			if err := os.RemoveAll(filepath.Join(opt.Dir, folder)); err != nil {
				t.Fatal(err)
			}
			names := publish(t, x, 3)
			if _, err := x.Reject(t.Context(), bus.Rejected{Raw: json.RawMessage(`1`)}); err != nil {
				t.Error(err)
			}
			eventually(t, "visible again", func() bool { return settled(x) })
			for _, name := range names {
				if !slices.Contains(files(t, opt, queue.Pending), name) {
					t.Errorf("%s is not pending", name)
				}
			}
			info, err := os.Stat(filepath.Join(opt.Dir, folder))
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", folder, info, err)
			}
		})
	}
}

func TestFilesAndFoldersAreForTheirOwnerAlone(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	publish(t, x, 5)
	if _, err := x.Reject(t.Context(), bus.Rejected{Raw: json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Dir(opt.Dir), func(path string, e os.DirEntry, err error) error {
		if err != nil || path == filepath.Dir(opt.Dir) {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(opt.Dir, queue.Pending), 0o777); err != nil {
		t.Fatal(err)
	}
	x = open(t, opt)
	if p := x.Problems(); len(p) != 1 || !strings.Contains(p[0], "open to others") {
		t.Errorf("problems %q", p)
	}
}

func TestTheLatestRejectedEventsAreKeptUpToANumberAndSize(t *testing.T) {
	opt := options(t.TempDir())
	opt.MaxRejected, opt.RejectedBytes = 5, 10_000
	x := open(t, opt)
	var names []string
	reject := func(raw string) {
		name, err := x.Reject(t.Context(), bus.Rejected{Reason: "r", Raw: json.RawMessage(raw)})
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	for i := range 8 {
		reject(fmt.Sprint(i))
	}
	if got := files(t, opt, queue.Rejected); !slices.Equal(got, names[3:]) {
		t.Errorf("kept %v, want %v", got, names[3:])
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, opt)
	reject(`"` + strings.Repeat("x", 9_500) + `"`)
	reject(`"` + strings.Repeat("y", 2*maxRaw) + `"`) // alone more than may be kept: cut, and the latest stays
	if got := files(t, opt, queue.Rejected); !slices.Equal(got, names[9:]) {
		t.Errorf("kept %v, want %v", got, names[9:])
	}
	if c := x.Counters(); c.Rejected != 2 {
		t.Errorf("counted %d", c.Rejected)
	}
	if info, err := os.Stat(filepath.Join(opt.Dir, queue.Rejected, names[9])); err != nil || info.Size() > maxRaw+1000 {
		t.Errorf("kept %v, %v", info, err)
	}
}

func TestCountersTellWhatBecameOfEvents(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	e := bustest.Event("a", "t", 1)
	late := bustest.Event("a", "t", 2)
	late.Payload.ExpireAt = &amp.Timestamp{Time: time.Now().Add(-time.Minute)}
	for _, item := range []bus.Item{{Envelope: e}, {Envelope: e}, {Envelope: late}, {Envelope: bustest.Event("a", "t", 3), Route: bus.Journal}} {
		if _, err := x.Publish(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "counted", func() bool { return settled(x) && x.Counters().Pending == 1 })
	want := Counters{Accepted: 1, Duplicate: 1, Expired: 1, Recorded: 1, Delivered: 1, Pending: 1, IDs: 2} // that of the record is not remembered
	c := x.Counters()
	if c.Syncs < 4 || c.PendingBytes < 50 {
		t.Errorf("%d syncs, %d bytes pending", c.Syncs, c.PendingBytes)
	}
	if c.Syncs, c.PendingBytes = 0, 0; c != want {
		t.Errorf("counted %+v, want %+v", c, want)
	}
}

func TestRecordsWhoseIDsAreNotRememberedAreNoneThatCameAgain(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	for n := range 3 {
		if _, err := x.Publish(t.Context(), bus.Item{Envelope: bustest.Event("a", "t", n), Route: bus.Journal}); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := audit.Verify(places(opt)); err != nil || len(r.Findings) > 0 || r.Records != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAFullPendingFolderStopsDeliveryUntilTheBrainTakesSome(t *testing.T) {
	opt := options(t.TempDir())
	opt.Hard, opt.MaxLag, opt.Batch = Limit{Files: 20}, 10, 5
	x := open(t, opt)
	published := make(chan struct{})
	go func() {
		defer close(published)
		for range 60 {
			if _, err := x.Publish(t.Context(), bus.Item{Envelope: bustest.Event("a", "t", 1)}); err != nil {
				t.Error(err)
			}
		}
	}()
	eventually(t, "degraded", func() bool {
		s := x.State()
		return s.Err != nil && strings.Contains(s.Err.Error(), "nobody takes them")
	})
	select {
	case <-published:
		t.Error("nobody was held back")
	default:
	}
	closed := make(chan error, 1)
	go func() {
		<-published
		closed <- x.Close() // waits for the last of them, for which there must be room too
	}()
	taken := 0
	for alive := true; alive; {
		select {
		case err := <-closed:
			if err != nil {
				t.Fatal(err)
			}
			alive = false
		default:
			names := files(t, opt, queue.Pending)
			if len(names) > int(opt.Hard.Files) {
				t.Errorf("%d pending", len(names))
			}
			for _, name := range names {
				if err := os.Remove(filepath.Join(opt.Dir, queue.Pending, name)); err != nil {
					t.Error(err)
				}
				taken++
			}
		}
	}
	if taken += len(files(t, opt, queue.Pending)); taken != 60 {
		t.Errorf("%d of 60 delivered", taken)
	}
}

func TestAnEventThatExpiresInTheBacklogIsNotDelivered(t *testing.T) {
	disk := &broken{step: "inbox write", err: syscall.ENOSPC}
	disk.on.Store(true)
	opt := options(t.TempDir())
	opt.Fault = disk.fault
	x := open(t, opt)
	publish(t, x, 1) // holds the projector
	e := bustest.Event("a", "t", 1)
	e.Payload.ExpireAt = &amp.Timestamp{Time: time.Now().Add(30 * time.Millisecond)}
	if r, err := x.Publish(t.Context(), bus.Item{Envelope: e}); err != nil || r[0].Status != bus.Accepted {
		t.Fatal(r, err)
	}
	eventually(t, "expired", func() bool { return time.Now().After(e.Payload.ExpireAt.Time) })
	disk.on.Store(false)
	eventually(t, "settled", func() bool { return settled(x) })
	if got := files(t, opt, queue.Pending); len(got) != 1 || x.Counters().Expired != 1 {
		t.Errorf("pending %v, expired %d", got, x.Counters().Expired)
	}
}

func TestCloseOnADiskThatFailsSaysWhatIsLeftAndTheNextStartDeliversIt(t *testing.T) {
	disk := &broken{step: "inbox sync", err: syscall.EIO}
	disk.on.Store(true)
	opt := options(t.TempDir())
	opt.Fault, opt.CloseTimeout = disk.fault, 50*time.Millisecond
	x := open(t, opt)
	names := publish(t, x, 3)
	eventually(t, "degraded", func() bool { return x.State().Err != nil })
	if err := x.Close(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "3 records") {
		t.Errorf("Close: %v", err)
	}
	if r := verify(t, opt); r.Backlog != 3 || !r.OK() {
		t.Errorf("verify: %+v", r)
	}
	disk.on.Store(false)
	opt.CloseTimeout = time.Minute
	if err := open(t, opt).Close(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if got := files(t, opt, queue.Pending); !slices.Equal(got, names) {
		t.Errorf("pending %v, want %v", got, names)
	}
}

func TestCloseThatRunsOutOfTimeLeavesTheRestToTheNextStart(t *testing.T) {
	opt := options(t.TempDir())
	slow := make(chan struct{})
	opt.CloseTimeout, opt.Fault = time.Millisecond, func(step string) error {
		if step == "inbox write" {
			<-slow
		}
		return nil
	}
	x := open(t, opt)
	names := publish(t, x, 3)
	stop := x.stop
	x.stop = func(cause error) { stop(cause); close(slow) } // what is left has been counted
	err := x.Close()
	if left, ok := err.(*bus.Backlog); !ok || left.Records != 3 || left.Cause != nil {
		t.Errorf("Close: %v", err)
	}
	if err := open(t, opt).Close(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if got := files(t, opt, queue.Pending); !slices.Equal(got, names) {
		t.Errorf("pending %v, want %v", got, names)
	}
}

func TestALostCheckpointIsMadeGoodFromTheFolders(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	names := publish(t, x, 8)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	move := func(name, folder string) {
		if err := os.Rename(filepath.Join(opt.Dir, queue.Pending, name), filepath.Join(opt.Dir, folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	move(names[0], queue.Done)
	move(names[1], queue.Processing)
	move(names[2], queue.Failed)
	if err := os.Remove(filepath.Join(opt.Journal.Dir, checkpoint.Name)); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, opt); r.OK() || !slices.Contains(words(r), "no_checkpoint") {
		t.Errorf("verify: %v", words(r))
	}
	x = open(t, opt)
	if p := x.Problems(); len(p) != 1 || !strings.Contains(p[0], "checkpoint") {
		t.Errorf("problems %q", p)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got := files(t, opt, queue.Pending); len(got) != 5 {
		t.Errorf("pending %v", got)
	}
	if r := verify(t, opt); !r.OK() {
		t.Errorf("verify: %v", r.Findings)
	}
}

func TestATornCheckpointSlotLeavesTheOtherOne(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	publish(t, x, 5)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	before, turn, err := checkpoint.Read(opt.Journal.Dir)
	if err != nil || before.Projected != 5 {
		t.Fatal(before, err)
	}
	path := filepath.Join(opt.Journal.Dir, checkpoint.Name)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[int(turn%2)*slots.Size+20] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	after, older, err := checkpoint.Read(opt.Journal.Dir)
	if err != nil || older != turn-1 || after.Projected > before.Projected {
		t.Errorf("got %+v, turn %d, %v", after, older, err)
	}
	if err := open(t, opt).Close(); err != nil {
		t.Fatal(err)
	}
	if got := visible(t, opt, queue.Pending); len(got) != 5 {
		t.Errorf("%d pending", len(got))
	}
}

func TestVerifyExplainsEachDifference(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	names := publish(t, x, 10)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, opt); !r.OK() || len(r.Findings) > 0 || r.Records != 10 || r.Delivered != 10 || r.Files != 10 || r.Projected != 10 {
		t.Fatalf("a sound inbox: %+v", r)
	}
	path := func(folder, name string) string { return filepath.Join(opt.Dir, folder, name) }
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path(queue.Pending, names[0])); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, opt); !r.OK() || r.Taken != 1 {
		t.Errorf("a file the Brain removed: %+v", r)
	}
	write(path(queue.Pending, names[1]), "{}")
	write(path(queue.Done, names[2]), "{}")
	write(path(queue.Pending, "event_t_foreign.json"), "{}")
	write(path(queue.Pending, "event_t_older.json"), "{}")
	if err := os.Chtimes(path(queue.Pending, "event_t_older.json"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	write(path(queue.Pending, "notes.txt"), "")
	segments, err := filepath.Glob(filepath.Join(opt.Journal.Dir, "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	raw, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[strings.Index(string(raw), names[5])+100] ^= 1
	write(segments[0], string(raw))
	r := verify(t, opt)
	if want := []string{"changed", "foreign", "lost_record", "older", "seq", "stray", "twice", "unrecorded"}; r.OK() || !slices.Equal(words(r), want) {
		t.Errorf("found %v, want %v\n%+v", words(r), want, r.Findings)
	}
	x = open(t, opt)
	if p := x.Problems(); len(p) != 1 || !strings.Contains(p[0], "records 6 to 6 are lost") {
		t.Errorf("problems %q", p)
	}
}

func TestReplayRebuildsFilesFromTheJournal(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	publish(t, x, 5)
	middle := time.Now()
	for _, item := range []bus.Item{{Envelope: bustest.Event("a", "lifecycle.started", 1)}, {Envelope: bustest.Event("a", "tool.started", 2), Route: bus.Journal}} {
		if _, err := x.Publish(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	replay := func(f audit.ReplayFilter, to string) int64 {
		n, err := audit.Replay(places(opt), f, to)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	to := filepath.Join(t.TempDir(), "out")
	if n := replay(audit.ReplayFilter{}, to); n != 6 {
		t.Errorf("replayed %d", n)
	}
	eventually(t, "visible", func() bool { return settled(x) })
	for _, name := range files(t, opt, queue.Pending) {
		want, err1 := os.ReadFile(filepath.Join(opt.Dir, queue.Pending, name))
		got, err2 := os.ReadFile(filepath.Join(to, name))
		if err1 != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("%s: %v, %v, same %v", name, err1, err2, string(got) == string(want))
		}
	}
	for name, tc := range map[string]struct {
		filter audit.ReplayFilter
		want   int64
	}{
		"since": {audit.ReplayFilter{Since: middle}, 1}, "all": {audit.ReplayFilter{All: true, Since: middle}, 2},
		"type": {audit.ReplayFilter{Type: "test.*"}, 5}, "again": {audit.ReplayFilter{}, 6},
	} {
		if n := replay(tc.filter, filepath.Join(t.TempDir(), "out")); n != tc.want {
			t.Errorf("%s: replayed %d, want %d", name, n, tc.want)
		}
	}
	if n := replay(audit.ReplayFilter{}, to); n != 0 {
		t.Errorf("files that were there were written again: %d", n)
	}
	if _, err := audit.Replay(places(opt), audit.ReplayFilter{}, filepath.Join(opt.Dir, queue.Pending)); err == nil {
		t.Error("replayed into the inbox itself")
	}
}

func TestEventsThatShareARecordAreOneFileAndReplayedEach(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	end := bustest.Event("a", "tool.completed", 3)
	item := bus.Item{Envelope: end, Before: []*amp.Envelope{bustest.Event("a", "mcp.call.started", 1), bustest.Event("a", "tool.started", 2)}}
	for range 2 {
		if _, err := x.Publish(t.Context(), item); err != nil { // the second is a duplicate
			t.Fatal(err)
		}
	}
	if _, err := x.Publish(t.Context(), bus.Item{Envelope: bustest.Event("a", "test.event", 4)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "visible", func() bool { return settled(x) })
	pending := files(t, opt, queue.Pending)
	if len(pending) != 2 {
		t.Fatalf("pending are %q", pending)
	}
	raw, err := os.ReadFile(filepath.Join(opt.Dir, queue.Pending, amp.FileName("tool.completed", end.Header.MessageID)))
	if err != nil {
		t.Fatal(err)
	}
	var got amp.Envelope
	if err := json.Unmarshal(raw, &got); err != nil || got.Header.Seq != 3 {
		t.Errorf("the file is %s, %v", raw, err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, opt); !r.OK() || len(r.Findings) > 0 || r.Files != 2 {
		t.Errorf("verify finds %+v", r)
	}
	for filter, want := range map[audit.ReplayFilter]int64{{}: 2, {All: true}: 4, {All: true, Type: "tool.started"}: 1} {
		to := filepath.Join(t.TempDir(), "out")
		if n, err := audit.Replay(places(opt), filter, to); err != nil || n != want {
			t.Errorf("%+v replays %d, want %d: %v", filter, n, want, err)
		}
	}
}

func TestPruneLeavesTheJournalOfARunningPlatformAlone(t *testing.T) {
	opt := options(t.TempDir())
	opt.Journal.SegmentBytes = 4 << 10
	x := open(t, opt)
	names := publish(t, x, 40)
	eventually(t, "visible", func() bool { return settled(x) })
	for _, name := range names[:10] {
		if err := os.Rename(filepath.Join(opt.Dir, queue.Pending, name), filepath.Join(opt.Dir, queue.Done, name)); err != nil {
			t.Fatal(err)
		}
	}
	policy := audit.PrunePolicy{Done: queue.Policy{Age: time.Nanosecond}, JournalBytes: 8 << 10}
	pruned, segments, skipped, err := audit.Prune(places(opt), policy, true)
	if err != nil || !errors.Is(skipped, lockfile.ErrLocked) || len(segments) > 0 || pruned[0].Files != 10 {
		t.Errorf("while it runs: %v, %v, %v, %v", pruned, segments, skipped, err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, opt).Close() // summaries of all full segments exist now
	pruned, segments, skipped, err = audit.Prune(places(opt), policy, false)
	if err != nil || skipped != nil || len(segments) == 0 || pruned[0].Files != 10 {
		t.Errorf("when it does not: %v, %v, %v, %v", pruned, segments, skipped, err)
	}
	if len(files(t, opt, queue.Pending)) != 30 || len(files(t, opt, queue.Done)) != 0 {
		t.Error("pruning took the wrong files")
	}
	x = open(t, opt)
	again := bustest.Event("app", "test.event", 0)
	_, again.Header.MessageID, _ = amp.ParseFileName(names[0])
	if r, err := x.Publish(t.Context(), bus.Item{Envelope: again}); err != nil || r[0].Status != bus.Duplicate {
		t.Errorf("an event whose segment and file are gone: %+v, %v", r, err)
	}
}

func TestADiskWithRoomForAFewFilesIsGivenSmallBatches(t *testing.T) {
	const room = 8
	var used, hold atomic.Int64
	hold.Store(1)
	opt := options(t.TempDir())
	opt.Retry = time.Millisecond
	opt.Fault = func(step string) error {
		switch {
		case step == "inbox write" && (hold.Load() == 1 || used.Add(1) > room):
			used.Store(0) // what was written is removed again
			return syscall.ENOSPC
		case step == "inbox done":
			used.Store(0) // the Brain has taken them
		}
		return nil
	}
	x := open(t, opt)
	publish(t, x, 100) // a backlog of more than fits
	hold.Store(0)
	eventually(t, "all visible", func() bool { return settled(x) })
	if got := len(files(t, opt, queue.Pending)); got != 100 {
		t.Errorf("%d visible", got)
	}
}
