package serverkit

import (
	"bufio"
	"bytes"
	"math/rand/v2"
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

	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/child"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/proc"
	"golang.org/x/sys/unix"
)

// over reports whether no process of that pid runs. One that an init process
// outside of the test has yet to reap counts as over.
func over(pid int) bool {
	m, ok := proc.Stat(pid)
	return !ok || m.Zombie
}

func allOver(pids []int) bool {
	return !slices.ContainsFunc(pids, func(p int) bool { return !over(p) })
}

// children returns the children of a process.
func children(pid int) (list []proc.Member) {
	for _, m := range proc.Scan("") {
		if m.PPID == pid {
			list = append(list, m)
		}
	}
	return list
}

// platform starts a platform of its own process that runs the named servers,
// and returns it once all are ready and want processes have been recorded.
func platform(t *testing.T, servers string, want int) (pid int, record string, finish func()) {
	t.Helper()
	record = filepath.Join(t.TempDir(), "record")
	c := fakeCmd("daemon")
	c.Env = append(c.Env, "ARG="+servers, "RECORD="+record, noNap)
	c.Stdout, c.Stderr = nil, nil
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(c)
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		for _, pid := range recordedPIDs(t, record) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("the platform says %q, %v", line, err)
	}
	eventually(t, "all processes recorded", func() bool { return len(recordedPIDs(t, record)) == want })
	return c.Process.Pid, record, func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the platform: %v", err)
		}
	}
}

