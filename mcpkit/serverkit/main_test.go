//go:build linux

package serverkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/proc"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"go.uber.org/goleak"
)

// fakeVar names the server that the test binary is to be.
const fakeVar = "SERVERKIT_FAKE"

// noNap spares fakes the second that the race detector sleeps at exit.
const noNap = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	RunGuardIfAsked()
	if name, ok := os.LookupEnv(fakeVar); ok {
		fakes[name]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// fakes are servers. They say "ready" on stdout, echo lines, and end with their
// stdin, except where their name says otherwise. ARG and RECORD come from env.
var fakes = map[string]func(){
	"good": func() { ready(); echo() },
	"crash-start": func() {
		fmt.Fprintln(os.Stderr, "fatal: no configuration")
		os.Exit(1)
	},
	"crash-ready": func() { ready(); os.Exit(3) },
	"killed":      func() { ready(); syscall.Kill(os.Getpid(), syscall.SIGKILL) },
	"mute":        func() { fmt.Fprintln(os.Stderr, "waiting for the database"); io.Copy(io.Discard, os.Stdin) },
	"immortal": func() {
		ossignal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		ready()
		echo()
		record("eof")
		time.Sleep(time.Hour)
	},
	"record-term": func() { // outlives the end of stdin, ends with SIGTERM
		term := make(chan os.Signal, 1)
		ossignal.Notify(term, syscall.SIGTERM)
		ready()
		echo()
		record("eof")
		<-term
		record("term")
	},
	"exit-after": func() { ready(); echoOnce(); fmt.Println("last words") },
	"held-stdout": func() { // dies of its first start; what holds stdout open does not
		if firstStart() {
			fork("sleeper", nil)
			os.Exit(3)
		}
		ready()
		echo()
	},
	"early-end": func() { // closes stdout of its first start, and lives on
		if firstStart() {
			os.Stdout.Close()
			time.Sleep(time.Hour)
		}
		ready()
		echo()
	},
	"close-stdout": func() {
		ready()
		os.Stdout.Close()
		time.Sleep(time.Hour)
	},
	"grandchild": func() { fork("sleeper", nil); ready(); echo() },
	"grandchild-session": func() {
		fork("sleeper", &syscall.SysProcAttr{Setsid: true})
		ready()
		echo()
	},
	"grandchild-bare": func() { // nothing but ancestry shows where it belongs
		c := fakeCmd("sleeper")
		c.Env = []string{fakeVar + "=sleeper", "RECORD=" + os.Getenv("RECORD")}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		start(c)
		ready()
		echo()
	},
	"daemonised": func() { // leaves a process that nothing in /proc ties to it any more
		c := exec.Command("/bin/sh", "-c",
			`( setsid env -i sleep 7009 </dev/null >/dev/null 2>&1 & echo "0 pid $!" >>"$RECORD" )`)
		start(c)
		c.Wait()
		ready()
		echo()
	},
	"launcher": func() { // like npx: a shell between us and the server
		c := exec.Command("/bin/sh", "-c", `"$0"; exit $?`, self())
		c.Env = append(os.Environ(), fakeVar+"=good")
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		start(c)
		c.Wait()
	},
	"leave-grandchild": func() { fork("sleeper", nil); ready(); echoOnce(); fmt.Println("last words") },
	"sleeper": func() {
		ossignal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		record("pid " + strconv.Itoa(os.Getpid()))
		time.Sleep(time.Hour)
	},
	"double-fork": func() { // leaves a stream of orphans that end at once
		for range 5 {
			c := exec.Command("/bin/sh", "-c", "setsid sh -c 'sleep 0.01' & exit 0")
			start(c)
			c.Wait()
		}
		ready()
		echo()
	},
	"flood": func() {
		ready()
		line := []byte(strings.Repeat("flood ", 12) + "\n")
		block := []byte(strings.Repeat(string(line), 100))
		go func() {
			for {
				os.Stderr.Write(block)
			}
		}()
		echo()
	},
	"secret": func() {
		fmt.Fprintf(os.Stderr, "token=%s; \x1b[31mred\a\n", os.Getenv("TOKEN"))
		ready()
		echo()
	},
	"env": func() {
		ready()
		wd, _ := os.Getwd()
		fmt.Println(wd, syscall.Getpgrp() == os.Getpid())
		for _, kv := range os.Environ() {
			fmt.Println(kv)
		}
		fmt.Println("end")
		echo()
	},
	"daemon": daemon,
}

// firstStart reports whether no process before this one has asked.
func firstStart() bool {
	f, err := os.OpenFile(os.Getenv("RECORD")+".first", os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func ready() { fmt.Println("ready") }

func echo() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(in.Text())
	}
}

func echoOnce() {
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	fmt.Println(in.Text())
}

// record appends a line to the file RECORD, in one write.
func record(line string) {
	f, err := os.OpenFile(os.Getenv("RECORD"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "%d %s\n", time.Now().UnixMilli(), line)
}

func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

func fakeCmd(name string) *exec.Cmd {
	c := exec.Command(self())
	c.Env = append(os.Environ(), fakeVar+"="+name)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c
}

func start(c *exec.Cmd) {
	if err := c.Start(); err != nil {
		panic(err)
	}
}

func fork(name string, attr *syscall.SysProcAttr) {
	c := fakeCmd(name)
	c.SysProcAttr = attr
	start(c)
}

// daemon is a small platform: it runs the servers named in ARG until stdin ends.
func daemon() {
	kit, err := New(Options{AdoptOrphans: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var specs []Spec
	for name := range strings.SplitSeq(os.Getenv("ARG"), ",") {
		specs = append(specs, Spec{
			Name: name, Connect: attach, Command: []string{self()}, Dir: os.Getenv("DIR"),
			Env: []string{fakeVar + "=" + name, "RECORD=" + os.Getenv("RECORD"), "PATH=" + os.Getenv("PATH"), noNap},
		})
	}
	kit.Apply(specs)
	if err := kit.Wait(context.Background()); err != nil {
		panic(err)
	}
	for _, st := range kit.Status() {
		if st.LastExit != nil {
			fmt.Println(st.LastExit.Reason)
		}
		record("pid " + strconv.Itoa(st.PID))
	}
	fmt.Println("up")
	io.Copy(io.Discard, os.Stdin)
	kit.Shutdown(context.Background())
}

// session is the trivial session: lines in, lines out.
type session struct {
	in    Instance
	pipes Pipes
	lines chan string
	done  chan struct{}
	once  sync.Once
	hung  chan struct{} // closed to make it report a hung server

	mu    sync.Mutex
	cause error
	err   error
}

// attach waits for "ready", as a client would for the answer to initialize.
func attach(ctx context.Context, in Instance, p Pipes) (Session, error) {
	stop := context.AfterFunc(ctx, func() { p.Stdout.SetReadDeadline(time.Now()) })
	defer stop()
	r := bufio.NewReaderSize(p.Stdout, 512)
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("waiting for ready: %w", err)
	}
	if line != "ready\n" {
		return nil, fmt.Errorf("unexpected %q", line)
	}
	s := &session{in: in, pipes: p, lines: make(chan string, 1000), done: make(chan struct{}), hung: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer close(s.lines)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				s.lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.err == nil {
					s.err = err
				}
				return
			}
		}
	}()
	return s, nil
}

func (s *session) Done() <-chan struct{} { return s.done }
func (s *session) Err() error            { s.mu.Lock(); defer s.mu.Unlock(); return s.err }
func (s *session) Info() SessionInfo {
	return SessionInfo{ProtocolVersion: "2025-11-25", ServerName: "fake", Tools: 1}
}
func (s *session) Close(cause error) {
	s.once.Do(func() {
		s.mu.Lock()
		s.cause = cause
		s.mu.Unlock()
		s.pipes.Stdin.Close()
	})
}
func (s *session) closeCause() error { s.mu.Lock(); defer s.mu.Unlock(); return s.cause }

// hang ends the session as a client does whose pings are not answered.
func (s *session) hang() {
	s.mu.Lock()
	s.err = fmt.Errorf("no answer to ping: %w", ErrHung)
	s.mu.Unlock()
	s.pipes.Stdout.SetReadDeadline(time.Now())
}

// rig is a kit under test with all it has told.
type rig struct {
	*Kit
	t       *testing.T
	logs    string
	connect Connect

	mu       sync.Mutex
	changed  chan struct{}
	signals  []signal.Signal
	sessions []*session
}

type rigOptions struct {
	Options
	Connect Connect // of specs that have none
}

// Apply has the rig connect what no spec connects.
func (r *rig) Apply(specs []Spec) {
	specs = slices.Clone(specs)
	for i := range specs {
		if specs[i].Connect == nil {
			specs[i].Connect = r.connect
		}
	}
	r.Kit.Apply(specs)
}

func newRig(t *testing.T, edit ...func(*rigOptions)) *rig {
	t.Helper()
	r := &rig{t: t, logs: filepath.Join(t.TempDir(), "logs"), changed: make(chan struct{})}
	o := rigOptions{Options: Options{
		LogDir: r.logs,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Sink: signal.SinkFunc(func(_ context.Context, s signal.Signal) error {
			r.note(func() { r.signals = append(r.signals, s) })
			return nil
		}),
	}, Connect: func(ctx context.Context, in Instance, p Pipes) (Session, error) {
		s, err := attach(ctx, in, p)
		if err != nil {
			return nil, err
		}
		r.note(func() { r.sessions = append(r.sessions, s.(*session)) })
		return s, nil
	},
	}
	for _, e := range edit {
		e(&o)
	}
	r.connect = o.Connect
	kit, err := New(o.Options)
	if err != nil {
		t.Fatal(err)
	}
	r.Kit = kit
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := kit.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if left := r.alive(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	return r
}

func (r *rig) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// alive returns the pids that carry a token of this kit.
func (r *rig) alive() (pids []int) {
	for _, m := range proc.Scan(r.prefix) {
		if m.Token != "" {
			pids = append(pids, m.PID)
		}
	}
	return pids
}

// until waits until cond, called whenever something was told, is true.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		ok, changed := cond(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			r.t.Fatalf("never: %s; told so far: %v", what, r.kinds(""))
		}
	}
}

