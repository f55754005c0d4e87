package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

func flip(t *testing.T, path string, at int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 1
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(raw[at:at+1], int64(at))
	if err := errors.Join(err, f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

func findings(r *audit.Report, what string) (found []audit.Finding) {
	for _, f := range r.Findings {
		if f.What == what {
			found = append(found, f)
		}
	}
	return found
}

func TestRepairPutsBrokenFilesRightBesideARunningPlatform(t *testing.T) {
	for _, running := range []bool{true, false} {
		opt := options(t.TempDir())
		x := open(t, opt)
		names := publish(t, x, 6)
		eventually(t, "visible", func() bool { return settled(x) })
		if err := os.Rename(filepath.Join(opt.Dir, queue.Pending, names[3]), filepath.Join(opt.Dir, queue.Done, names[3])); err != nil {
			t.Fatal(err)
		}
		paths := []string{filepath.Join(opt.Dir, queue.Pending, names[1]), filepath.Join(opt.Dir, queue.Done, names[3])}
		var sound, broken [][]byte
		var times []time.Time
		for _, path := range paths {
			body, err1 := os.ReadFile(path)
			info, err2 := os.Stat(path)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			sound, times = append(sound, body), append(times, info.ModTime())
			flip(t, path, len(body)/2)
			if body, err1 = os.ReadFile(path); err1 != nil {
				t.Fatal(err1)
			}
			broken = append(broken, body)
		}
		if !running {
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if r := verify(t, opt); r.Faults != 2 || len(findings(r, "changed")) != 2 || len(files(t, opt, queue.Rejected)) > 0 {
			t.Fatalf("before: %+v", r.Findings)
		}
		r, err := audit.Repair(places(opt))
		if err != nil || !r.OK() || r.Repaired != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		kept := files(t, opt, queue.Rejected)
		if len(kept) != 2 {
			t.Fatalf("kept %v", kept)
		}
		for i, path := range paths {
			body, err1 := os.ReadFile(path)
			info, err2 := os.Stat(path)
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(body, sound[i]) || !info.ModTime().Equal(times[i]) {
				t.Errorf("%s: %q of %v, %v; want that of %v", path, body, info.ModTime(), err, times[i])
			}
			if !slices.ContainsFunc(kept, func(name string) bool {
				b, err := os.ReadFile(filepath.Join(opt.Dir, queue.Rejected, name))
				return err == nil && bytes.Equal(b, broken[i]) && strings.Contains(findings(r, "changed")[0].Text+findings(r, "changed")[1].Text, name)
			}) {
				t.Errorf("what was in %s is not kept where it says", path)
			}
		}
		if r := verify(t, opt); !r.OK() || len(findings(r, "changed")) > 0 {
			t.Errorf("after: %+v", r.Findings)
		}
		if running {
			if _, err := x.Publish(t.Context(), bus.Item{Envelope: bustest.Event("app", "test.event", 9)}); err != nil {
				t.Error(err)
			}
			eventually(t, "visible", func() bool { return settled(x) })
			if got := files(t, opt, queue.Pending); len(got) != 6 { // five of before, and the new one
				t.Errorf("pending %v", got)
			}
			eventually(t, "counted", func() bool { return x.Counters().Pending == 6 })
		}
	}
}

func TestARepairLeavesAnEventAloneThatTheBrainTakesMeanwhile(t *testing.T) {
	opt := options(t.TempDir())
	x := open(t, opt)
	names := publish(t, x, 1)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(opt.Dir, queue.Pending, names[0])); err != nil {
		t.Fatal(err)
	}
	_, err := folders.Exchange(opt.Dir, queue.Pending, names[0], []byte("{}"), time.Now())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for _, folder := range []string{queue.Pending, queue.Rejected} {
		if got := files(t, opt, folder); len(got) > 0 {
			t.Errorf("%s holds %v", folder, got)
		}
	}
}

func TestRepairKeepsWhatIsDamagedInASealedSegmentAside(t *testing.T) {
	opt := options(t.TempDir())
	opt.Journal.SegmentBytes = 4 << 10
	x := open(t, opt)
	names := publish(t, x, 40)
	eventually(t, "visible", func() bool { return settled(x) })
	logs, err := filepath.Glob(filepath.Join(opt.Journal.Dir, "*.log"))
	if err != nil || len(logs) < 3 {
		t.Fatal(logs, err)
	}
	raw, err := os.ReadFile(logs[1])
	if err != nil {
		t.Fatal(err)
	}
	flip(t, logs[1], bytes.Index(raw, []byte(`"payload"`)))
	torn := func() []string {
		found, err := segment.Torn(opt.Journal.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	lost := func(r *audit.Report) audit.Finding {
		t.Helper()
		if found := findings(r, "lost_record"); len(found) == 1 && r.Faults == 1 {
			return found[0]
		}
		t.Fatalf("%+v", r.Findings)
		return audit.Finding{}
	}
	r := verify(t, opt)
	if f := lost(r); !strings.Contains(f.Text, "--repair") || len(torn()) > 0 {
		t.Errorf("%s, kept %v", f.Text, torn())
	}
	if left := findings(r, "unrecorded"); len(left) != 1 || !slices.Contains(names, left[0].Name) {
		t.Errorf("the file of the lost record: %+v", left)
	}
	for range 2 { // the second time it is there already
		r, err := audit.Repair(places(opt))
		if err != nil {
			t.Fatal(err)
		}
		kept := torn()
		if len(kept) != 1 || !strings.Contains(lost(r).Text, "kept in "+kept[0]) {
			t.Fatalf("%s, kept %v", lost(r).Text, kept)
		}
		damaged, err := os.ReadFile(logs[1])
		if err != nil {
			t.Fatal(err)
		}
		body, err := os.ReadFile(filepath.Join(opt.Journal.Dir, kept[0]))
		if err != nil || len(body) == 0 || !bytes.Contains(damaged, body) || bytes.Contains(raw, body) {
			t.Errorf("kept %q, %v", body, err)
		}
	}
	if f := lost(verify(t, opt)); !strings.Contains(f.Text, "kept in") {
		t.Error(f.Text)
	}
	if got := len(files(t, opt, queue.Pending)); got != 40 {
		t.Errorf("%d pending", got)
	}
}

func TestAnOlderCopyOfOtherBytesIsNotTakenForTheDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "00000000000000000001.log"), bytes.Repeat([]byte("segment "), 50), 0o600); err != nil {
		t.Fatal(err)
	}
	d := segment.Damage{Segment: "00000000000000000001.log", Offset: 64, Bytes: 80}
	path := filepath.Join(dir, d.TornName())
	for _, before := range []string{"something else", strings.Repeat("segment ", 10) + "and more"} {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.Keep(dir); err != nil || d.Kept != path {
			t.Fatal(d.Kept, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != strings.Repeat("segment ", 10) {
			t.Errorf("kept %q, %v", got, err)
		}
	}
}

func TestADamagedSummaryIsFoundAndDoesNotKeepThePlatformFromStarting(t *testing.T) {
	opt := options(t.TempDir())
	opt.Journal.SegmentBytes = 4 << 10
	x := open(t, opt)
	publish(t, x, 40)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, opt).Close() // summaries of all full segments exist now
	ids, err := filepath.Glob(filepath.Join(opt.Journal.Dir, "*.ids"))
	if err != nil || len(ids) < 3 {
		t.Fatal(ids, err)
	}
	flip(t, ids[0], 60)
	flip(t, ids[1], 60)
	if err := os.Remove(strings.TrimSuffix(ids[0], ".ids") + ".log"); err != nil { // as its age would
		t.Fatal(err)
	}
	found := findings(verify(t, opt), "summary")
	if len(found) != 2 || found[0].Name != filepath.Base(ids[0]) || !strings.Contains(found[0].Text, "forgets") || !strings.Contains(found[1].Text, "anew") {
		t.Errorf("%+v", found)
	}
	x = open(t, opt)
	if p := x.Problems(); len(p) != 1 || !strings.Contains(p[0], filepath.Base(ids[0])) || !strings.Contains(p[0], "forgotten") {
		t.Errorf("problems %q", p)
	}
	publish(t, x, 1)
	eventually(t, "visible", func() bool { return settled(x) })
	r := verify(t, opt)
	if len(findings(r, "summary")) > 0 {
		t.Errorf("%+v", r.Findings)
	}
	if kept := findings(r, "torn"); len(kept) != 1 || !strings.Contains(kept[0].Name, "-0.torn") {
		t.Errorf("kept %+v", kept)
	}
}

func TestAnIDThatIsUsedAgainBeyondTheMemoryIsNoDamage(t *testing.T) {
	opt := options(t.TempDir())
	opt.Journal.MaxIDs = 1
	x := open(t, opt)
	path := filepath.Join(opt.Dir, queue.Pending, publishAs(t, x, "report", 1))
	for i := range 5 { // batches
		publishAs(t, x, fmt.Sprint("other", i), i)
		if err := x.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path); err != nil { // the Brain took it
		t.Fatal(err)
	}
	publishAs(t, x, "report", 2)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := audit.Repair(places(opt))
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Repaired != 0 || r.Taken != 1 {
		t.Errorf("%d faults, %d repaired, %d taken: %+v", r.Faults, r.Repaired, r.Taken, r.Findings)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file is %s, %v", got, err)
	}
	// Where it is of none of the two, it is made as the last one says.
	flip(t, path, len(want)-4)
	if r, err = audit.Repair(places(opt)); err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Repaired != 1 || r.Taken != 1 {
		t.Errorf("%d faults, %d repaired, %d taken: %+v", r.Faults, r.Repaired, r.Taken, r.Findings)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("mended it is %s, %v", got, err)
	}
}

// publishAs publishes an event with an id and returns the name of its file.
func publishAs(t *testing.T, x *Inbox, id string, n int) string {
	t.Helper()
	e := bustest.Event("app", "test.event", n)
	e.Header.MessageID = id
	if _, err := x.Publish(t.Context(), bus.Item{Envelope: e}); err != nil {
		t.Fatal(err)
	}
	return amp.FileName(e.Payload.Type, id)
}