func TestAKilledPlatformLeavesNoProcess(t *testing.T) {
	// six servers, and three grandchildren that tell their own pids
	pid, record, _ := platform(t, "good,immortal,launcher,grandchild,grandchild-session,leave-grandchild", 9)
	pids := recordedPIDs(t, record)
	for _, m := range children(pid) {
		pids = append(pids, m.PID) // the guard among them
	}
	for _, m := range proc.Descend(proc.Scan(""), func(m proc.Member) bool { return m.PID == pid }) {
		if m.PID != pid {
			pids = append(pids, m.PID) // the shell's child
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
	eventually(t, "all gone", func() bool { return allOver(pids) })
}

func TestAPlatformKilledAtAnyMomentLeavesNoProcess(t *testing.T) {
	var marks [][]byte
	left := func() (pids []int) {
		for _, m := range proc.Scan("") {
			env, _ := os.ReadFile("/proc/" + strconv.Itoa(m.PID) + "/environ")
			if slices.ContainsFunc(marks, func(mark []byte) bool { return bytes.Contains(env, mark) }) {
				pids = append(pids, m.PID)
			}
		}
		return pids
	}
	for round := range 10 {
		record := filepath.Join(t.TempDir(), "record")
		marks = append(marks, []byte("RECORD="+record))
		c := fakeCmd("daemon")
		c.Env = append(c.Env, "ARG=immortal,grandchild-session,grandchild,launcher,double-fork", "RECORD="+record, noNap)
		c.Stdout, c.Stderr = nil, nil
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		start(c)
		time.Sleep(time.Duration(round) * 15 * time.Millisecond) // the moment, not a wait for something
		c.Process.Kill()
		c.Wait()
		in.Close()
	}
	// A process in the middle of an exec shows no environment: once is not enough.
	quiet := 0
	eventually(t, "all gone, for good", func() bool {
		if quiet++; len(left()) > 0 {
			quiet = 0
		}
		return quiet == 30
	})
}

func TestAKilledGuardIsReplacedAndTheNextDoesItsWork(t *testing.T) {
	pid, record, _ := platform(t, "grandchild-session,grandchild", 4)
	guards := func() (pids []int) {
		for _, m := range children(pid) {
			if b, _ := os.ReadFile("/proc/" + strconv.Itoa(m.PID) + "/cmdline"); strings.HasPrefix(string(b), "platform-guard") {
				pids = append(pids, m.PID)
			}
		}
		return pids
	}
	first := guards()
	if len(first) != 1 {
		t.Fatalf("guards: %v", first)
	}
	syscall.Kill(first[0], syscall.SIGKILL)
	var second []int
	eventually(t, "another guard", func() bool {
		second = guards()
		return len(second) == 1 && second[0] != first[0]
	})
	syscall.Kill(pid, syscall.SIGKILL)
	eventually(t, "all gone", func() bool { return allOver(append(recordedPIDs(t, record), second...)) })
}

func TestDirectChildrenDieWithThePlatformEvenWithoutAGuard(t *testing.T) {
	pid, record, _ := platform(t, "good,immortal", 2)
	all := children(pid)
	syscall.Kill(pid, syscall.SIGSTOP) // so that it does not replace the guard
	for _, m := range all {
		if !slices.Contains(recordedPIDs(t, record), m.PID) {
			syscall.Kill(m.PID, syscall.SIGKILL)
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
	eventually(t, "all gone", func() bool { return allOver(recordedPIDs(t, record)) })
}

func TestTheGuardIgnoresSignalsAndGoesWhenDismissed(t *testing.T) {
	pid, record, finish := platform(t, "good", 1)
	var guard int
	for _, m := range children(pid) {
		if !slices.Contains(recordedPIDs(t, record), m.PID) {
			guard = m.PID
		}
	}
	eventually(t, "signals ignored", func() bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(guard) + "/status")
		_, rest, _ := strings.Cut(string(b), "SigIgn:\t")
		mask, err := strconv.ParseUint(rest[:min(16, len(rest))], 16, 64)
		return err == nil && mask&(1<<(syscall.SIGTERM-1)) != 0 && mask&(1<<(syscall.SIGHUP-1)) != 0
	})
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		syscall.Kill(guard, sig)
	}
	finish()
	if !over(guard) {
		t.Error("the guard outlives an orderly platform")
	}
}

func TestAPlatformReapsTheOrphansOfItsServers(t *testing.T) {
	pid, _, finish := platform(t, "double-fork", 1)
	eventually(t, "no zombie", func() bool {
		return !slices.ContainsFunc(children(pid), func(m proc.Member) bool { return m.Zombie })
	})
	finish()
}

func TestAnOrphanThatNothingMarksGoesWithThePlatform(t *testing.T) {
	pid, record, finish := platform(t, "grandchild-bare", 2)
	var server, orphan int
	for _, p := range recordedPIDs(t, record) {
		if slices.ContainsFunc(children(pid), func(m proc.Member) bool { return m.PID == p }) {
			server = p
		} else {
			orphan = p
		}
	}
	syscall.Kill(server, syscall.SIGKILL)
	eventually(t, "the orphan is adopted", func() bool {
		return slices.ContainsFunc(children(pid), func(m proc.Member) bool { return m.PID == orphan && !m.Zombie })
	})
	finish()
	eventually(t, "all gone", func() bool { return allOver(recordedPIDs(t, record)) })
}

// daemonised waits until a recorded process has shed all that could tie it to
// its server: its environment, its session and its parent.
func daemonised(t *testing.T, pid, server int) {
	t.Helper()
	eventually(t, "a daemon", func() bool {
		name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		m, ok := proc.Stat(pid)
		return ok && string(name) == "sleep\n" && err == nil && len(env) == 0 && m.Pgrp == pid && m.PPID != server
	})
}

func TestADaemonThatShedEverythingDiesWithTheKilledPlatform(t *testing.T) {
	pid, record, _ := platform(t, "daemonised", 2)
	pids := recordedPIDs(t, record)
	daemonised(t, pids[0], pids[1])
	syscall.Kill(pid, syscall.SIGKILL)
	eventually(t, "all gone", func() bool { return allOver(pids) })
}

func TestADaemonThatShedEverythingGoesWithItsServerAndNoOther(t *testing.T) {
	r := newRig(t)
	var specs []Spec
	records := make(map[string]string)
	for _, name := range []string{"a", "b"} {
		records[name] = filepath.Join(t.TempDir(), "record")
		s := fake(t, "daemonised", "RECORD="+records[name])
		s.Name = name
		specs = append(specs, s)
	}
	r.apply(specs...)
	daemon := func(name string) int { // the latest
		list := recordedPIDs(t, records[name])
		pid := list[len(list)-1]
		t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
		daemonised(t, pid, r.stat(name).PID)
		return pid
	}
	a, b := daemon("a"), daemon("b")
	if err := r.Restart(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if next := daemon("a"); !over(a) || over(next) || over(b) {
		t.Errorf("after a restart the daemon is over: %v, the next: %v, another server's: %v", over(a), over(next), over(b))
	}
	syscall.Kill(r.stat("b").PID, syscall.SIGKILL)
	r.untilTold("b", "started", "crashed", "restarting", "started")
	if !over(b) {
		t.Error("a daemon outlives the crash of its server")
	}
	a, b = daemon("a"), daemon("b")
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !over(a) || !over(b) {
		t.Error("a daemon outlives the shutdown")
	}
}

func TestTheWholeFamilyIsGoneWhenStopReturns(t *testing.T) {
	for _, name := range []string{"grandchild", "grandchild-session", "grandchild-bare", "launcher", "immortal"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			record := filepath.Join(t.TempDir(), "record")
			spec := fake(t, name, "RECORD="+record)
			spec.Stop = StopPolicy{CloseWait: 200 * time.Millisecond, TermWait: 200 * time.Millisecond}
			r.apply(spec)
			if strings.HasPrefix(name, "grandchild") {
				eventually(t, "the grandchild", func() bool { return len(recordedPIDs(t, record)) == 1 })
			}
			var family []int
			leader := r.stat(name).PID
			for _, m := range proc.Descend(proc.Scan(""), func(m proc.Member) bool { return m.PID == leader }) {
				family = append(family, m.PID)
			}
			want := map[string]int{"immortal": 1, "launcher": 3}[name]
			if want == 0 {
				want = 2
			}
			if len(family) != want {
				t.Fatalf("the family is %v, want %d processes", family, want)
			}
			if err := r.Stop(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if !allOver(family) {
				t.Errorf("some of %v are left", family)
			}
		})
	}
}

func TestStoppingClosesStdinThenTerminatesThenKills(t *testing.T) {
	r := newRig(t)
	record := filepath.Join(t.TempDir(), "record")
	spec := fake(t, "record-term", "RECORD="+record)
	spec.Stop = StopPolicy{CloseWait: 300 * time.Millisecond, TermWait: 20 * time.Second}
	r.apply(spec)
	if err := r.Stop(t.Context(), "record-term"); err != nil {
		t.Fatal(err)
	}
	if got := records(t, record); !slices.Equal(got, []string{"eof", "term"}) {
		t.Fatalf("the server saw %v", got)
	}
	b, _ := os.ReadFile(record)
	at := func(line string) int64 {
		ms, _, _ := strings.Cut(line, " ")
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	lines := strings.Split(string(b), "\n")
	// the server notes the end of stdin some moments after it was closed
	if waited := at(lines[1]) - at(lines[0]); waited < 100 {
		t.Errorf("SIGTERM came %d ms after the end of stdin", waited)
	}
	if x := r.stat("record-term").LastExit; x.Code == nil || *x.Code != 0 {
		t.Errorf("exit %+v", x)
	}

	spec = fake(t, "immortal", "RECORD="+record)
	spec.Stop = StopPolicy{CloseWait: time.Millisecond, TermWait: time.Millisecond}
	r.apply(spec)
	if err := r.Stop(t.Context(), "immortal"); err != nil {
		t.Fatal(err)
	}
	if x := r.stat("immortal").LastExit; x.Signal != "SIGKILL" {
		t.Errorf("exit %+v", x)
	}
}

func TestAPlatformWhoseOwnFolderIsGoneRunsServersInOthers(t *testing.T) {
	for dir, want := range map[string]string{"/": "up\n", "": "the server has no working directory"} {
		c := exec.Command("/bin/sh", "-c", `mkdir gone && cd gone && rmdir ../gone && exec "$0"`, self())
		c.Dir = t.TempDir()
		c.Env = append(os.Environ(), fakeVar+"=daemon", "ARG=good", "DIR="+dir, "RECORD="+filepath.Join(t.TempDir(), "record"), noNap)
		out, err := c.Output() // its stdin has ended, so it ends when it is up
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("in %q it says %q, %v; want %q", dir, out, err, want)
		}
	}
}

func TestServersWaitForDescriptorsWithoutCrashing(t *testing.T) {
	r := newRig(t)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: uint64(len(open)) + 50, Max: before.Max}
	restore := func() { unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil) }
	t.Cleanup(restore)
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &low, nil); err != nil {
		t.Fatal(err)
	}
	var specs []Spec
	for n := range 50 { // three descriptors each, at least
		s := fake(t, "good")
		s.Name = "good" + strconv.Itoa(n)
		specs = append(specs, s)
	}
	r.apply(specs...)
	phases := func() (ready, waiting string) {
		for _, st := range r.Status() {
			switch {
			case st.Phase == Ready:
				ready = st.Name
			case st.Phase == Starting && strings.Contains(st.Waiting, "too many open files"):
				waiting = st.Name
			default:
				t.Errorf("status %+v, last exit %+v", st, st.LastExit)
			}
			if st.Crashes > 0 || st.Restarts > 0 || st.LastExit != nil && st.LastExit.Cause != "requested" {
				t.Errorf("status %+v, last exit %+v", st, st.LastExit)
			}
		}
		return ready, waiting
	}
	ready, waiting := phases()
	if ready == "" || waiting == "" {
		t.Fatalf("ready %q, waiting %q: some must be", ready, waiting)
	}
	if now, err := os.ReadDir("/proc/self/fd"); err != nil || len(now) > int(low.Cur)-child.SpareFiles/2 {
		t.Errorf("%d of %d descriptors are in use, %v: too few are left for other work", len(now), low.Cur, err)
	}
	if err := r.Start(t.Context(), waiting); err == nil || !strings.Contains(err.Error(), "too many open files") {
		t.Errorf("asking a waiting server to start says %v", err)
	}
	if err := r.Stop(t.Context(), waiting); err != nil {
		t.Errorf("stopping a waiting server: %v", err)
	}
	if err := r.Stop(t.Context(), ready); err != nil {
		t.Errorf("stopping a server: %v", err)
	}
	restore()
	for _, name := range []string{ready, waiting} {
		if err := r.Start(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "all ready", func() bool {
		return !slices.ContainsFunc(r.Status(), func(st Status) bool { return st.Phase != Ready || st.Waiting != "" })
	})
	phases()
	if kinds := r.kinds(""); slices.Contains(kinds, "crashed") {
		t.Errorf("told %v", kinds)
	}
}

