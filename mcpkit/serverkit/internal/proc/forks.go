// Package proc knows processes as the operating system does: it forks them so
// that they die with this process, finds their descendants, and keeps a guard that
// ends these if this process is killed. It knows nothing of servers and sessions.
//
//	forks := proc.NewForks()
//	guard := proc.NewGuard(prefix, "", forks, log)
//	err := forks.Start(cmd, prefix+"1")
//	guard.Add(cmd.Process.Pid)
//	…
//	proc.AwaitExit(cmd)
//	for _, m := range proc.NewTree(prefix).Family(cmd.Process.Pid, prefix+"1", nil) {
//		m.Signal(syscall.SIGKILL)
//	}
//	guard.Del(cmd.Process.Pid)
//	forks.Reap(cmd)
package proc

import (
	"os/exec"
	"runtime"
)

// TokenVar is the environment variable that holds the token of descendants. The
// tokens of one program run share a prefix: RUN/START, where RUN is random and
// hexadecimal and START counts.
const TokenVar = "AURORA_INSTANCE"

// Forks starts and reaps all children on one operating system thread that lives
// until Stop. The kernel's parent-death signal follows the thread that forked,
// not the process, and the runtime ends threads as it likes. That one thread
// does both also means that on it every child is either known or not ours.
type Forks struct {
	jobs    chan func()
	stopped chan struct{}
	known   map[int]bool // children not yet reaped; belongs to the thread
}

// NewForks starts the thread.
func NewForks() *Forks {
	f := &Forks{jobs: make(chan func()), stopped: make(chan struct{}), known: make(map[int]bool)}
	go func() {
		defer close(f.stopped)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for job := range f.jobs {
			job()
		}
	}()
	return f
}

// do runs job on the thread and returns when it has run.
func (f *Forks) do(job func()) {
	done := make(chan struct{})
	f.jobs <- func() { defer close(done); job() }
	<-done
}

// Start starts cmd. It and all its descendants are known by token, unless that
// is empty.
func (f *Forks) Start(cmd *exec.Cmd, token string) (err error) {
	if token != "" {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], TokenVar+"="+token) // the last of repeated keys wins
	}
	f.do(func() {
		if err = marked(token, cmd.Start); err == nil {
			f.known[cmd.Process.Pid] = true
		}
	})
	return err
}

// Reap waits for cmd, which must have ended already.
func (f *Forks) Reap(cmd *exec.Cmd) {
	f.do(func() {
		cmd.Wait() // how it ended is in cmd.ProcessState
		delete(f.known, cmd.Process.Pid)
	})
}

// Stop ends the thread's loop. Nothing may follow.
func (f *Forks) Stop() {
	close(f.jobs)
	<-f.stopped
}
