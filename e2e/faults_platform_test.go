//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const emitterPackage = "test.emitter"

// emitter builds the app that emits and makes p a platform that has it, on a
// data folder of its own unless p has one. Only the app's events go to the inbox.
func emitter(t *testing.T, p *platform, env map[string]string) (emitted string) {
	t.Helper()
	base := t.TempDir()
	exe := filepath.Join(base, "emitter")
	build := exec.Command("go", "build", "-o", exe, "./e2e/testdata/emitter")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the emitter: %v\n%s", err, out)
	}
	p.dir, p.log = filepath.Join(base, "manifests"), filepath.Join(base, "platform.log")
	if p.data == "" {
		p.data = filepath.Join(base, "data")
	}
	emitted = filepath.Join(base, "emitted")
	raw, err := os.ReadFile(filepath.Join(root, "e2e/testdata/emitter/manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	mcp := fmt.Sprintf("mcp:\n  restart: {max_attempts: 1000, backoff_seconds: 0.1, max_backoff_seconds: 0.5}\n  env:\n    EMITTED: %s\n", emitted)
	for k, v := range env {
		mcp += fmt.Sprintf("    %s: %q\n", k, v)
	}
	text := strings.Replace(string(raw), "mcp:\n  command: [emitter]\n", mcp+"  command: ["+exe+"]\n", 1)
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.write("emitter.yaml", text)
	config := filepath.Join(base, "platform.yaml")
	routes := ""
	for _, typ := range []string{"lifecycle", "capability", "tool", "permission", "resource", "mcp"} {
		routes += fmt.Sprintf("  %s.*: journal\n", typ)
	}
	policy := filepath.Join(base, "policy.yaml")
	if err := os.WriteFile(policy, []byte(`trust: {test.emitter: official}
risk: {"test.emitter::count": low, "test.emitter::reset": high}
actions: {low: allow, medium: allow, high: allow, critical: deny, unknown: ask}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("policy: "+policy+"\nevents:\n"+routes), 0o600); err != nil {
		t.Fatal(err)
	}
	p.args = []string{"--config", config}
	return emitted
}

// emission is a line of what the emitter wrote down.
type emission struct {
	K  int
	Ev string
}

func emissions(t *testing.T, emitted string) (tried, acked map[int]bool) {
	t.Helper()
	raw, err := os.ReadFile(emitted)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	tried, acked = make(map[int]bool), make(map[int]bool)
	for line := range bytes.Lines(raw) {
		var e emission
		if json.Unmarshal(line, &e) != nil {
			continue // torn by a kill
		}
		if e.Ev == "ack" {
			acked[e.K] = true
		} else {
			tried[e.K] = true
		}
	}
	return tried, acked
}

// promised waits until the emitter was promised n more events.
func promised(t *testing.T, emitted string, n int) {
	t.Helper()
	_, before := emissions(t, emitted)
	until(t, time.Minute, fmt.Sprint(n, " more events promised"), func() (bool, any) {
		_, now := emissions(t, emitted)
		return len(now) >= len(before)+n, len(now) - len(before)
	})
}

// quiet stops the emitter, waits until the platform has acknowledged everything,
// and ends the platform.
func (p *platform) quiet(emitted string) {
	p.t.Helper()
	if err := os.WriteFile(emitted+".stop", nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
	until(p.t, 2*time.Minute, "everything acknowledged", func() (bool, any) {
		waiting, err := filepath.Glob(filepath.Join(p.data, "apps", emitterPackage, "outbox", "*.json"))
		return err == nil && len(waiting) == 0, len(waiting)
	})
	p.end(syscall.SIGTERM, 30*time.Second)
}

// asProducer writes the file of what was emitted as the judges read it, and tells
// each event's number: ids and
// bytes are those of the journal, which replay gives; the emitter knows numbers.
func (p *platform) asProducer(emitted string) (path string, numbers map[string]int) {
	p.t.Helper()
	dir := filepath.Join(p.t.TempDir(), "replayed")
	if _, err := p.verb("inbox", "replay", "--to", dir); err != nil {
		p.t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	known := make(map[int]record)
	numbers = make(map[string]int) // of ids
	for _, f := range files {
		body, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			p.t.Fatal(err)
		}
		k, e := numberOf(p.t, body)
		if old, twice := known[k]; twice {
			p.t.Errorf("event %d has two ids: %s and %s", k, old.ID, e.Header.MessageID)
		}
		numbers[e.Header.MessageID] = k
		sum := sha256.Sum256(body)
		known[k] = record{ID: e.Header.MessageID, Source: e.Header.Source.Instance, Seq: int(e.Header.Seq), SHA: hex.EncodeToString(sum[:])}
	}
	tried, acked := emissions(p.t, emitted)
	var lines strings.Builder
	for ev, ks := range map[string]map[int]bool{"try": tried, "ack": acked} {
		for k := range ks {
			r, ok := known[k]
			if !ok {
				r = record{ID: fmt.Sprint("never-seen-", k), Source: "none"}
			}
			r.Ev = ev
			lines.WriteString(line(p.t, r))
		}
	}
	path = filepath.Join(p.t.TempDir(), "emitted")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path, numbers
}

// numberOf is the number of an event of the emitter, whose text must fit it.
func numberOf(t *testing.T, body []byte) (int, envelope) {
	t.Helper()
	var e envelope
	var data struct {
		K    int
		Text string
	}
	if err := errors.Join(json.Unmarshal(body, &e), json.Unmarshal(e.Payload.Data, &data)); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if data.Text != strings.Repeat(fmt.Sprint(data.K, " "), 50) {
		t.Errorf("event %d is not whole: %s", data.K, body)
	}
	return data.K, e
}

// verdict is that of both judges, and of the order in which the app emitted.
func (p *platform) verdict(emitted string, partial []string) {
	p.t.Helper()
	inbox := filepath.Join(p.data, "kernel", "inbox")
	producer, numbers := p.asProducer(emitted)
	v := verdictOf(p.t, inbox, producer, partial, false)
	if !v.clean() || v.Acked == 0 {
		p.t.Errorf("%v", v)
	}
	p.t.Log(v.counts())

	last := 0
	raw, err := os.ReadFile(filepath.Join(inbox, "delivered.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var d delivery
		if err := json.Unmarshal(line, &d); err != nil {
			p.t.Fatal(err)
		}
		k := numbers[d.ID]
		if k <= last {
			p.t.Errorf("event %d was delivered after %d", k, last)
		}
		last = max(last, k)
	}
	var report struct{ Faults int }
	p.verbJSON(&report, "inbox", "verify")
	if report.Faults != 0 {
		p.t.Errorf("verify finds %d faults", report.Faults)
	}
}

// consumerOf starts the independent consumer, or ours, on a platform's inbox.
func consumerOf(t *testing.T, p *platform, idle time.Duration) *process {
	t.Helper()
	inbox := filepath.Join(p.data, "kernel", "inbox")
	r := &rig{t: t, inbox: inbox, taker: python}
	if independent("consumer.py") == "" {
		r.taker = moves
	}
	return r.consume(idle)
}

// pidOf is the process id of the emitter, 0 while it does not run.
func (p *platform) pidOf() int {
	servers, err := p.servers()
	if err != nil || len(servers) == 0 {
		return 0
	}
	return servers[0].PID
}

func TestKillsOfPlatformAppAndConsumerAtRandomMomentsLoseAndRepeatNothing(t *testing.T) {
	for left := kills(); left > 0; left -= 50 {
		p := &platform{t: t, data: filepath.Join(ground(t), "data")}
		emitted := emitter(t, p, nil)
		inbox := filepath.Join(p.data, "kernel", "inbox")
		if err := os.MkdirAll(filepath.Join(inbox, "pending"), 0o700); err != nil {
			t.Fatal(err)
		}
		w := watch(inbox)
		t.Cleanup(func() { w.end() })
		p.run()
		p.ready(1, time.Minute)
		c := consumerOf(t, p, 0)
		done := map[string]int{}
		for range min(left, 50) {
			promised(t, emitted, 1+rand.IntN(30))
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
			which := 1 + rand.IntN(7)
			if pid := p.pidOf(); which&2 != 0 && pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
				done["app"]++
			}
			if which&1 != 0 {
				p.end(syscall.SIGKILL, 10*time.Second)
				done["platform"]++
			}
			if which&4 != 0 {
				if c.ended() {
					t.Fatalf("the consumer ended by itself: %s", c.errors())
				}
				c.kill()
				done["consumer"]++
			}
			if which&1 != 0 {
				p.run()
			}
			if which&4 != 0 {
				c = consumerOf(t, p, 0)
			}
		}
		p.ready(1, time.Minute)
		promised(t, emitted, 20)
		p.quiet(emitted)
		c.kill()
		consumerOf(t, p, 700*time.Millisecond).finish(time.Minute)
		t.Logf("killed: %v", done)
		p.verdict(emitted, w.end())
	}
}

// health is what `platform servers` says of the platform as a whole.
func (p *platform) health() (state string, problems []string) {
	p.t.Helper()
	var said struct {
		State    string
		Problems []string
	}
	p.verbJSON(&said, "servers")
	return said.State, said.Problems
}

func (p *platform) isState(want, cause string) {
	p.t.Helper()
	until(p.t, time.Minute, "the platform is "+want, func() (bool, any) {
		state, problems := p.health()
		return state == want && (cause == "" || slices.ContainsFunc(problems, func(s string) bool {
			return strings.HasPrefix(s, "inbox: ") && strings.Contains(s, cause)
		})), fmt.Sprint(state, problems)
	})
}

// answers calls the emitter: a call that is not recorded before it is sent is
// answered, whatever the disk does.
func (p *platform) answers() int {
	p.t.Helper()
	out, err := p.verb("call", emitterPackage+".count", "{}", "--json", "--timeout", "20s")
	if err != nil {
		p.t.Fatalf("a call was not answered: %v", err)
	}
	i := bytes.Index(out, []byte(`"emitted":`))
	if i < 0 {
		p.t.Fatalf("no answer: %s", out)
	}
	digits := out[i+len(`"emitted":`):]
	digits = digits[:bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })]
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// refuses makes a call that must be recorded before it is sent: where that cannot
// be, it is refused with the cause and not sent.
func (p *platform) refuses() {
	p.t.Helper()
	out, err := p.verb("call", emitterPackage+".reset", "{}", "--json", "--timeout", "20s")
	if err == nil || bytes.Contains(out, []byte("called")) {
		p.t.Errorf("a call was sent that could not be recorded: %s", out)
	} else if !strings.Contains(err.Error(), "disk") {
		p.t.Errorf("it is not said why a call is refused: %v", err)
	}
	if err != nil && !(strings.Contains(err.Error(), `"error_code":"not_recorded"`) && strings.Contains(err.Error(), `"retryable":true`)) {
		p.t.Errorf("refused with: %v", err)
	}
}

func TestAFullDiskHoldsThePlatformBackAndCallsAreAnswered(t *testing.T) {
	asRoot(t)
	dir := tmpfs(t, "size=24M")
	p := &platform{t: t, data: filepath.Join(dir, "data")}
	emitted := emitter(t, p, map[string]string{"EMIT_PAUSE": "5ms"}) // the journal of all events fits beside them
	p.run()
	p.ready(1, time.Minute)
	c := consumerOf(t, p, 0)
	for range 1 + long/10 {
		promised(t, emitted, 20)
		p.isState("ok", "")
		p.answers() // what the server says of its tools is approved and kept
		c.signal(syscall.SIGSTOP)
		free := fill(t, dir)
		p.isState("degraded", "full")
		for range 5 {
			p.answers()
		}
		p.refuses()
		out, err := p.verb("servers")
		if err != nil || !bytes.Contains(out, []byte("inbox: ")) || !bytes.Contains(out, []byte("full")) {
			t.Errorf("platform servers does not say what is wrong: %v\n%s", err, out)
		}
		_, held := emissions(t, emitted)
		until(t, time.Minute, "the app is held back", func() (bool, any) {
			_, before := emissions(t, emitted)
			time.Sleep(500 * time.Millisecond)
			_, after := emissions(t, emitted)
			return len(before) == len(after), len(after) - len(held)
		})
		c.signal(syscall.SIGCONT)
		free()
		p.isState("ok", "")
		p.answers()
		if _, err := p.verb("call", emitterPackage+".reset", "{}"); err != nil {
			t.Errorf("a call that is recorded is not answered again: %v", err)
		}
	}
	promised(t, emitted, 20)
	p.quiet(emitted)
	c.kill()
	consumerOf(t, p, 700*time.Millisecond).finish(time.Minute)
	if n := logged(t, p, "degraded"); n == 0 || n > 20 {
		t.Errorf("the log says %d times that the inbox is degraded", n)
	}
	p.verdict(emitted, nil)
}

// A Brain that keeps what it took in done/ fills the disk: what is older goes then,
// without waiting for the hour.
func TestABrainThatKeepsWhatItTookNeverStopsTheEvents(t *testing.T) {
	asRoot(t)
	dir := tmpfs(t, "size=24M") // room for 6,000 files
	p := &platform{t: t, data: filepath.Join(dir, "data")}
	emitted := emitter(t, p, nil)
	p.run()
	p.ready(1, time.Minute)
	r := &rig{t: t, inbox: filepath.Join(p.data, "kernel", "inbox"), taker: moves} // which goes on when its own log finds no room
	c := r.consume(0)
	for range 4 {
		promised(t, emitted, 3000)
		if c.ended() {
			t.Fatalf("the consumer ended by itself: %s", c.errors())
		}
	}
}

// A catalogue that could not be reviewed on a full disk is reviewed later.
func TestToolsThatCameOnAFullDiskCanBeCalledOnceThereIsRoom(t *testing.T) {
	asRoot(t)
	dir := tmpfs(t, "size=24M")
	p := &platform{t: t, data: filepath.Join(dir, "data")}
	emitter(t, p, map[string]string{"EMIT_MAX": "50"})
	p.run()
	p.ready(1, time.Minute)
	free := fill(t, dir)
	if out, err := p.verb("call", emitterPackage+".count", "{}"); err == nil {
		t.Logf("the tools were approved before the disk was full: %s", out)
	}
	free()
	until(t, 30*time.Second, "the tool can be called", func() (bool, any) {
		out, err := p.verb("call", emitterPackage+".count", "{}")
		return err == nil, fmt.Sprint(err, string(out))
	})
}

// logged counts the lines of the platform's log that begin to say msg.
func logged(t *testing.T, p *platform, msg string) (n int) {
	t.Helper()
	raw, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var r struct{ Msg string }
		if json.Unmarshal(line, &r) == nil && strings.Contains(r.Msg, msg) {
			n++
		}
	}
	return n
}

func TestAPlatformWhoseDiskFailsEverySyncRecoversByItself(t *testing.T) {
	asRoot(t, "strace")
	p := &platform{t: t, data: filepath.Join(ground(t), "data")}
	emitted := emitter(t, p, nil)
	p.run()
	p.ready(1, time.Minute)
	c := consumerOf(t, p, 0)
	promised(t, emitted, 20)
	p.answers()
	broken := exec.Command("strace", append(pretend("fdatasync,fsync,syncfs", "error=EIO")[1:], "-p", fmt.Sprint(p.cmd.Process.Pid))...)
	if err := broken.Start(); err != nil {
		t.Fatal(err)
	}
	p.isState("degraded", "input/output")
	p.answers()
	p.refuses()
	if err := broken.Process.Signal(syscall.SIGINT); err != nil { // it detaches
		t.Fatal(err)
	}
	broken.Wait() // ended by the signal
	p.isState("ok", "")
	promised(t, emitted, 20)
	p.quiet(emitted)
	c.kill()
	consumerOf(t, p, 700*time.Millisecond).finish(time.Minute)
	p.verdict(emitted, nil)
}

func TestAPlatformStartsOnADamagedJournalAndSaysSo(t *testing.T) {
	p := &platform{t: t}
	emitted := emitter(t, p, nil)
	p.run()
	p.ready(1, time.Minute)
	promised(t, emitted, 200)
	p.end(syscall.SIGKILL, 10*time.Second)
	records := readJournal(t, filepath.Join(p.data, "journal"))
	spoil(t, records[len(records)/2].file, records[len(records)/2].off+recordHeader, flip, 1)
	p.run()
	p.ready(1, time.Minute)
	if _, problems := p.health(); !slices.ContainsFunc(problems, func(s string) bool {
		return strings.Contains(s, "not valid") || strings.Contains(s, "lost")
	}) {
		t.Errorf("it says nothing of the damage: %q", problems)
	}
	promised(t, emitted, 20)
	p.quiet(emitted)
	if len(keptAside(t, p.data, "*.torn")) == 0 {
		t.Error("the damaged bytes are not kept aside")
	}
	if _, err := p.verb("inbox", "verify"); err == nil {
		t.Error("verify finds no fault in a damaged journal")
	}
}
