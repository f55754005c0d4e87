//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// verdict is what a run came to. All but the first three must be zero.
type verdict struct {
	Tried, Acked, Delivered int

	Lost           int // acknowledged, and no effect
	Twice          int // two effects of one id
	PublishedTwice int // visible again after its effect
	Order          int // a seq not above the one before, of one source
	Differ         int // other bytes than were published
	Unknown        int // never tried
	Partial        int // seen in pending/ and not whole
	Left           int // still in pending/ or processing/
	Failed         int
	Stray          int // a name that no event has

	Examples []string
}

func (v *verdict) bad(count *int, format string, args ...any) {
	if *count++; len(v.Examples) < 20 {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

func (v *verdict) clean() bool {
	return v.Lost+v.Twice+v.PublishedTwice+v.Order+v.Differ+v.Unknown+v.Partial+v.Left+v.Failed+v.Stray == 0
}

func (v *verdict) counts() string {
	return fmt.Sprintf("%d tried, %d acknowledged, %d delivered: %d lost, %d twice, %d published twice, %d out of order, %d differ, %d unknown, %d partial, %d left, %d failed, %d stray",
		v.Tried, v.Acked, v.Delivered, v.Lost, v.Twice, v.PublishedTwice, v.Order, v.Differ, v.Unknown, v.Partial, v.Left, v.Failed, v.Stray)
}

func (v *verdict) String() string {
	return strings.Join(append([]string{v.counts()}, v.Examples...), "\n  ")
}

// judge holds what a consumer was given against what the producer said. After a
// power cut a consumer's own moves may be undone, which claimsUndone allows.
func judge(inbox, emitted string, partial []string, claimsUndone bool) (*verdict, error) {
	v := &verdict{}
	records, err := readRecords(emitted)
	if err != nil {
		return nil, err
	}
	tried, acked := make(map[string]record), make(map[string]bool)
	for _, r := range records {
		switch r.Ev {
		case "ack":
			acked[r.ID] = true
		case "try":
			if _, again := tried[r.ID]; !again {
				tried[r.ID] = r
			}
		}
	}
	v.Tried, v.Acked = len(tried), len(acked)

	raw, err := os.ReadFile(filepath.Join(inbox, "delivered.log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	effects, last := make(map[string]int), make(map[string]int)
	for line := range bytes.Lines(raw) {
		var d delivery
		if err := json.Unmarshal(line, &d); err != nil {
			return nil, fmt.Errorf("delivered.log: %w", err)
		}
		v.Delivered++
		if effects[d.ID]++; effects[d.ID] > 1 {
			v.bad(&v.Twice, "two effects of %s", d.ID)
		}
		r, known := tried[d.ID]
		switch {
		case !known:
			v.bad(&v.Unknown, "%s was never tried", d.ID)
			continue
		case r.SHA != d.SHA || r.Source != d.Source || r.Seq != d.Seq:
			v.bad(&v.Differ, "%s is %+v, published was %+v", d.ID, d, r)
		}
		if d.Seq <= last[d.Source] {
			v.bad(&v.Order, "seq %d of %s after %d", d.Seq, d.Source, last[d.Source])
		}
		last[d.Source] = max(last[d.Source], d.Seq)
	}
	for id := range acked {
		if effects[id] == 0 {
			v.bad(&v.Lost, "%s was acknowledged and is lost", id)
		}
	}
	for _, name := range partial {
		v.bad(&v.Partial, "%s was visible and not whole", name)
	}
	if !claimsUndone {
		dups, err := os.ReadFile(filepath.Join(inbox, "dups.log"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for name := range strings.Lines(string(dups)) {
			v.bad(&v.PublishedTwice, "%s came back", strings.TrimSpace(name))
		}
	}
	return v, v.folders(inbox)
}

func (v *verdict) folders(inbox string) error {
	for _, folder := range []string{"pending", "processing", "done", "failed"} {
		entries, err := os.ReadDir(filepath.Join(inbox, folder))
		if err != nil {
			return err
		}
		for _, e := range entries {
			switch {
			case folder == "failed":
				v.bad(&v.Failed, "failed: %s", e.Name())
			case !strings.HasPrefix(e.Name(), "event_") || !strings.HasSuffix(e.Name(), ".json"):
				v.bad(&v.Stray, "stray: %s", e.Name())
			case folder != "done":
				v.bad(&v.Left, "left in %s: %s", folder, e.Name())
			}
		}
	}
	return nil
}

// watcher opens every file as soon as it is visible and remembers those that
// are not whole.
type watcher struct {
	stop    chan struct{}
	once    sync.Once
	done    sync.WaitGroup
	checked int
	partial []string
}

func watch(inbox string) *watcher {
	w := &watcher{stop: make(chan struct{})}
	w.done.Go(func() {
		known := make(map[string]bool)
		for {
			known = w.look(filepath.Join(inbox, "pending"), known)
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	return w
}

func (w *watcher) look(pending string, known map[string]bool) map[string]bool {
	d, err := os.Open(pending)
	if err != nil {
		return known // not there, or the disk is gone
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return known
	}
	now := make(map[string]bool, len(names))
	for _, name := range names {
		now[name] = true
		if known[name] {
			continue
		}
		body, err := os.ReadFile(filepath.Join(pending, name))
		if err != nil {
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EIO) || errors.Is(err, unix.ESHUTDOWN) {
				continue // claimed, or the disk is gone
			}
			w.partial = append(w.partial, fmt.Sprint(name, ": ", err))
			continue
		}
		w.checked++
		var e envelope
		if json.Unmarshal(body, &e) != nil || !strings.HasSuffix(name, "_"+e.Header.MessageID+".json") {
			w.partial = append(w.partial, fmt.Sprintf("%s (%d bytes)", name, len(body)))
		}
	}
	return now
}

// end stops watching and returns what was seen that was not whole.
func (w *watcher) end() []string {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
	return w.partial
}

// independent is the path of a program that judges or consumes an inbox and that
// nobody here wrote, or "" where it or Python is not at hand.
func independent(name string) string {
	path := filepath.Join(root, "..", "shared", "inbox", name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	if _, err := exec.LookPath("python3"); err != nil {
		return ""
	}
	return path
}

// secondOpinion asks the independent judge; asked is false where there is none.
func secondOpinion(inbox, emitted string, claimsUndone bool) (clean, asked bool, text string) {
	path := independent("verify.py")
	if path == "" {
		return false, false, "there is no independent judge here"
	}
	args := []string{path, "check", inbox, emitted}
	if claimsUndone {
		args = append(args, "--dups-ok")
	}
	out, err := exec.Command("python3", args...).CombinedOutput()
	return err == nil, true, string(out)
}

// verdictOf is our verdict; the independent judge must come to the same.
func verdictOf(t *testing.T, inbox, emitted string, partial []string, claimsUndone bool) *verdict {
	t.Helper()
	v, err := judge(inbox, emitted, partial, claimsUndone)
	if err != nil {
		t.Fatal(err)
	}
	clean, asked, text := secondOpinion(inbox, emitted, claimsUndone)
	// It sees files that are not whole only where its own watcher runs.
	if asked && clean != v.clean() && v.Partial == 0 {
		t.Errorf("the judges disagree; ours: %v\nthe other: %s", v, text)
	}
	if !asked {
		t.Log(text)
	}
	return v
}

func TestTheJudgeSeesEachKindOfFault(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string, log []string) []string{
		"lost":         func(_ *testing.T, _ string, log []string) []string { return append(log[:3:3], log[4:]...) },
		"twice":        func(_ *testing.T, _ string, log []string) []string { return append(log, log[0]) },
		"out of order": func(_ *testing.T, _ string, log []string) []string { log[2], log[4] = log[4], log[2]; return log },
		"other bytes": func(_ *testing.T, _ string, log []string) []string {
			log[5] = strings.Replace(log[5], `"sha":"`, `"sha":"0`, 1)
			return log
		},
		"never tried": func(_ *testing.T, _ string, log []string) []string {
			return append(log, strings.Replace(log[0], `"id":"`, `"id":"x`, 1))
		},
		"published twice": func(t *testing.T, dir string, log []string) []string { plant(t, dir, "dups.log"); return log },
		"left": func(t *testing.T, dir string, log []string) []string {
			plant(t, dir, "pending/event_a_1.json")
			return log
		},
		"claimed": func(t *testing.T, dir string, log []string) []string {
			plant(t, dir, "processing/event_a_1.json")
			return log
		},
		"failed": func(t *testing.T, dir string, log []string) []string {
			plant(t, dir, "failed/event_a_1.json")
			return log
		},
		"stray": func(t *testing.T, dir string, log []string) []string {
			plant(t, dir, "done/event_a_1.json.tmp")
			return log
		},
		"nothing wrong": func(_ *testing.T, _ string, log []string) []string { return log },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{"pending", "processing", "done", "failed"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var emitted, log []string
			for i := range 8 {
				_, r, err := faultEvent(fmt.Sprint("s", i%2), i/2+1, fmt.Sprintf("%012d", i))
				if err != nil {
					t.Fatal(err)
				}
				for _, r.Ev = range []string{"try", "ack"} {
					emitted = append(emitted, line(t, r))
				}
				log = append(log, line(t, delivery{r.ID, r.Source, r.Seq, r.SHA}))
			}
			log = spoil(t, dir, log)
			file := filepath.Join(dir, "emitted")
			for path, lines := range map[string][]string{file: emitted, filepath.Join(dir, "delivered.log"): log} {
				if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if v := verdictOf(t, dir, file, nil, false); v.clean() != (name == "nothing wrong") {
				t.Errorf("the judge says: %v", v)
			}
		})
	}
}

func TestTheWatcherSeesAFileThatIsWrittenInPlace(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pending"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := watch(dir)
	plant(t, dir, "pending/event_test_1.json") // not whole
	until(t, 10*time.Second, "the watcher saw the file", func() (bool, any) {
		w.end()
		seen := len(w.partial) > 0
		if !seen {
			w = watch(dir)
		}
		return seen, w.checked
	})
}

func plant(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("{\"header\":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func line(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}
