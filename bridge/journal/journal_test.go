package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/bridge/internal/format"
	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roomy takes the state of the machine's own disk out of the tests.
var roomy = space.Reserve{Bytes: 1, Percent: 1e-9, Inodes: 1e-9}

func open(t testing.TB, opt Options) *Journal {
	t.Helper()
	if opt.Space == (space.Reserve{}) {
		opt.Space = roomy
	}
	if opt.SegmentBytes == 0 {
		opt.SegmentBytes = 1 << 20
	}
	if opt.Retry == 0 {
		opt.Retry = time.Millisecond
	}
	j, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func add(t testing.TB, j *Journal, records ...segment.Record) (last uint64) {
	t.Helper()
	err := j.Append(t.Context(), func(q Queue) (err error) {
		for _, r := range records {
			if last, err = q.Add(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = j.Wait(t.Context(), last)
	}
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func event(n int) segment.Record {
	return segment.Record{Kind: segment.Deliver, Key: segment.KeyOf(fmt.Sprint("id", n)), Owner: 7, Source: "app\x001", Seq: uint64(n),
		Name: fmt.Sprintf("event_t_id%d.json", n), Body: bytes.Repeat([]byte{'a' + byte(n%26)}, 100+n%50)}
}

func read(t testing.TB, r *segment.Reader) (all []segment.Record) {
	t.Helper()
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
}

func readDir(t testing.TB, dir string) []segment.Record {
	t.Helper()
	r, err := segment.OpenReader(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, r)
}

func lookup(t testing.TB, j *Journal, n int) (pos uint64, seen bool) {
	t.Helper()
	err := j.Append(t.Context(), func(q Queue) error {
		pos, _, seen = q.Lookup(event(n).Key)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pos, seen
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func TestRecordsComeBackWholeAndInOrderAfterReopening(t *testing.T) {
	dir := t.TempDir()
	const n = 3000
	j := open(t, Options{Dir: dir, SegmentBytes: 64 << 10})
	for i := 1; i <= n; i += 10 {
		var batch []segment.Record
		for k := range 10 {
			batch = append(batch, event(i+k))
		}
		add(t, j, batch...)
		if i == n/20*10+1 {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = open(t, Options{Dir: dir, SegmentBytes: 64 << 10})
		}
	}
	live := read(t, j.Reader(1))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for what, all := range map[string][]segment.Record{"live": live, "closed": readDir(t, dir)} {
		if len(all) != n {
			t.Fatalf("%s: %d records, want %d", what, len(all), n)
		}
		for i, r := range all {
			want := event(i + 1)
			if r.Pos != uint64(i+1) || r.Key != want.Key || r.Owner != want.Owner || r.Source != want.Source || r.Seq != want.Seq ||
				r.Name != want.Name || !bytes.Equal(r.Body, want.Body) || r.Kind != segment.Deliver || !r.Expire.IsZero() {
				t.Fatalf("%s: record %d is %+v", what, i+1, r)
			}
			if i > 0 && !r.Time.After(all[i-1].Time) {
				t.Fatalf("time of %d does not rise", r.Pos)
			}
		}
	}
	if logs, _ := segment.List(dir); len(logs) < 5 {
		t.Errorf("only %d segments: the test means to cross their borders", len(logs))
	}
	j = open(t, Options{Dir: dir})
	for _, i := range []int{1, n / 2, n} {
		if pos, seen := lookup(t, j, i); !seen || pos != uint64(i) {
			t.Errorf("id %d is at %d, %v", i, pos, seen)
		}
	}
	if len(j.Damage()) > 0 {
		t.Errorf("damage after a clean close: %v", j.Damage())
	}
}

func TestManyProducersShareASyncAndKeepTheirOrder(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	var wg sync.WaitGroup
	const producers, each = 32, 50
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				add(t, j, segment.Record{Kind: segment.Deliver, Key: segment.KeyOf(fmt.Sprint(p, "-", i)), Source: fmt.Sprint(p), Seq: uint64(i + 1)})
			}
		})
	}
	wg.Wait()
	next := map[string]uint64{}
	for _, r := range read(t, j.Reader(1)) {
		if next[r.Source]++; r.Seq != next[r.Source] {
			t.Fatalf("source %s: seq %d at place %d", r.Source, r.Seq, next[r.Source])
		}
	}
	if len(next) != producers {
		t.Errorf("%d sources", len(next))
	}
	if syncs := j.Syncs(); syncs >= producers*each {
		t.Errorf("%d syncs for %d records", syncs, producers*each)
	}
}

// closedJournal makes a closed journal of n records and returns where each begins.
func closedJournal(t *testing.T, n int) (dir, path string, offsets []int64) {
	t.Helper()
	dir = t.TempDir()
	j := open(t, Options{Dir: dir})
	for i := range n {
		add(t, j, event(i+1))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	path = segment.Path(dir, 1)
	off := int64(segment.HeaderSize)
	for _, r := range readDir(t, dir) {
		offsets = append(offsets, off)
		off += int64(len(r.Append(nil)))
	}
	return dir, path, append(offsets, off)
}

func TestATornEndIsCutKeptAsideAndReportedWhereverItIsTorn(t *testing.T) {
	dir, path, offsets := closedJournal(t, 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := offsets[2] + 1; cut < offsets[3]-8; cut += 7 { // the last bytes are padding
		os.RemoveAll(dir)
		os.MkdirAll(dir, 0o700)
		torn := append(bytes.Clone(whole[:cut]), make([]byte, 4096)...)
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, Options{Dir: dir})
		if pos, _ := j.End(); pos != 2 {
			t.Fatalf("cut at %d: end is %d", cut, pos)
		}
		d := j.Damage()
		if len(d) != 1 || !d[0].Torn || d[0].Offset != offsets[2] {
			t.Fatalf("cut at %d: damage %v", cut, d)
		}
		kept, err := os.ReadFile(d[0].Kept)
		if err != nil || !bytes.HasPrefix(torn[offsets[2]:], kept) || len(kept) == 0 {
			t.Fatalf("cut at %d: kept %d bytes, %v", cut, len(kept), err)
		}
		add(t, j, event(4))
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if all := readDir(t, dir); len(all) != 3 || all[2].Key != event(4).Key || all[2].Pos != 3 {
			t.Fatalf("cut at %d: after writing on: %d records", cut, len(all))
		}
	}
}

func TestAFlippedBitLosesOneRecordIsReportedAndSparesTheRest(t *testing.T) {
	for _, field := range []int64{0, 4, 8, 40, 52, 80, 150} { // size, sum, position, key, kind, source, body
		dir, path, offsets := closedJournal(t, 5)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[offsets[2]+field] ^= 0x10
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := segment.OpenReader(dir, 1)
		if err != nil {
			t.Fatal(err)
		}
		if all := read(t, r); len(all) != 4 || all[2].Pos != 4 || len(r.Damage) != 1 || r.Damage[0].From != 3 || r.Damage[0].To != 3 {
			t.Errorf("field at %d: read %d records, damage %v", field, len(all), r.Damage)
		}
		j := open(t, Options{Dir: dir})
		if pos, _ := j.End(); pos != 5 {
			t.Errorf("field at %d: end is %d", field, pos)
		}
		d := j.Damage()
		if len(d) != 1 || d[0].Torn || d[0].From != 3 || d[0].To != 3 || d[0].Kept == "" {
			t.Errorf("field at %d: damage %v", field, d)
		}
		if _, seen := lookup(t, j, 3); seen {
			t.Errorf("field at %d: the lost record is remembered", field)
		}
		if _, seen := lookup(t, j, 5); !seen {
			t.Errorf("field at %d: a record after the damage is forgotten", field)
		}
	}
}

func TestAFailedSyncIsNotRepeatedOnTheSameFile(t *testing.T) {
	dir := t.TempDir()
	var syncs atomic.Int32
	j := open(t, Options{Dir: dir, Fault: func(step string) error {
		if step == "journal sync" && syncs.Add(1) == 3 {
			return syscall.EIO
		}
		return nil
	}})
	for i := range 5 {
		add(t, j, event(i+1))
	}
	if logs, _ := segment.List(dir); len(logs) != 2 || logs[1] != 3 {
		t.Errorf("segments begin at %v, want 1 and 3", logs)
	}
	if s := j.State(); s.Err != nil {
		t.Errorf("degraded: %v", s.Err)
	}
	if all := read(t, j.Reader(1)); len(all) != 5 || all[4].Pos != 5 {
		t.Errorf("%d records", len(all))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, Options{Dir: dir})
	if pos, _ := j.End(); pos != 5 || len(j.Damage()) > 0 {
		t.Errorf("after reopening: end %d, damage %v", pos, j.Damage())
	}
}

func TestWhileTheDiskFailsNothingIsAcknowledgedAndItResumesByItself(t *testing.T) {
	var broken atomic.Bool
	j := open(t, Options{Dir: t.TempDir(), QueueBytes: 1000, Fault: func(step string) error {
		if broken.Load() && (step == "journal write" || step == "journal create") {
			return syscall.EROFS
		}
		return nil
	}})
	add(t, j, event(1))
	broken.Store(true)
	var pos uint64
	queue := func(ctx context.Context, n int) error {
		return j.Append(ctx, func(q Queue) (err error) { pos, err = q.Add(event(n)); return err })
	}
	if err := queue(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	eventually(t, "degraded", func() bool { return errors.Is(j.State().Err, syscall.EROFS) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Wait(ctx, pos); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrDegraded) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("waiting while degraded: %v", err)
	}
	n := 3
	for ; n < 1000; n++ { // until the queue is full
		if err := queue(ctx, n); err != nil {
			if !errors.Is(err, ErrDegraded) {
				t.Fatalf("a full queue: %v", err)
			}
			break
		}
	}
	if n > 20 {
		t.Errorf("the queue of 1000 bytes took %d records", n)
	}
	blocked := make(chan error, 1)
	go func() { blocked <- queue(t.Context(), n) }()
	select {
	case err := <-blocked:
		t.Fatalf("a full queue took one more: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	broken.Store(false)
	if err := <-blocked; err != nil {
		t.Fatal(err)
	}
	if err := j.Wait(t.Context(), pos); err != nil {
		t.Fatal(err)
	}
	if s := j.State(); s.Err != nil {
		t.Errorf("still degraded: %v", s.Err)
	}
	if all := read(t, j.Reader(1)); len(all) != n {
		t.Errorf("%d records, want %d", len(all), n)
	}
}

func TestClosingWhileDegradedSaysWhatIsLost(t *testing.T) {
	j := open(t, Options{Dir: t.TempDir(), Fault: func(step string) error {
		if step == "journal create" {
			return syscall.ENOSPC
		}
		return nil
	}})
	var pos uint64
	if err := j.Append(t.Context(), func(q Queue) (err error) { pos, err = q.Add(event(1)); return err }); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- j.Wait(t.Context(), pos) }()
	eventually(t, "degraded", func() bool { return j.State().Err != nil })
	if err := j.Close(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "1 records were not written") {
		t.Errorf("Close: %v", err)
	}
	if err := <-waited; !errors.Is(err, ErrClosed) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Wait: %v", err)
	}
	if err := j.Append(t.Context(), func(Queue) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
}

func TestADiskThatIsNearlyFullIsRefusedEarlyWithHysteresis(t *testing.T) {
	dir := t.TempDir()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	free := uint64(fs.Bavail) * uint64(fs.Bsize)
	s := space.Reserve{Bytes: free * 4 / 5, Percent: 100, Inodes: 1e-9} // between the limit and one and a half of it
	d, err := s.Look(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Fits(1, space.Need{}, 0); err != nil {
		t.Errorf("above the limit: %v", err)
	}
	if err := s.Check(dir); !space.IsFull(err) {
		t.Errorf("not yet half as much again: %v", err)
	}
	s.Bytes = free * 2
	j := open(t, Options{Dir: dir, Space: s})
	ctx, cancel := context.WithCancel(t.Context())
	var pos uint64
	if err := j.Append(ctx, func(q Queue) (err error) { pos, err = q.Add(event(1)); return err }); err != nil {
		t.Fatal(err)
	}
	eventually(t, "degraded", func() bool { return j.State().Err != nil })
	cancel()
	if err := j.Wait(ctx, pos); !errors.Is(err, ErrDegraded) || !strings.Contains(err.Error(), "nearly full") {
		t.Errorf("Wait: %v", err)
	}
}

func TestRetentionDropsWholeOldSegmentsButNoUndeliveredRecordAndNoIDs(t *testing.T) {
	dir := t.TempDir()
	opt := Options{Dir: dir, SegmentBytes: 16 << 10, KeepBytes: 40 << 10}
	j := open(t, opt)
	const n = 1000
	for i := 1; i <= n; i++ {
		if i == n/2 {
			j.Delivered(200)
		}
		add(t, j, event(i))
	}
	eventually(t, "segments of delivered records are dropped", func() bool {
		logs, err := segment.List(dir)
		return err == nil && logs[0] > 100
	})
	if all := read(t, j.Reader(1)); all[0].Pos > 201 {
		t.Errorf("the oldest record is %d: an undelivered one was dropped", all[0].Pos)
	}
	if _, err := Prune(opt, n, true); !errors.Is(err, lockfile.ErrLocked) {
		t.Errorf("pruning an open journal: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	opt.Space = roomy
	before, _ := segment.List(dir)
	planned, err := Prune(opt, n, true)
	if err != nil || len(planned) == 0 {
		t.Fatalf("dry run: %v, %v", planned, err)
	}
	if after, _ := segment.List(dir); len(after) != len(before) {
		t.Error("a dry run dropped segments")
	}
	if done, err := Prune(opt, n, false); err != nil || len(done) != len(planned) {
		t.Errorf("pruned %d, planned %d, %v", len(done), len(planned), err)
	}
	j = open(t, opt)
	for _, i := range []int{1, 100, 500, n} {
		if _, seen := lookup(t, j, i); !seen {
			t.Errorf("id %d is forgotten with its segment", i)
		}
	}
	err = j.Append(t.Context(), func(q Queue) error {
		if seq := q.Seq("app\x001"); seq != n {
			t.Errorf("seq of the source is %d, want %d", seq, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasKeptAsideGoesByAgeOnceItsSegmentIsGone(t *testing.T) {
	dir := t.TempDir()
	opt := Options{Dir: dir, Space: roomy, KeepAge: time.Hour}
	j := open(t, opt)
	add(t, j, event(1))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{
		"00000000000000000001-64.torn": 2 * time.Hour, // its segment is there
		"00000000000000000005-64.torn": 2 * time.Hour,
		"00000000000000000007-64.torn": 0,
		// A crash left the first; the second may still be written.
		"00000000000000000001-64.torn.tmp-1": 2 * time.Hour, // longer than copying takes
		"00000000000000000001-64.torn.tmp-2": 0,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("bytes"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if planned, err := Prune(opt, 1, true); err != nil || len(planned) != 2 {
		t.Errorf("planned %v, %v", planned, err)
	}
	if _, err := Prune(opt, 1, false); err != nil {
		t.Fatal(err)
	}
	want := []string{"00000000000000000001-64.torn", "00000000000000000007-64.torn"}
	if left, err := segment.Torn(dir); err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %v, %v", left, err)
	}
	temps, err := filepath.Glob(filepath.Join(dir, "*.torn.tmp-*"))
	if err != nil || len(temps) != 1 || !strings.HasSuffix(temps[0], "tmp-2") {
		t.Errorf("unfinished ones left: %v, %v", temps, err)
	}
}

func TestASecondWriterIsRefusedAndToldWhoHoldsTheJournal(t *testing.T) {
	dir := t.TempDir()
	open(t, Options{Dir: dir})
	_, err := Open(Options{Dir: dir, Space: roomy})
	if !errors.Is(err, lockfile.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("second Open: %v", err)
	}
}

func TestAReaderFollowsAJournalThatGrowsAcrossSegments(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, SegmentBytes: 8 << 10})
	live := j.Reader(1)
	outside, err := segment.OpenReader(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	defer outside.Close()
	for i := 1; i <= 300; i++ {
		add(t, j, event(i))
		for what, r := range map[string]*segment.Reader{"live": live, "outside": outside} {
			rec, err := r.Next()
			if err != nil || rec.Pos != uint64(i) {
				t.Fatalf("%s: record %d: %+v, %v", what, i, rec.Pos, err)
			}
			if _, err := r.Next(); !errors.Is(err, io.EOF) {
				t.Fatalf("%s: after record %d: %v", what, i, err)
			}
		}
	}
	if rec, err := j.Reader(250).Next(); err != nil || rec.Pos != 250 {
		t.Errorf("from 250: %d, %v", rec.Pos, err)
	}
}

func TestARecordBeyondTheLimitsIsRefused(t *testing.T) {
	j := open(t, Options{Dir: t.TempDir()})
	err := j.Append(t.Context(), func(q Queue) error {
		_, err := q.Add(segment.Record{Source: strings.Repeat("x", 1<<16)})
		return err
	})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestASummaryThatIsBrokenIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	opt := Options{Dir: dir, SegmentBytes: 8 << 10}
	j := open(t, opt)
	for i := 1; i <= 200; i++ {
		add(t, j, event(i))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, opt).Close() // summaries of all full segments exist now
	paths, _ := filepath.Glob(filepath.Join(dir, "*.ids"))
	if len(paths) < 2 {
		t.Fatalf("summaries: %v", paths)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)/2] ^= 1
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j = open(t, opt)
	for _, i := range []int{1, 100, 200} {
		if pos, seen := lookup(t, j, i); !seen || pos != uint64(i) {
			t.Errorf("id %d: %d, %v", i, pos, seen)
		}
	}
}

func FuzzReadingAnySegment(f *testing.F) {
	one, two := event(1), event(2)
	one.Pos, two.Pos = 1, 2
	one.Time, two.Time = time.Unix(1, 0), time.Unix(2, 0)
	header := make([]byte, segment.HeaderSize)
	f.Add(two.Append(one.Append(bytes.Clone(header))))
	f.Add(header)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if format.Check("", raw, segment.Magic) != nil {
			return // refused as it is: TestASegmentOfANewerFormatIsRefusedAndStays
		}
		dir := t.TempDir()
		if err := os.WriteFile(segment.Path(dir, 1), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		before := readDir(t, dir)
		j := open(t, Options{Dir: dir})
		pos := add(t, j, event(3))
		all := read(t, j.Reader(1))
		if len(all) != len(before)+1 || all[len(all)-1].Pos != pos {
			t.Fatalf("%d records before, %d after", len(before), len(all))
		}
		j.Close()
	})
}

// Times rise across restarts, also where the last records of a full segment have no key.
func TestRecordsWithoutAKeyAreNotRememberedAndStillCountForTheOrder(t *testing.T) {
	dir := t.TempDir()
	opt := Options{Dir: dir, SegmentBytes: 8 << 10}
	j := open(t, opt)
	add(t, j, event(1))
	for i := 2; i <= 300; i++ {
		r := event(i)
		r.Kind, r.Key = segment.RecordOnly, segment.Key{}
		add(t, j, r)
	}
	for range 2 {
		if n, _ := j.IDs(); n != 1 {
			t.Errorf("%d ids are remembered", n)
		}
		end, last := j.End()
		if end != 300 {
			t.Errorf("the journal ends at %d", end)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open(t, opt)
		if again, at := j.End(); again != end || !at.Equal(last) {
			t.Errorf("opened again it ends at %d, %v; before at %d, %v", again, at, end, last)
		}
	}
	if pos, seen := lookup(t, j, 1); !seen || pos != 1 {
		t.Errorf("the id of the first: %d, %v", pos, seen)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*.ids"))
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.Size() > 200 {
			t.Errorf("the summary %s has %d bytes, %v", filepath.Base(path), info.Size(), err)
		}
	}
	if len(paths) < 2 {
		t.Errorf("summaries: %v", paths)
	}
}