// kinds returns what was told of a server, or of all.
func (r *rig) kinds(server string) (kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kindsLocked(server)
}

func (r *rig) kindsLocked(server string) (kinds []string) {
	for _, s := range r.signals {
		if server == "" || s.Server == server {
			kinds = append(kinds, strings.TrimPrefix(string(s.Kind), "lifecycle."))
		}
	}
	return kinds
}

// untilTold waits until exactly these kinds, in this order, begin a server's story.
func (r *rig) untilTold(server string, want ...string) {
	r.t.Helper()
	r.until(strings.Join(want, ", "), func() bool { return len(r.kindsLocked(server)) >= len(want) })
	if got := r.kinds(server)[:len(want)]; !slices.Equal(got, want) {
		r.t.Fatalf("told %v, want %v", got, want)
	}
}

// told returns the data of the nth signal (from 0) of a kind.
func (r *rig) told(server string, kind signal.Kind, n int) *signal.Lifecycle {
	r.t.Helper()
	var found *signal.Lifecycle
	r.until(string(kind), func() bool {
		seen := 0
		for _, s := range r.signals {
			if s.Server == server && s.Kind == kind {
				if seen == n {
					found = s.Data.(*signal.Lifecycle)
					return true
				}
				seen++
			}
		}
		return false
	})
	return found
}

