package proc

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapPause gathers the deaths of a moment into one look at /proc.
const reapPause = 200 * time.Millisecond

// Reaper makes this process the parent of all orphans among its descendants,
// and reaps them.
type Reaper struct {
	forks *Forks
	stop  chan struct{}
	done  chan struct{}
}

// NewReaper begins to adopt orphans, until Close.
func NewReaper(forks *Forks) (*Reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	r := &Reaper{forks: forks, stop: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	return r, nil
}

func (r *Reaper) run() {
	defer close(r.done)
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	defer signal.Stop(deaths)
	for {
		select {
		case <-deaths:
		case <-r.stop:
			return
		}
		select {
		case <-time.After(reapPause):
		case <-r.stop:
			return
		}
		if anyEnded() {
			r.reap()
		}
	}
}

// anyEnded reports whether some child waits to be reaped, without a look at
// /proc.
func anyEnded() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

// reap reaps the orphans that have ended and returns those that live. Orphans
// are our children that neither we nor os/exec started: those in a group other
// than ours that no server leads.
func (r *Reaper) reap() (living []Member) {
	self, group := os.Getpid(), syscall.Getpgrp()
	r.forks.do(func() {
		for _, m := range Scan("") {
			switch {
			case m.PPID != self || m.Pgrp == group || r.forks.known[m.PID]:
			case m.Zombie:
				syscall.Wait4(m.PID, nil, syscall.WNOHANG, nil)
			default:
				living = append(living, m)
			}
		}
	})
	return living
}

// Close kills and reaps the orphans that are left. Call it when all servers
// have ended.
func (r *Reaper) Close() {
	if r == nil {
		return
	}
	close(r.stop)
	<-r.done
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for range 100 {
		living := r.reap()
		if len(living) == 0 {
			return
		}
		for _, m := range living {
			m.Signal(syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
