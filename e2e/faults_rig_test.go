//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asRoot skips a test that needs root on Linux, or a tool the machine lacks.
func asRoot(t *testing.T, tools ...string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs root on Linux: it mounts, or takes rights away")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: e2e/setup installs it", tool)
		}
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// mount mounts and sees to the end of it, whatever happens.
func mount(t *testing.T, dir string, args ...string) {
	t.Helper()
	command(t, "mount", append(args, dir)...)
	t.Cleanup(func() {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil { // as often as it is mounted
		}
	})
}

// tmpfs is a small disk in memory.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, dir, "-t", "tmpfs", "-o", options, "tmpfs")
	return dir
}

// disk is a file system of its own in a file.
type disk struct {
	t          *testing.T
	image, dir string
	options    string
}

// newDisk makes a file system of a kind, such as ext4, and mounts it.
func newDisk(t *testing.T, kind, options string) *disk {
	t.Helper()
	return newDiskFor(t, kind, options, 100_000)
}

// newDiskFor makes one with room for so many small files.
func newDiskFor(t *testing.T, kind, options string, files int) *disk {
	t.Helper()
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir(), options: "loop,noatime" + options}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(512<<20+int64(files)*5<<10), f.Close()); err != nil { // most of it a hole
		t.Fatal(err)
	}
	args := []string{"-q", d.image}
	if kind == "ext4" {
		args = []string{"-q", "-N", fmt.Sprint(files + 20_000), d.image}
	}
	command(t, "mkfs."+kind, args...)
	mount(t, d.dir, "-o", d.options, d.image)
	return d
}

// ground is a folder to work in, on a disk of its own where that can be had: a
// sync then waits for nobody else's files.
func ground(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("mkfs.ext4"); err != nil || os.Geteuid() != 0 {
		return t.TempDir()
	}
	return newDiskFor(t, "ext4", "", 400_000).dir // consumers keep what they take, and a fast producer makes more than 100,000
}

// remount takes the file system away and brings it back, as a restart of the
// machine does. Nothing may have it open.
func (d *disk) remount(check ...string) {
	d.t.Helper()
	until(d.t, 20*time.Second, "unmounted", func() (bool, any) {
		err := unix.Unmount(d.dir, 0)
		return err == nil, err
	})
	if len(check) > 0 { // exit code 1: put right
		out, err := exec.Command(check[0], append(check[1:], d.image)...).CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
			d.t.Fatalf("%v: %v\n%s", check, err, out)
		}
	}
	command(d.t, "mount", "-o", d.options, d.image, d.dir)
}

// process is a producer or consumer that runs.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of its end

	mu     sync.Mutex
	pid    int // its own, which is not that of strace around it
	states []string
	said   []string
	stderr strings.Builder
}

// role runs this test binary in a role, with a command in front of it if any.
func role(t *testing.T, name string, spec any, wrap ...string) *process {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	argv := append(slices.Clone(wrap), os.Args[0])
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"="+name, specEnv+"="+string(raw))
	return launch(t, name, cmd)
}

func launch(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: cmd, done: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &locked{p}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.hear(lines.Text())
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

type locked struct{ p *process }

func (l *locked) Write(b []byte) (int, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.p.stderr.Write(b)
}

func (p *process) hear(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "open":
		p.pid, _ = strconv.Atoi(rest)
	case "state":
		p.states = append(p.states, rest)
	default:
		p.said = append(p.said, line)
	}
}

func (p *process) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid != 0
}

// state is what it said last of its inbox.
func (p *process) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.states) == 0 {
		return "ok"
	}
	return p.states[len(p.states)-1]
}

func (p *process) wasDegraded() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.states), func(s string) bool { return s == "ok" })
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// kill ends it at once and waits for its end.
func (p *process) kill() {
	p.mu.Lock()
	pid := p.pid
	p.mu.Unlock()
	if pid != 0 && !p.ended() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// waitOpen waits until it is at work.
func (p *process) waitOpen() {
	p.t.Helper()
	until(p.t, time.Minute, p.name+" is at work", func() (bool, any) { return p.open() || p.ended(), p.errors() })
}

// finish waits for an orderly end.
func (p *process) finish(limit time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
		if p.err != nil {
			p.t.Fatalf("the %s ended with %v: %s", p.name, p.err, p.errors())
		}
	case <-time.After(limit):
		p.t.Fatalf("the %s did not end within %s; state %s; %s", p.name, limit, p.state(), p.errors())
	}
}

// taker is who consumes.
type taker int

const (
	moves   taker = iota // our consumer, which moves what it took to done/
	deletes              // our consumer, which deletes it
	leases               // the consumer of bridge/inbox/queue
	python               // the independent consumer, or moves where it is not here
)

// rig is an inbox with a producer and a consumer that are processes.
type rig struct {
	t     *testing.T
	spec  producerSpec
	taker taker
	wrap  []string // in front of the producer
	inbox string

	producer, consumer *process
	watcher            *watcher
	pywatch            *process
}

