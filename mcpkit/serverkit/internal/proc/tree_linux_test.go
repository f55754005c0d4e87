package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper starts a process whose name is hostile to a careless reader of
// /proc/PID/stat.
func sleeper(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	link := filepath.Join(t.TempDir(), "a) Z 1 (")
	if err := os.Symlink(sleep, link); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: link, Args: []string{"sleep", "3600"}, Env: env, SysProcAttr: ChildAttr()}
	forks := NewForks()
	if err := forks.Start(cmd, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		AwaitExit(cmd)
		forks.Reap(cmd)
		forks.Stop()
	})
	return cmd
}

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	cmd := sleeper(t)
	m, ok := Stat(cmd.Process.Pid)
	if !ok || m.PPID != os.Getpid() || m.Pgrp != m.PID || m.Zombie || m.Start == 0 {
		t.Errorf("read %+v, %v", m, ok)
	}
}

func TestASignalReachesOnlyTheProcessThatWasMeant(t *testing.T) {
	cmd := sleeper(t)
	m, _ := Stat(cmd.Process.Pid)
	stranger := m
	stranger.Start--
	stranger.Signal(syscall.SIGKILL)
	if now, ok := Stat(m.PID); !ok || now.Zombie {
		t.Fatal("a process was killed in place of an earlier one with its number")
	}
	m.Signal(syscall.SIGKILL)
	AwaitExit(cmd)
	if now, ok := Stat(m.PID); !ok || !now.Zombie {
		t.Errorf("after its end the process is %+v, %v; want a zombie until it is reaped", now, ok)
	}
}

func TestTheFamilyIsFoundByTokenGroupAndKin(t *testing.T) {
	marked := sleeper(t, "X=1", TokenVar+"=run/1")
	other := sleeper(t, TokenVar+"=run/11", "Y="+TokenVar+"=run/1")
	tree := NewTree("run/")
	pids := func(list []Member) (pids []int) {
		for _, m := range list {
			pids = append(pids, m.PID)
		}
		return pids
	}
	is := func(got []int, want int) bool { return len(got) == 1 && got[0] == want }
	// exec has happened once the environment shows; Start returns after exec
	if got := pids(tree.Family(-1, "run/1", nil)); !is(got, marked.Process.Pid) {
		t.Errorf("by token: %v, want %d", got, marked.Process.Pid)
	}
	if got := pids(tree.Family(other.Process.Pid, "none", nil)); !is(got, other.Process.Pid) {
		t.Errorf("by group: %v, want %d", got, other.Process.Pid)
	}
	m, _ := Stat(other.Process.Pid)
	if got := pids(tree.Family(-1, "none", map[int]uint64{m.PID: m.Start})); !is(got, m.PID) {
		t.Errorf("by kin: %v, want %d", got, m.PID)
	}
	if got := tree.Family(-1, "none", map[int]uint64{m.PID: m.Start - 1}); len(got) != 0 {
		t.Errorf("a stranger with a known number is taken for kin: %v", got)
	}
}

func TestAMarkIsInheritedWithoutEnvironmentAndTheForkerKeepsNone(t *testing.T) {
	const prefix = "fedcba9876543210/"
	forks := NewForks()
	defer forks.Stop()
	var before, after unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_RTTIME, &before)
	cmd := exec.Command("/bin/sh", "-c", "env -i sleep 3600; exit $?")
	cmd.SysProcAttr = ChildAttr()
	if err := forks.Start(cmd, prefix+"7"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		AwaitExit(cmd)
		forks.Reap(cmd)
	}()
	unix.Getrlimit(unix.RLIMIT_RTTIME, &after)
	if before != after {
		t.Errorf("the forker's limit was %v and is %v", before, after)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		family := NewTree(prefix).Family(-1, prefix+"7", nil)
		if len(family) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("by mark: %v, want the shell and its child", family)
		}
	}
	for _, other := range []string{prefix + "8", "edcba9876543210f/7"} {
		run, _, _ := strings.Cut(other, "/")
		if family := NewTree(run+"/").Family(-1, other, nil); len(family) != 0 {
			t.Errorf("%v are taken for %s", family, other)
		}
	}
}

func TestMarksAreOfHexadecimalRunsAndBoundedStartsAlone(t *testing.T) {
	for token, ok := range map[string]bool{
		"00000000000000ff/1": true, "ffffffffffffffff/16777215": true,
		"00000000000000ff/16777216": false, "run/1": false, "ff/x": false, "ff/": false, "ff": false, "": false,
	} {
		mark, got := markOf(token)
		if got != ok || ok && (mark < markTop || mark >= 2*markTop) {
			t.Errorf("%q: %x, %v", token, mark, got)
		}
	}
	if mark, _ := markOf("00000000000000ff/3"); mark != markTop|0xff<<24|3 {
		t.Errorf("mark %x", mark)
	}
}

func TestOneLookServesAllWhoAskedBefore(t *testing.T) {
	tree := NewTree("run/")
	tree.look()
	began := tree.began
	tree.mu.Lock() // a look goes on
	asked := make(chan []Member)
	for range 10 {
		go func() { asked <- tree.look() }()
	}
	tree.mu.Unlock()
	for range 10 {
		<-asked
	}
	if !tree.began.After(began) {
		t.Error("a look from before the question served it")
	}
}

func TestAGroupWhoseNumberAStrangerHasIsNotKilled(t *testing.T) {
	cmd := sleeper(t)
	m, _ := Stat(cmd.Process.Pid)
	if killed := killOrphans("run/", map[int]uint64{m.PID: m.Start - 1}); len(killed) != 0 {
		t.Fatalf("killed %v", killed)
	}
	if killed := killOrphans("run/", map[int]uint64{m.PID: m.Start}); len(killed) != 1 || killed[0] != m.PID {
		t.Errorf("killed %v, want %d", killed, m.PID)
	}
}

func TestForksReturnsTheErrorOfAFailedStart(t *testing.T) {
	forks := NewForks()
	defer forks.Stop()
	if err := forks.Start(&exec.Cmd{Path: "/no/such/program"}, "a/1"); err == nil {
		t.Error("no error")
	}
	done := make(chan struct{})
	go func() { defer close(done); forks.Start(&exec.Cmd{Path: "/no/such/program"}, "a/1") }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the thread does not go on after a failure")
	}
}