func TestRestartsLeaveNoZombiesThreadsOrDescriptors(t *testing.T) {
	r := newRig(t)
	r.apply(fake(t, "good"))
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := descriptors()
	for range 20 {
		if err := r.Restart(t.Context(), "good"); err != nil {
			t.Fatal(err)
		}
	}
	if after := descriptors(); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
	for _, m := range children(os.Getpid()) {
		if m.Zombie {
			t.Errorf("pid %d is a zombie", m.PID)
		}
	}
}

func TestTheChildsEndsOfThePipesBlockAndOursHaveDeadlines(t *testing.T) {
	r := newRig(t)
	r.apply(fake(t, "good"))
	s := r.session(0)
	if err := s.pipes.Stdout.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("read deadline: %v", err)
	}
	if err := s.pipes.Stdin.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("write deadline: %v", err)
	}
	for fd := range 3 {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(s.in.PID) + "/fdinfo/" + strconv.Itoa(fd))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "flags:\t")
		flags, err := strconv.ParseInt(strings.Fields(rest)[0], 8, 64)
		if err != nil {
			t.Fatal(err)
		}
		if flags&unix.O_NONBLOCK != 0 {
			t.Errorf("descriptor %d of the child does not block", fd)
		}
	}
}

func TestAnIdleServerTakesFewGoroutines(t *testing.T) {
	r := newRig(t)
	before := runtime.NumGoroutine()
	var specs []Spec
	for n := range 10 {
		s := fake(t, "good")
		s.Name = "good" + strconv.Itoa(n)
		specs = append(specs, s)
	}
	r.apply(specs...)
	const kit, session = 3, 1
	eventually(t, "few goroutines", func() bool { return runtime.NumGoroutine()-before <= 10*(kit+session) })
}