// newRig makes a rig on a disk; what was emitted is kept elsewhere.
func newRig(t *testing.T, dir string, spec producerSpec, who taker) *rig {
	t.Helper()
	spec.Dir, spec.Emitted = dir, filepath.Join(t.TempDir(), "emitted")
	if spec.Sources == 0 {
		spec.Sources = 8
	}
	if who == python && independent("consumer.py") == "" {
		t.Log("the independent consumer is not here; ours stands in")
		who = moves
	}
	r := &rig{t: t, spec: spec, taker: who, inbox: filepath.Join(dir, "inbox")}
	for _, folder := range []string{"pending", "processing", "done", "failed"} {
		if err := os.MkdirAll(filepath.Join(r.inbox, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.watcher = watch(r.inbox)
	t.Cleanup(func() { r.watcher.end() })
	return r
}

func (r *rig) produce() *process {
	r.t.Helper()
	r.producer = role(r.t, "producer", r.spec, r.wrap...)
	return r.producer
}

// consume starts the consumer; with idle it ends when nothing came for so long.
func (r *rig) consume(idle time.Duration) *process {
	r.t.Helper()
	if r.taker != python {
		r.consumer = role(r.t, "consumer", consumerSpec{Inbox: r.inbox, Idle: idle, Delete: r.taker == deletes, Leases: r.taker == leases})
		return r.consumer
	}
	args := []string{independent("consumer.py"), r.inbox}
	if idle > 0 {
		args = append(args, "--idle-exit", fmt.Sprint(idle.Seconds()))
	}
	r.consumer = launch(r.t, "consumer", exec.Command("python3", args...))
	return r.consumer
}

// watchToo starts the independent watcher beside ours.
func (r *rig) watchToo() {
	if path := independent("verify.py"); path != "" {
		r.pywatch = launch(r.t, "watcher", exec.Command("python3", path, "watch", r.inbox))
	}
}

// acked is how many events were acknowledged so far.
func (r *rig) acked() int {
	r.t.Helper()
	records, err := readRecords(r.spec.Emitted)
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, rec := range records {
		if rec.Ev == "ack" {
			n++
		}
	}
	return n
}

// ackedMore waits until n more events are acknowledged.
func (r *rig) ackedMore(n int) {
	r.t.Helper()
	defer r.stuck()
	from := r.acked()
	until(r.t, time.Minute, fmt.Sprint(n, " more acknowledgements"), func() (bool, any) {
		now := r.acked()
		return now >= from+n, fmt.Sprint(now-from, " more; ", r.producer.state(), r.producer.errors())
	})
}

// deliveredMore waits until n more events had their effect.
func (r *rig) deliveredMore(n int) {
	r.t.Helper()
	count := func() int {
		raw, err := os.ReadFile(filepath.Join(r.inbox, "delivered.log"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.t.Fatal(err)
		}
		return bytes.Count(raw, []byte("\n"))
	}
	from := count()
	until(r.t, time.Minute, fmt.Sprint(n, " more deliveries"), func() (bool, any) {
		now := count()
		return now >= from+n, fmt.Sprint(now-from, " more; ", r.producer.state(), r.producer.errors(), r.consumer.errors())
	})
}

// degraded waits until the producer says why nothing moves; the cause must hold one of want.
func (r *rig) degraded(want ...string) {
	r.t.Helper()
	defer r.stuck()
	until(r.t, time.Minute, fmt.Sprint("degraded with one of ", want), func() (bool, any) {
		state := r.producer.state()
		return strings.HasPrefix(state, "degraded") && slices.ContainsFunc(want, func(w string) bool { return strings.Contains(state, w) }), state + r.producer.errors()
	})
}

// wellAgain waits until the producer says that all is well.
func (r *rig) wellAgain() {
	r.t.Helper()
	defer r.stuck()
	until(r.t, time.Minute, "well again", func() (bool, any) {
		last := r.producer.state() + " " + r.producer.errors()
		if r.consumer != nil {
			last += fmt.Sprintf("; consumer ended %v %s", r.consumer.ended(), r.consumer.errors())
		}
		return r.producer.state() == "ok" && !r.producer.ended(), last
	})
}

// unwatched does what the watcher must not look at, such as a disk that goes.
func (r *rig) unwatched(do func()) {
	r.t.Helper()
	partial := r.watcher.end()
	do()
	r.watcher = watch(r.inbox)
	r.watcher.partial = partial
}

// ackedNoMore waits until nothing is acknowledged any more, and sees that it stays so.
func (r *rig) ackedNoMore() {
	r.t.Helper()
	defer r.stuck()
	until(r.t, time.Minute, "nothing acknowledged any more", func() (bool, any) {
		before := r.acked()
		time.Sleep(500 * time.Millisecond)
		return r.acked() == before, before
	})
}

// complete lets a new start complete what a killed producer left.
func (r *rig) complete() {
	r.t.Helper()
	spec := r.spec
	spec.Each = -1 // nothing new
	role(r.t, "producer", spec).finish(2 * time.Minute)
}

// taken waits until the consumer has taken everything there is.
func (r *rig) taken() {
	r.t.Helper()
	defer r.stuck()
	until(r.t, time.Minute, "everything taken", func() (bool, any) {
		left := 0
		for _, folder := range []string{"pending", "processing"} {
			entries, err := os.ReadDir(filepath.Join(r.inbox, folder))
			if err != nil {
				return false, err
			}
			left += len(entries)
		}
		return left == 0, fmt.Sprint(left, " left ", r.consumer.errors())
	})
}

// end kills both sides, lets a new start complete what they left, and gives the
// verdict.
func (r *rig) end(claimsUndone bool) *verdict {
	r.t.Helper()
	for _, p := range []*process{r.producer, r.consumer} {
		if p != nil {
			p.kill()
		}
	}
	r.complete()
	r.consume(700 * time.Millisecond).finish(5 * time.Minute)
	if r.pywatch != nil {
		r.pywatch.kill()
	}
	return verdictOf(r.t, r.inbox, r.spec.Emitted, r.watcher.end(), claimsUndone)
}

// mustBeClean ends the rig and fails unless all is as it should be.
func (r *rig) mustBeClean(claimsUndone bool) {
	r.t.Helper()
	v := r.end(claimsUndone)
	if !v.clean() || v.Acked == 0 {
		r.t.Errorf("%v", v)
		return
	}
	r.t.Log(v)
}
