//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/journal"
)

// journalRecord is where a record is in its segment, found by the format as
// bridge/journal describes it and not by its code.
type journalRecord struct {
	file     string
	off, end int64 // without padding
	name     string
	id       string
}

const recordHeader = 64

// readJournal lists the records of a journal that is whole, in order.
func readJournal(t *testing.T, dir string) []journalRecord {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var all []journalRecord
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for off := recordHeader; off+recordHeader <= len(b) && b[off+52] != 0; {
			le := binary.LittleEndian
			size, source, name := int(le.Uint32(b[off:])), int(le.Uint16(b[off+48:])), int(le.Uint16(b[off+50:]))
			end := off + recordHeader + size
			if crc32.Checksum(b[off+8:end], crc32.MakeTable(crc32.Castagnoli)) != le.Uint32(b[off+4:]) {
				t.Fatalf("%s holds at %d no whole record", file, off)
			}
			start := off + recordHeader + source
			r := journalRecord{file: file, off: int64(off), end: int64(end), name: string(b[start : start+name])}
			r.id = strings.TrimSuffix(r.name[strings.LastIndex(r.name, "_")+1:], ".json")
			all = append(all, r)
			off = (end + 7) &^ 7
		}
	}
	return all
}

// undelivered makes a data folder as a kill leaves it, whose journal holds n
// events that no file was made of.
func undelivered(t *testing.T, n int) (dir string, ids []string) {
	t.Helper()
	live := t.TempDir()
	opt := inboxOf(live)
	opt.CloseTimeout = time.Millisecond
	opt.Fault = func(step string) error {
		if step == "inbox write" {
			return errors.New("no files yet")
		}
		return nil
	}
	in, err := inbox.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	for len(ids) < n {
		var items []bus.Item
		for range min(50, n-len(ids)) {
			e, r, err := faultEvent("s0", len(ids)+1, fmt.Sprintf("%012d", len(ids)))
			if err != nil {
				t.Fatal(err)
			}
			items, ids = append(items, bus.Item{Envelope: e}), append(ids, r.ID)
		}
		if _, err := in.Publish(context.Background(), items...); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	copyJournal(t, filepath.Join(live, "journal"), filepath.Join(dir, "journal"))
	in.Close() // says that much is left
	return dir, ids
}

// copyJournal copies what a kill would leave in this moment.
func copyJournal(t *testing.T, from, to string) {
	t.Helper()
	files, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(from, f.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // a summary that has got its name meanwhile
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, f.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func inboxOf(dir string) inbox.Options {
	return inbox.Options{Dir: filepath.Join(dir, "inbox"), Journal: journal.Options{Dir: filepath.Join(dir, "journal"), SegmentBytes: 64 << 10}}
}

// delivered opens an inbox, which completes what is in its journal, and returns
// the ids of what is visible and what was reported.
func delivered(t *testing.T, dir string) (ids map[string]bool, problems []string) {
	t.Helper()
	in, err := inbox.Open(inboxOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "inbox", "pending"))
	if err != nil {
		t.Fatal(err)
	}
	ids = make(map[string]bool)
	for _, f := range files {
		body, err := os.ReadFile(filepath.Join(dir, "inbox", "pending", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var e envelope
		if err := json.Unmarshal(body, &e); err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		ids[e.Header.MessageID] = true
	}
	return ids, in.Problems()
}

// spoil changes a file at an offset.
func spoil(t *testing.T, file string, off int64, change func([]byte), n int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	_, err = f.ReadAt(b, off)
	before := bytes.Clone(b)
	change(b)
	if bytes.Equal(before, b) {
		t.Fatal("nothing was changed")
	}
	_, werr := f.WriteAt(b, off)
	if err := errors.Join(err, werr, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func flip(b []byte) { b[0] ^= 1 << rand.IntN(8) }

func TestFlippedBitsInTheJournalLoseTheirRecordsAndNoOther(t *testing.T) {
	for round := range 6 * long {
		dir, ids := undelivered(t, 300)
		records := readJournal(t, filepath.Join(dir, "journal"))
		if len(records) != len(ids) {
			t.Fatalf("the journal holds %d of %d records", len(records), len(ids))
		}
		files := make(map[string]bool)
		for _, r := range records {
			files[r.file] = true
		}
		if len(files) < 3 {
			t.Fatalf("the journal has only %d segments", len(files))
		}
		hit, marks := make(map[string]bool), make(map[string][]byte)
		for range 1 + rand.IntN(8) {
			r := records[rand.IntN(len(records))]
			if hit[r.id] {
				continue // the same bit twice is no damage
			}
			hit[r.id] = true
			spoil(t, r.file, r.off+rand.Int64N(r.end-r.off), flip, 1)
			raw, err := os.ReadFile(r.file)
			if err != nil {
				t.Fatal(err)
			}
			marks[r.id] = raw[r.off:r.end]
		}
		for file := range files { // the header of a segment and a summary of its ids
			if rand.IntN(3) == 0 {
				spoil(t, file, rand.Int64N(recordHeader), flip, 1)
			}
			summary := strings.TrimSuffix(file, ".log") + ".ids"
			if info, err := os.Stat(summary); err == nil && rand.IntN(3) == 0 {
				spoil(t, summary, rand.Int64N(info.Size()), flip, 1)
			}
		}
		got, problems := delivered(t, dir)
		for _, id := range ids {
			if got[id] == hit[id] {
				t.Errorf("round %d: record %s was damaged: %v, delivered: %v", round, id, hit[id], got[id])
			}
		}
		if len(problems) == 0 {
			t.Errorf("round %d: nothing was reported", round)
		}
		kept := keptAside(t, dir, "*.torn", "*.log") // what was not cut is still in its segment
		for id, bytesOf := range marks {
			if !bytes.Contains(kept, bytesOf) {
				t.Errorf("round %d: the damaged bytes of %s are gone", round, id)
			}
		}
		opt := inboxOf(dir)
		report, err := audit.Verify(audit.Folders{Inbox: opt.Dir, Journal: opt.Journal.Dir})
		if err != nil {
			t.Fatal(err)
		}
		if last := ids[len(ids)-1]; report.OK() && !(len(hit) == 1 && hit[last]) {
			t.Errorf("round %d: verify finds no fault, lost are %v", round, slices.Sorted(maps.Keys(hit)))
		}
		if t.Failed() {
			t.Fatalf("problems: %q\nfindings: %+v", problems, report.Findings)
		}
	}
}

// keptAside is what the files of a journal hold.
func keptAside(t *testing.T, dir string, patterns ...string) (all []byte) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, "journal", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
	}
	return all
}

// A torn end is what a crash leaves of a batch that was not acknowledged.
func TestATornEndOfTheJournalIsCutAndKept(t *testing.T) {
	for round := range 6 * long {
		dir, ids := undelivered(t, 120)
		records := readJournal(t, filepath.Join(dir, "journal"))
		torn := records[len(records)-1-rand.IntN(5)]
		at := torn.off + 8 + rand.Int64N(torn.end-torn.off-8) // something of it is there
		f, err := os.OpenFile(torn.file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if rand.IntN(2) == 0 { // the file ends there, or zeros follow
			err = f.Truncate(at)
		} else {
			_, err = f.WriteAt(make([]byte, info.Size()-at), at)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		got, problems := delivered(t, dir)
		for i, id := range ids {
			whole := records[i].file < torn.file || records[i].file == torn.file && records[i].off < torn.off
			if records[i].file > torn.file {
				continue // in a segment behind it, so it was not the end
			}
			if got[id] != whole {
				t.Errorf("round %d: torn at %s, %s delivered: %v", round, torn.id, id, got[id])
			}
		}
		if !strings.Contains(strings.Join(problems, "\n"), filepath.Base(torn.file)) || len(keptAside(t, dir, "*.torn")) == 0 {
			t.Errorf("round %d: a torn end was not reported or not kept: %q", round, problems)
		}
		if t.Failed() {
			return
		}
		// It takes events again, and those that were cut are no duplicates.
		in, err := inbox.Open(inboxOf(dir))
		if err != nil {
			t.Fatal(err)
		}
		for k, id := range ids {
			e, _, err := faultEvent("s0", k+1, id)
			if err != nil {
				t.Fatal(err)
			}
			receipts, err := in.Publish(context.Background(), bus.Item{Envelope: e})
			if err != nil {
				t.Fatal(err)
			}
			if known := receipts[0].Status == bus.Duplicate; known != got[id] {
				t.Errorf("round %d: %s was delivered: %v, known: %v", round, id, got[id], known)
			}
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The clock of a machine cannot be set for one process alone, so the journal is
// given the times of a clock that was wrong, before the next start.
func TestAClockThatWasWrongKeepsOrderAndMemory(t *testing.T) {
	for name, by := range map[string]time.Duration{"a year ahead": 365 * 24 * time.Hour, "two days behind": -48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir, ids := undelivered(t, 200)
			summaries, err := filepath.Glob(filepath.Join(dir, "journal", "*.ids"))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range summaries { // they are made anew
				if err := os.Remove(s); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range readJournal(t, filepath.Join(dir, "journal")) {
				spoil(t, r.file, r.off, func(b []byte) {
					le := binary.LittleEndian
					le.PutUint64(b[16:], le.Uint64(b[16:])+uint64(by))
					le.PutUint32(b[4:], crc32.Checksum(b[8:], crc32.MakeTable(crc32.Castagnoli)))
				}, int(r.end-r.off))
			}
			in, err := inbox.Open(inboxOf(dir))
			if err != nil {
				t.Fatal(err)
			}
			all := slices.Clone(ids)
			for k := range 300 {
				id := fmt.Sprintf("%012d", k)
				e, _, err := faultEvent("s0", k+1, id)
				if err != nil {
					t.Fatal(err)
				}
				receipts, err := in.Publish(context.Background(), bus.Item{Envelope: e})
				if err != nil {
					t.Fatal(err)
				}
				if known := receipts[0].Status == bus.Duplicate; known != (k < len(ids)) {
					t.Errorf("event %s is known: %v", id, known)
				}
				if k >= len(ids) {
					all = append(all, id)
				}
			}
			// An event without an id gets one that rises, whatever the clock says.
			last := ""
			for range 3 {
				e, _, err := faultEvent("s1", 1, "")
				if err != nil {
					t.Fatal(err)
				}
				receipts, err := in.Publish(context.Background(), bus.Item{Envelope: e})
				if err != nil {
					t.Fatal(err)
				}
				if receipts[0].ID <= last {
					t.Errorf("id %s after %s", receipts[0].ID, last)
				}
				last = receipts[0].ID
				all = append(all, last)
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			c := &consumer{spec: consumerSpec{Inbox: filepath.Join(dir, "inbox")}}
			found, err := c.inOrder("pending", time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range found {
				if i >= len(all) || !strings.HasSuffix(v.name, "_"+all[i]+".json") {
					t.Fatalf("file %d is %s", i, v.name)
				}
			}
			if len(found) != len(all) {
				t.Errorf("%d files, want %d", len(found), len(all))
			}
		})
	}
}

// A million files that nobody takes must not be in the way.
func TestAFolderWithManyFilesStaysUsable(t *testing.T) {
	const most = 999_000 // at a million the platform holds events back
	n := min(100_000*long, most)
	asRoot(t, "mkfs.ext4")
	p := &platform{t: t, data: filepath.Join(newDiskFor(t, "ext4", "", n).dir, "data")}
	emitter(t, p, map[string]string{"EMIT_MAX": "20"})
	manyFiles(t, filepath.Join(p.data, "kernel", "inbox", "pending"), n)

	begun := time.Now()
	p.run()
	p.ready(1, time.Minute)
	up := time.Since(begun)
	var listed struct {
		Events []struct{ Type, ID string }
	}
	begun = time.Now()
	until(t, time.Minute, "new events among the old ones", func() (bool, any) {
		p.verbJSON(&listed, "inbox", "ls", "-n", "50")
		events := 0
		for _, e := range listed.Events {
			if e.Type == "test.event" {
				events++
			}
		}
		return events == 20, events
	})
	list := time.Since(begun)
	if len(listed.Events) != 50 {
		t.Errorf("a page of 50 has %d events", len(listed.Events))
	}
	var stats map[string]struct {
		Files int
		Types map[string]int
	}
	begun = time.Now()
	p.verbJSON(&stats, "inbox", "stats")
	count := time.Since(begun)
	if s := stats["pending"]; s.Files < n+20 || s.Types["old.event"] != n || s.Types["test.event"] != 20 {
		t.Errorf("stats of pending: %+v", s)
	}
	t.Logf("%d files: up and ready in %v, listed in %v, counted in %v", n, up.Round(time.Millisecond), list.Round(time.Millisecond), count.Round(time.Millisecond))
	for what, took := range map[string]time.Duration{"starting": up, "listing": list, "counting": count} {
		if took > time.Minute {
			t.Errorf("%s took %v", what, took)
		}
	}
}

// manyFiles makes n old events.
func manyFiles(t *testing.T, pending string, n int) {
	t.Helper()
	if err := os.MkdirAll(pending, 0o700); err != nil {
		t.Fatal(err)
	}
	var makers sync.WaitGroup
	errs := make([]error, 2)
	for m := range errs {
		makers.Go(func() {
			for i := m; i < n && errs[m] == nil; i += len(errs) {
				e, _, err := faultEvent("old", 1, fmt.Sprintf("%012d", i))
				if err == nil {
					e.Header.Seq, e.Payload.Type = uint64(i+1), "old.event"
					var body []byte
					if body, err = e.Encode(); err == nil {
						err = os.WriteFile(filepath.Join(pending, fmt.Sprintf("event_old.event_%012d.json", i)), body, 0o600)
					}
				}
				errs[m] = err
			}
		})
	}
	makers.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
