package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/aurorabot-dev/platform/bridge/journal/internal/tail"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

func spareOf(dir string) (os.FileInfo, bool) {
	info, err := os.Stat(filepath.Join(dir, tail.SpareName))
	return info, err == nil
}

// addBytes adds records of 1 KB, numbered on from from.
func addBytes(t *testing.T, j *Journal, from, n int) (next int) {
	t.Helper()
	for ; n > 0; n -= 1 << 10 {
		r := event(from)
		r.Body = append(r.Body, make([]byte, 800)...)
		add(t, j, r)
		from++
	}
	return from
}

// dense fails unless dir holds the records 1 to n.
func dense(t *testing.T, dir string, n int) {
	t.Helper()
	all := readDir(t, dir)
	if len(all) != n {
		t.Fatalf("%d records, want %d", len(all), n)
	}
	for i, r := range all {
		if r.Pos != uint64(i+1) || r.Seq != r.Pos {
			t.Fatalf("record %d has position %d and seq %d", i+1, r.Pos, r.Seq)
		}
	}
}

func TestTheNextSegmentIsReadyBeforeItIsNeeded(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, SegmentBytes: 2 << 20})
	add(t, j, event(1))
	if _, there := spareOf(dir); there {
		t.Error("a journal that is hardly used takes the room of two segments")
	}
	n := addBytes(t, j, 2, 5<<18)
	eventually(t, "a spare", j.spare.Ready)
	for range 3 {
		spare, _ := spareOf(dir)
		logs, err := segment.List(dir)
		for before := len(logs); len(logs) == before && err == nil; logs, err = segment.List(dir) {
			n = addBytes(t, j, n, 1<<10)
		}
		if info, e := os.Stat(segment.Path(dir, logs[len(logs)-1])); errors.Join(e, err) != nil || !os.SameFile(info, spare) {
			t.Errorf("the next segment is not the spare: %v", errors.Join(e, err))
		}
		n = addBytes(t, j, n, 5<<18)
		eventually(t, "another spare", j.spare.Ready)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, there := spareOf(dir); there {
		t.Error("Close leaves the spare")
	}
	dense(t, dir, n-1)
}

func TestWithoutAUsableSpareASegmentIsMadeWhenNeeded(t *testing.T) {
	for name, spoil := range map[string]func(dir string, broken *atomic.Bool) error{
		"removed":           func(dir string, _ *atomic.Bool) error { return os.Remove(filepath.Join(dir, tail.SpareName)) },
		"cannot be renamed": func(_ string, broken *atomic.Bool) error { broken.Store(true); return nil },
		"replaced": func(dir string, _ *atomic.Bool) error {
			path := filepath.Join(dir, tail.SpareName)
			return errors.Join(os.WriteFile(path+".other", []byte("somebody else's"), 0o600), os.Rename(path+".other", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, broken := t.TempDir(), new(atomic.Bool)
			j := open(t, Options{Dir: dir, SegmentBytes: 2 << 20, Fault: func(step string) error {
				if step == "spare rename" && broken.CompareAndSwap(true, false) {
					return errors.New("no more files")
				}
				return nil
			}})
			n := addBytes(t, j, 1, 5<<18)
			eventually(t, "a spare", j.spare.Ready)
			if err := spoil(dir, broken); err != nil {
				t.Fatal(err)
			}
			n = addBytes(t, j, n, 3<<20)
			logs, err := segment.List(dir)
			for _, first := range logs {
				raw, e := os.ReadFile(segment.Path(dir, first))
				if e != nil || !bytes.HasPrefix(raw, []byte(segment.Magic)) {
					t.Errorf("segment %d begins with %q, %v", first, raw[:min(8, len(raw))], e)
				}
			}
			if err := errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			dense(t, dir, n-1)
		})
	}
}

func TestASpareGivesWayWhereRoomIsShort(t *testing.T) {
	s := newSmall(1<<30, 1<<20)
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, SegmentBytes: 2 << 20, look: s.look})
	addBytes(t, j, 1, 5<<18)
	eventually(t, "a spare", j.spare.Ready)
	s.free.Store(50_000) // less than the reserve
	eventually(t, "a degraded journal", func() bool { return j.State().Err != nil })
	if _, there := spareOf(dir); there {
		t.Error("the journal waits for room and keeps its spare")
	}
	s.free.Store(16<<20 + 50_000) // enough to write, too little for a spare
	eventually(t, "a journal that writes", func() bool { return j.State().Err == nil })
	addBytes(t, j, 10_000, 2<<20)
	if _, there := spareOf(dir); there {
		t.Error("a spare on a small disk")
	}
}

func TestTheSpareOfAProcessThatDiedIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tail.SpareName), []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := open(t, Options{Dir: dir, SegmentBytes: 2 << 20})
	if _, there := spareOf(dir); there {
		t.Error("it is still there")
	}
	n := addBytes(t, j, 1, 5<<20)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	dense(t, dir, n-1)
}

func TestAJournalThatIsClosedWhileItsSpareBecomesReadyLeavesNone(t *testing.T) {
	dir, strides := t.TempDir(), new(atomic.Int64)
	full, goOn := make(chan struct{}), make(chan struct{})
	j := open(t, Options{Dir: dir, SegmentBytes: 2 << 20, Fault: func(step string) error {
		if step == "spare sync" && strides.Add(1) == 2 { // of two
			close(full)
			<-goOn
		}
		return nil
	}})
	n := addBytes(t, j, 1, 5<<18)
	<-full
	closed := make(chan error, 1)
	go func() { closed <- j.Close() }()
	<-j.closing
	close(goOn)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if _, there := spareOf(dir); there {
		t.Error("Close leaves the spare")
	}
	dense(t, dir, n-1)
}

func TestASpareIsMadeAgainAfterAStart(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, SegmentBytes: 4 << 20})
	addBytes(t, j, 1, 5<<18)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, Options{Dir: dir, SegmentBytes: 4 << 20})
	eventually(t, "a spare", j.spare.Ready)
}

func TestAFileOfTheSparesNameIsNotInItsWay(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, SegmentBytes: 2 << 20})
	if err := os.WriteFile(filepath.Join(dir, tail.SpareName), []byte("stale"), 0o600); err != nil {
		t.Fatal(err)
	}
	addBytes(t, j, 1, 5<<18)
	eventually(t, "a spare", j.spare.Ready)
}

func TestASpareWhoseSyncFailsIsNotUsed(t *testing.T) {
	dir, failed := t.TempDir(), make(chan struct{})
	j := open(t, Options{Dir: dir, SegmentBytes: 2 << 20, Fault: func(step string) error {
		if step == "spare sync" {
			select {
			case <-failed:
			default:
				close(failed)
				return errors.New("input/output error")
			}
		}
		return nil
	}})
	n := addBytes(t, j, 1, 5<<18)
	<-failed
	eventually(t, "that it is gone", func() bool { _, there := spareOf(dir); return !there })
	if j.spare.Ready() || j.State().Err != nil {
		t.Errorf("ready: %v, state: %v", j.spare.Ready(), j.State().Err)
	}
	n = addBytes(t, j, n, 2<<20) // and the segment after it has one again
	eventually(t, "a spare", j.spare.Ready)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	dense(t, dir, n-1)
}

func TestAFailedSegmentThatCannotBeRemovedIsNotInTheWayOfTheNext(t *testing.T) {
	dir, failed := t.TempDir(), new(atomic.Bool)
	void := []byte("records that were never acknowledged")
	j := open(t, Options{Dir: dir, Fault: func(step string) error {
		if step == "journal sync" && failed.CompareAndSwap(false, true) {
			return errors.Join(errors.New("input/output error"), os.WriteFile(segment.Path(dir, 2), void, 0o600))
		}
		return nil
	}})
	failed.Store(true)
	add(t, j, event(1))
	failed.Store(false)
	add(t, j, event(2))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	dense(t, dir, 2)
	if kept, err := segment.Torn(dir); err != nil || len(kept) != 1 {
		t.Errorf("kept aside: %v, %v", kept, err)
	}
}
