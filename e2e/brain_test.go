//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// brain is examples/brain/brain.py as a process.
type brain struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its words are read

	mu   sync.Mutex
	said []string
}

func startBrain(t *testing.T, p *platform) *brain {
	t.Helper()
	b := &brain{cmd: exec.Command("python3", filepath.Join(root, "examples/brain/brain.py"), p.data), done: make(chan struct{})}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.cmd.Stderr = b.cmd.Stdout
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			b.mu.Lock()
			b.said = append(b.said, s.Text())
			b.mu.Unlock()
		}
		b.cmd.Wait()
	}()
	t.Cleanup(func() {
		b.kill()
		if t.Failed() {
			t.Logf("the Brain said:\n%s", strings.Join(b.words(), "\n"))
		}
	})
	return b
}

func (b *brain) kill() {
	b.cmd.Process.Kill()
	<-b.done
}

func (b *brain) words() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.said)
}

// files are the names of the events in one folder of the inbox.
func (p *platform) files(folder, pattern string) []string {
	p.t.Helper()
	all, err := filepath.Glob(filepath.Join(p.data, "kernel/inbox", folder, pattern))
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// entries is what the diary holds.
func (p *platform) entries() string {
	out, err := p.verb("call", "mcp__diary__list_entries")
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func TestTheBrainOfTheDocsCallsByAPIAndByOutboxAndAcknowledges(t *testing.T) {
	p := start(t, ownApps(t))
	p.ready(3, time.Minute)
	b := startBrain(t, p)

	if _, err := p.verb("call", "mcp__clock__create_timer", `{"duration":"1s","label":"tea"}`); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "an answer by outbox", func() (bool, any) {
		said := b.words()
		return slices.ContainsFunc(said, func(line string) bool {
			return strings.HasPrefix(line, "the answer to brain-") && strings.Contains(line, "weekday")
		}), said
	})
	if got := p.entries(); !strings.Contains(got, "timer: tea") {
		t.Errorf("the diary has no entry by the Brain:\n%s", got)
	}
	until(t, time.Minute, "every event acknowledged", func() (bool, any) {
		left := append(p.files("pending", "event_*"), p.files("processing", "event_*")...)
		return len(left) == 0, left
	})
	if failed := p.files("failed", "*"); len(failed) > 0 {
		t.Errorf("the Brain could not handle %v", failed)
	}

	entrances := map[string]string{}
	for _, file := range p.files("done", "event_tool.completed_*.json") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Header struct {
				CorrelationID string `json:"correlation_id"`
			}
			Payload struct {
				Data struct{ Tool, Entrance string }
			}
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		entrances[e.Payload.Data.Tool] = e.Payload.Data.Entrance
		if e.Payload.Data.Entrance == "outbox" && !strings.HasPrefix(e.Header.CorrelationID, "brain-") {
			t.Errorf("the answer by outbox has the correlation_id %q", e.Header.CorrelationID)
		}
	}
	for tool, want := range map[string]string{
		"im.polaris.diary.write_entry": "api",
		"im.polaris.clock.get_time":    "outbox",
	} {
		if got := entrances[tool]; got != want {
			t.Errorf("%s was called by %q, want %q", tool, got, want)
		}
	}
	if rung := p.files("done", "event_timer.triggered_*.json"); len(rung) != 1 {
		t.Errorf("acknowledged timers: %v", rung)
	}
	if requests, err := os.ReadDir(filepath.Join(p.data, "kernel/outbox/done")); err != nil || len(requests) != 1 {
		t.Errorf("finished requests: %v, %v", requests, err)
	}
}

// A Brain that died after acting and before acknowledging meets the event again.
func TestTheBrainOfTheDocsDoesNothingTwiceAfterACrash(t *testing.T) {
	p := start(t, ownApps(t))
	p.ready(3, time.Minute)
	b := startBrain(t, p)
	if _, err := p.verb("call", "mcp__clock__create_timer", `{"duration":"1s","label":"once"}`); err != nil {
		t.Fatal(err)
	}
	var rung string
	until(t, time.Minute, "the timer acknowledged", func() (bool, any) {
		files := p.files("done", "event_timer.triggered_*.json")
		if len(files) == 1 {
			rung = files[0]
		}
		return len(files) == 1, files
	})
	b.kill()
	claimed := filepath.Join(p.data, "kernel/inbox/processing", filepath.Base(rung))
	if err := os.Rename(rung, claimed); err != nil { // as if it had died between the two
		t.Fatal(err)
	}
	startBrain(t, p)
	until(t, time.Minute, "the timer acknowledged again", func() (bool, any) {
		files := p.files("done", "event_timer.triggered_*.json")
		return len(files) == 1, files
	})
	out, err := p.verb("call", "mcp__diary__read_entry", `{"date":"`+time.Now().UTC().Format(time.DateOnly)+`"}`)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "timer: once"); n != 1 {
		t.Errorf("the diary has it %d times:\n%s", n, out)
	}
}

