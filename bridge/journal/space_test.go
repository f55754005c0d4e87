package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
)

// small is a disk of a size that the tests fill.
type small struct {
	free, files atomic.Int64
}

func newSmall(bytes, files int64) *small {
	s := &small{}
	s.free.Store(bytes)
	s.files.Store(files)
	return s
}

// look keeps a reserve of 100,000 bytes and 10 files.
func (s *small) look(dir string) (space.Disk, error) {
	return space.Disk{Dir: dir, Bytes: float64(s.free.Load()), Inodes: float64(s.files.Load()),
		ReservedBytes: 100_000, ReservedInodes: 10, Block: 4096, CountsInodes: true}, nil
}

func (s *small) open(t *testing.T, opt Options) *Journal {
	t.Helper()
	opt.Dir, opt.Outlet, opt.SegmentBytes, opt.look = t.TempDir(), t.TempDir(), 1<<20, s.look
	return open(t, opt)
}

// fillUp adds records until no more are acknowledged at once.
func fillUp(t *testing.T, j *Journal) (acked int, pending uint64) {
	t.Helper()
	for i := 1; ; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		var pos uint64
		err := j.Append(ctx, func(q Queue) (err error) { pos, err = q.Add(event(i)); return err })
		if err == nil {
			err = j.Wait(ctx, pos)
		}
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return acked, pos
		}
		if err != nil {
			t.Fatal(err)
		}
		acked++
	}
}

func TestWhatIsAcknowledgedFindsRoomForItsFiles(t *testing.T) {
	for name, tc := range map[string]struct{ bytes, files, want int64 }{
		"bytes":  {100_000 + 20*4230, 1 << 20, 20}, // a segment that has room is not wanted again
		"inodes": {1 << 30, 10 + 20, 20},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSmall(tc.bytes, tc.files)
			j := s.open(t, Options{Retry: time.Hour})
			n, pos := fillUp(t, j)
			if int64(n) < tc.want-2 || int64(n) > tc.want {
				t.Errorf("%d acknowledged, want about %d", n, tc.want)
			}
			if s := j.State(); s.Err != nil {
				t.Errorf("waiting for files is no fault: %v", s.Err)
			}
			if files, bytes := j.Undelivered(); files != int64(n) || bytes < 100*files {
				t.Errorf("undelivered: %d, %d bytes", files, bytes)
			}
			j.Delivered(uint64(n)) // and the disk is as full: the next waits for nothing that would come
			if err := j.Wait(t.Context(), pos); err != nil {
				t.Fatal(err)
			}
			if files, bytes := j.Undelivered(); files != 1 || bytes > 200 {
				t.Errorf("undelivered: %d, %d bytes", files, bytes)
			}
		})
	}
}