func TestOneInstanceOfEachServerThroughAnyDisorder(t *testing.T) {
	r := newRig(t)
	names := []string{"good", "crash-start", "exit-after", "grandchild-session"}
	record := filepath.Join(t.TempDir(), "record")
	var specs []Spec
	for _, name := range names {
		s := fake(t, name, "RECORD="+record)
		s.Stop = StopPolicy{CloseWait: 50 * time.Millisecond, TermWait: 50 * time.Millisecond}
		specs = append(specs, s)
	}
	r.apply(specs...)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 25 {
				name := names[rng.IntN(len(names))]
				switch rng.IntN(5) {
				case 0:
					r.Stop(t.Context(), name)
				case 1:
					r.Start(t.Context(), name)
				case 2:
					r.Restart(t.Context(), name)
				case 3:
					some := slices.Clone(specs)
					i := rng.IntN(len(some))
					r.Apply(slices.Delete(some, i, i+1))
				case 4:
					some := slices.Clone(specs)
					some[rng.IntN(len(some))].Disabled = true
					r.Apply(some)
				}
				r.Status()
			}
		})
	}
	wg.Wait()
	r.apply(specs...)
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := r.alive(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	// In each server's story every start is ended before the next.
	for _, name := range names {
		running := false
		for i, kind := range r.kinds(name) {
			switch kind {
			case "started":
				if running {
					t.Fatalf("%s started twice, at %d of %v", name, i, r.kinds(name))
				}
				running = true
			case "stopped", "crashed":
				running = false
			}
		}
		if running {
			t.Errorf("%s never ended: %v", name, r.kinds(name))
		}
	}
}
