package serverkit

import (
	"os/exec"
	"runtime"
)

// forks starts and reaps all children on one operating system thread that lives
// until stop. The kernel's parent-death signal follows the thread that forked,
// not the process, and the runtime ends threads as it likes. That one thread
// does both also means that on it every child is either known or not ours.
type forks struct {
	jobs    chan func()
	stopped chan struct{}
	known   map[int]bool // children not yet reaped; belongs to the thread
}

func newForks() *forks {
	f := &forks{jobs: make(chan func()), stopped: make(chan struct{}), known: make(map[int]bool)}
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
func (f *forks) do(job func()) {
	done := make(chan struct{})
	f.jobs <- func() { defer close(done); job() }
	<-done
}

// start starts cmd.
func (f *forks) start(cmd *exec.Cmd) (err error) {
	f.do(func() {
		if err = cmd.Start(); err == nil {
			f.known[cmd.Process.Pid] = true
		}
	})
	return err
}

// reap waits for cmd, which must have ended already.
func (f *forks) reap(cmd *exec.Cmd) {
	f.do(func() {
		cmd.Wait() // how it ended is in cmd.ProcessState
		delete(f.known, cmd.Process.Pid)
	})
}

// stop ends the thread's loop. Nothing may follow.
func (f *forks) stop() {
	close(f.jobs)
	<-f.stopped
}
