package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
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
	if err := forks.Start(cmd); err != nil {
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
	if err := forks.Start(&exec.Cmd{Path: "/no/such/program"}); err == nil {
		t.Error("no error")
	}
	done := make(chan struct{})
	go func() { defer close(done); forks.Start(&exec.Cmd{Path: "/no/such/program"}) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the thread does not go on after a failure")
	}
}