func TestABatchWhoseFilesNeverFindRoomWaitsThoughItIsTheFirst(t *testing.T) {
	s := newSmall(1<<30, 15)
	j := s.open(t, Options{Retry: time.Millisecond})
	var pos uint64
	if err := j.Append(t.Context(), func(q Queue) (err error) {
		for i := range 20 {
			if pos, err = q.Add(event(i + 1)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told that inodes are missing", func() bool {
		err := j.State().Err
		return err != nil && strings.Contains(err.Error(), "inodes: 15 free, want 20")
	})
	if durable := j.Durable(); durable != 0 {
		t.Errorf("%d records were acknowledged whose files find no room", durable)
	}
	s.files.Store(20)
	if err := j.Wait(t.Context(), pos); err != nil {
		t.Fatal(err)
	}
}

func TestTheReserveIsNeverEnteredAndRoomIsNoticed(t *testing.T) {
	s := newSmall(1<<30, 1<<20)
	j := s.open(t, Options{})
	add(t, j, event(1))
	j.Delivered(1)
	s.free.Store(99_000)
	_, pos := fillUp(t, j)
	if err := j.State().Err; err == nil || !strings.Contains(err.Error(), "nearly full") {
		t.Errorf("state: %v", err)
	}
	s.free.Store(149_000) // not yet half as much again
	time.Sleep(5 * time.Millisecond)
	if j.State().Err == nil {
		t.Error("it began again too early")
	}
	s.free.Store(400_000)
	if err := j.Wait(t.Context(), pos); err != nil {
		t.Fatal(err)
	}
}

func TestAnIdleJournalNoticesAFullDiskAndThatThereIsRoomAgain(t *testing.T) {
	s := newSmall(1<<30, 1<<20)
	j := s.open(t, Options{Retry: time.Hour, lookEvery: 10 * time.Millisecond})
	add(t, j, event(1))
	for range 2 {
		s.files.Store(3)
		eventually(t, "the full disk is noticed", func() bool { return j.State().Err != nil })
		if err := j.State().Err; !strings.Contains(err.Error(), "inodes") {
			t.Errorf("state: %v", err)
		}
		s.files.Store(1 << 20)
		eventually(t, "the room is noticed", func() bool { return j.State().Err == nil })
	}
}

func TestWhatIsOwedIsKnownAfterARestart(t *testing.T) {
	s := newSmall(1<<30, 1<<20)
	opt := Options{Dir: t.TempDir(), Outlet: t.TempDir(), SegmentBytes: 16 << 10, look: s.look}
	j := open(t, opt)
	const n = 500
	for i := range n {
		add(t, j, event(i+1))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, opt)
	if files, bytes := j.Undelivered(); files != n || bytes < 100*n || bytes > 1000*n {
		t.Errorf("undelivered: %d, %d bytes", files, bytes)
	}
	j.Delivered(n)
	if files, bytes := j.Undelivered(); files != 0 || bytes != 0 {
		t.Errorf("undelivered: %d, %d bytes", files, bytes)
	}
}

func TestDeliveredSegmentsGoWhileTheDiskIsFull(t *testing.T) {
	s := newSmall(1<<30, 1<<20)
	opt := Options{Dir: t.TempDir(), Outlet: t.TempDir(), SegmentBytes: 16 << 10, KeepBytes: 20 << 10, look: s.look}
	j := open(t, opt)
	for i := range 500 {
		add(t, j, event(i+1))
	}
	count := func() int {
		logs, err := segment.List(opt.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(logs)
	}
	before := count()
	s.free.Store(0)
	eventually(t, "full", func() bool { return j.State().Err != nil })
	if count() != before {
		t.Error("undelivered segments were dropped")
	}
	j.Delivered(500)
	eventually(t, "old segments are dropped", func() bool { return count() <= 2 })
}

func TestAFolderThatIsRemovedIsMadeAnewAndIDsAreKept(t *testing.T) {
	for name, idle := range map[string]bool{"while idle": true, "under load": false} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "journal")
			var mu sync.Mutex
			var told []string
			opt := Options{Dir: dir, SegmentBytes: 16 << 10, Report: func(s string) { mu.Lock(); defer mu.Unlock(); told = append(told, s) }}
			j := open(t, opt)
			const n = 300
			for i := 1; i <= n; i++ {
				add(t, j, event(i))
			}
			r := j.Reader(n - 5) // it has the last segment open
			if rec, err := r.Next(); err != nil || rec.Pos != n-5 {
				t.Fatal(rec.Pos, err)
			}
			if err := errors.Join(os.Rename(dir, dir+".gone"), os.RemoveAll(dir+".gone")); err != nil {
				t.Fatal(err)
			}
			if !idle {
				add(t, j, event(n+1))
			}
			eventually(t, "the folder is there again", func() bool {
				logs, err := segment.List(dir)
				return err == nil && len(logs) == 1 && logs[0] == n+1
			})
			add(t, j, event(n+2))
			mu.Lock()
			if text := strings.Join(told, "\n"); !strings.Contains(text, "removed") || !strings.Contains(text, "records up to 300") {
				t.Errorf("told: %q", told)
			}
			mu.Unlock()
			if rest := read(t, r); rest[0].Pos != n-4 || rest[len(rest)-1].Pos < n+1 || len(rest) < 6 {
				t.Errorf("the reader went on with %d records from %d", len(rest), rest[0].Pos)
			}
			if _, err := Open(opt); !errors.Is(err, lockfile.ErrLocked) {
				t.Errorf("a second process: %v", err)
			}
			known := func(j *Journal) {
				t.Helper()
				for _, i := range []int{1, n / 2, n, n + 2} {
					if _, seen := lookup(t, j, i); !seen {
						t.Errorf("id %d is forgotten", i)
					}
				}
			}
			known(j)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = open(t, opt)
			known(j)
			err := j.Append(t.Context(), func(q Queue) error {
				if seq := q.Seq(event(1).Source); seq != n+2 {
					t.Errorf("seq %d", seq)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if pos := add(t, j, event(n+3)); pos <= n+1 {
				t.Errorf("position %d is given again", pos)
			}
		})
	}
}

func TestASegmentThatIsRemovedCostsNoRecordAfterIt(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	for i := range 10 {
		add(t, j, event(i+1))
	}
	logs, err := segment.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(segment.Path(dir, logs[0])); err != nil {
		t.Fatal(err)
	}
	for i := 10; i < 20; i++ {
		add(t, j, event(i+1))
	}
	if all := readDir(t, dir); len(all) != 10 || all[0].Pos != 11 {
		t.Errorf("%d records after it are there", len(all))
	}
}