// session returns the nth session made.
func (r *rig) session(n int) *session {
	r.t.Helper()
	r.until("session", func() bool { return len(r.sessions) > n })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[n]
}

func (r *rig) stat(name string) Status {
	r.t.Helper()
	for _, st := range r.Status() {
		if st.Name == name {
			return st
		}
	}
	r.t.Fatalf("no server %q", name)
	return Status{}
}

// apply applies specs and waits until each is ready or has failed once.
func (r *rig) apply(specs ...Spec) {
	r.t.Helper()
	r.Apply(specs)
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	if err := r.Wait(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// fake is the spec of a fake server, with short waits.
func fake(t *testing.T, name string, env ...string) Spec {
	return Spec{
		Name: name, Command: []string{self()}, Dir: t.TempDir(),
		Env:          append([]string{fakeVar + "=" + name, "PATH=" + os.Getenv("PATH"), noNap}, env...),
		StartTimeout: 20 * time.Second,
		Restart:      RestartPolicy{Base: time.Millisecond, Cap: 10 * time.Millisecond},
		Stop:         StopPolicy{CloseWait: 10 * time.Second, TermWait: 10 * time.Second},
	}
}

// eventually polls cond.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// records returns the lines of a record file without their times.
func records(t *testing.T, file string) (lines []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		_, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, what)
	}
	return lines
}

// recordedPIDs returns the pids in a record file.
func recordedPIDs(t *testing.T, file string) (pids []int) {
	t.Helper()
	for _, line := range records(t, file) {
		if s, ok := strings.CutPrefix(line, "pid "); ok {
			pid, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone reports whether no process has that pid, not even a zombie of ours.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