// What a server says is in its events, and Python reads no JSON of any depth.
func TestTheInboxOfTheDocsOutlivesWhatPythonCannotRead(t *testing.T) {
	inbox := t.TempDir()
	pending := filepath.Join(inbox, "pending")
	if err := os.Mkdir(pending, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"event_a_deep.json":   strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"event_a_digits.json": strings.Repeat("9", 100_000),
		"event_a_good.json":   "1",
	} {
		text := `{"header":{"message_id":"x"},"payload":{"type":"a","data":{"n":` + data + `}}}`
		if err := os.WriteFile(filepath.Join(pending, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runPython(t, "from inbox import Inbox\nimport sys\nwith Inbox(sys.argv[1], alone=True) as inbox:\n"+
		" for event in inbox.claim(9, wait=0): inbox.ack(event)", inbox)
	for _, file := range []string{"done/event_a_good.json", "failed/event_a_deep.json", "failed/event_a_digits.json"} {
		if _, err := os.Stat(filepath.Join(inbox, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheFeedOfTheDocsGivesGroupsTheirNumbers(t *testing.T) {
	out := runPython(t, `from feed import fit
for group in "-100123", -5, "7", "²", "x", None, True:
    print(fit({"payload": {"type": "message.received", "data": {"group_id": group}}})["payload"]["data"]["group_id"])`)
	if got := strings.Join(strings.Fields(out), " "); got != "-100123 -5 7 None None None None" {
		t.Errorf("the groups are %s", got)
	}
}

func TestTheFeedOfTheDocsGoesOnWhereSomebodyElseTakesAnEvent(t *testing.T) {
	inbox := filepath.Join(t.TempDir(), "kernel/inbox")
	for _, folder := range []string{"pending", "processing", "done", "failed"} {
		if err := os.MkdirAll(filepath.Join(inbox, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pending := filepath.Join(inbox, "pending")
	for _, id := range []string{"a", "b", "c"} {
		text := `{"header":{"message_id":"` + id + `"},"payload":{"type":"x"}}`
		if err := os.WriteFile(filepath.Join(pending, "event_x_"+id+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// One is listed and was never there; the first to be handed over takes the next.
	if err := os.Symlink("nowhere", filepath.Join(pending, "event_x_0.json")); err != nil {
		t.Fatal(err)
	}
	runPython(t, `import asyncio, sys
from feed import feed
from pathlib import Path
inbox, got = Path(sys.argv[1]) / "kernel/inbox", []
async def inject(envelope):
    got.append(envelope["header"]["message_id"])
    if len(got) == 1:
        next(path for path in (inbox / "pending").glob("event_x_?.json") if path.exists()).unlink()
    if len(got) == 2:
        raise asyncio.CancelledError
try:
    asyncio.run(feed(sys.argv[1], inject))
except asyncio.CancelledError:
    pass`, filepath.Dir(filepath.Dir(inbox)))
}

func TestEventsThatAreNotTakenAreFedAgainLater(t *testing.T) {
	data := t.TempDir()
	inbox := filepath.Join(data, "kernel/inbox")
	for _, folder := range []string{"pending", "processing", "done", "failed"} {
		if err := os.MkdirAll(filepath.Join(inbox, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		text := `{"header":{"message_id":"` + id + `"},"payload":{"type":"x"}}`
		if id == "d" {
			text = `{"header"`
		}
		if err := os.WriteFile(filepath.Join(inbox, "pending/event_x_"+id+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := runPython(t, `import asyncio, sys
from feed import feed
tries = []
async def inject(envelope):
    tries.append(envelope["header"]["message_id"])
    if len(tries) <= 4:
        raise OSError("the bus is down")
    if len(set(tries[4:])) == 3:
        asyncio.get_running_loop().call_soon(task.cancel)
async def main():
    global task
    task = asyncio.create_task(feed(sys.argv[1], inject, pause=0.01, first=0.02, longest=0.05))
    await asyncio.wait([task])
asyncio.run(main())`, data)
	left := func(folder string) string {
		files, _ := filepath.Glob(filepath.Join(inbox, folder, "event_x_*"))
		for i, f := range files {
			files[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "event_x_"), ".json")
		}
		return strings.Join(files, "")
	}
	if got := left("done") + "/" + left("failed") + "/" + left("pending"); got != "abc/d/" || strings.Count(out, "the bus is down") != 4 {
		t.Errorf("done, failed and pending have %s; said:\n%s", got, out)
	}
}

// runPython runs a program that imports what is in examples/brain.
func runPython(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"-c", program}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+filepath.Join(root, "examples/brain"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
