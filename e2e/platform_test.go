//go:build e2e || bench

// Package e2e runs the built platform against servers, browsers and disks that
// are not the project's own. It needs what e2e/setup installs.
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
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

var root = func() string {
	wd, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Dir(wd)
}()

// long scales long counts.
var long = func() int {
	n, err := strconv.Atoi(os.Getenv("AURORA_LONG"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}()

func bin(name string) string { return filepath.Join(root, "bin", name) }

// platform is a platform that runs as a process of its own.
type platform struct {
	t    *testing.T
	cmd  *exec.Cmd
	data string
	dir  string   // of manifests
	args []string // of run, beside those below
	done chan struct{}
	log  string
}

// trusting is a policy that asks nobody: the tests call tools that nobody has
// spoken for.
const trusting = "unlisted: {unknown: low}\nreview: {first: {unknown: pin}, added: allow, changed: allow, findings: allow}\n"

// start runs the platform on manifests, given by file name.
func start(t *testing.T, manifests map[string]string) *platform {
	t.Helper()
	return startWith(t, manifests, "")
}

// logLevel is the platform's, for what a failed test prints.
var logLevel = "debug"

// startWith is start with more of platform.yaml.
func startWith(t *testing.T, manifests map[string]string, settings string) *platform {
	t.Helper()
	base := t.TempDir()
	p := &platform{t: t, data: filepath.Join(base, "data"), dir: filepath.Join(base, "manifests"), log: filepath.Join(base, "platform.log")}
	config := filepath.Join(base, "platform.yaml")
	p.args = []string{"--config", config}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		config:                             "policy: policy.yaml\n" + settings,
		filepath.Join(base, "policy.yaml"): trusting,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range manifests {
		p.write(name, text)
	}
	p.run()
	return p
}

func (p *platform) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *platform) run() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{"run", "--manifests", p.dir, "--data", p.data, "--log-format", "json", "--log-level", logLevel}, p.args...)
	p.cmd = exec.Command(bin("platform"), args...)
	p.cmd.Dir = "/" // from any folder
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan struct{})
	cmd, done := p.cmd, p.done
	go func() { cmd.Wait(); close(done) }()
	p.t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
		if p.t.Failed() {
			if raw, err := os.ReadFile(p.log); err == nil {
				p.t.Logf("platform log, end:\n%s", raw[max(0, len(raw)-20_000):])
			}
		}
	})
}

// verb runs a verb on the platform and returns its standard output.
func (p *platform) verb(args ...string) ([]byte, error) {
	cmd := exec.Command(bin("platform"), append(args, "--data", p.data)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("platform %s: %w: %s%s", strings.Join(args, " "), err, stderr.Bytes(), out)
	}
	return out, err
}

func (p *platform) verbJSON(into any, args ...string) {
	p.t.Helper()
	out, err := p.verb(append(args, "--json")...)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		p.t.Fatalf("platform %s printed no JSON: %v\n%s", args, err, out)
	}
}

type server struct {
	Name    string
	Phase   string
	PID     int
	Tools   int
	Problem string
}

func (p *platform) servers() ([]server, error) {
	out, err := p.verb("servers", "--json")
	if err != nil {
		return nil, err
	}
	var r struct{ Servers []server }
	return r.Servers, json.Unmarshal(out, &r)
}

// until polls a condition; what it last said is the failure's text.
func until(t *testing.T, limit time.Duration, what string, cond func() (bool, any)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		ok, last := cond()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s; last: %v", what, limit, last)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// ready waits until n servers are ready.
func (p *platform) ready(n int, limit time.Duration) {
	p.t.Helper()
	until(p.t, limit, fmt.Sprintf("%d servers ready", n), func() (bool, any) {
		servers, err := p.servers()
		if err != nil {
			return false, err
		}
		count := 0
		for _, s := range servers {
			if s.Phase == "ready" {
				count++
			}
		}
		return count == n, servers
	})
}

// end sends a signal and waits for the process to end.
func (p *platform) end(sig syscall.Signal, limit time.Duration) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("the platform did not end within %s of %v", limit, sig)
	}
}

// leftovers are the processes whose environment names this platform's data folder.
func (p *platform) leftovers() []string {
	var left []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(env, []byte(p.data)) {
			continue
		}
		pid := filepath.Base(filepath.Dir(f))
		cmdline, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		left = append(left, pid+" "+string(bytes.ReplaceAll(cmdline, []byte{0}, []byte(" "))))
	}
	return left
}

func (p *platform) nothingLeft() {
	p.t.Helper()
	until(p.t, 15*time.Second, "no process left", func() (bool, any) {
		left := p.leftovers()
		return len(left) == 0, left
	})
}

// envelope is what the tests read of an event.
type envelope struct {
	Header struct {
		Method    string
		MessageID string `json:"message_id"`
		Seq       uint64
		Source    struct{ App, Instance string }
	}
	Payload struct {
		Type    string
		Summary string
		Data    json.RawMessage
	}
}

// pending reads every event that waits for a Brain.
func (p *platform) pending() []envelope {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.data, "kernel/inbox/pending/event_*.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	var all []envelope
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			p.t.Fatal(err)
		}
		var e envelope
		if err := json.Unmarshal(raw, &e); err != nil {
			p.t.Fatalf("%s: %v", f, err)
		}
		if want := "_" + e.Header.MessageID + ".json"; !strings.HasSuffix(f, want) {
			p.t.Errorf("%s holds the id %s", f, e.Header.MessageID)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b envelope) int { return strings.Compare(a.Header.MessageID, b.Header.MessageID) })
	return all
}

// count is how many pending events have a type and a source.
func (p *platform) count(typ, app string) int {
	n := 0
	for _, e := range p.pending() {
		if e.Payload.Type == typ && (app == "" || e.Header.Source.App == app) {
			n++
		}
	}
	return n
}
