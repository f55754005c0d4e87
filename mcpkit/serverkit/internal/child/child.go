// Package child is one process of a server, from its spawning to the end of the
// last of its descendants.
//
//	p, err := spawner.Spawn(child.Command{Path: file, Args: argv, Dir: dir, Env: env, Token: token, Stderr: log, Logger: logger})
//	…                 // a session over p.Stdin and p.Stdout
//	<-p.Exited()
//	state := p.End(session, cause, child.Stop{Kind: child.Dead, TermWait: time.Second}, hurry)
//
// Why a process is started or has to end, and what comes of it, is the affair of
// the kit; what the system has to be asked for is done by package proc.
package child

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/mcpkit/sandbox"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/proc"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/stderrlog"
)

// SpareFiles is how many descriptors spawning leaves to the rest of the program:
// to stop servers, and to write down what happens.
const SpareFiles = 16

const (
	// drainWait bounds how long the session may read what an ended process
	// left in its stdout. A grandchild may hold the pipe open for ever, so it
	// also counts as read once it has been empty for emptyFor.
	drainWait = 2 * time.Second
	emptyFor  = 100 * time.Millisecond
	// stderrWait bounds the same for stderr once all processes are gone.
	stderrWait = 500 * time.Millisecond
	// killWarn after SIGKILL a process that is still there is reported: it
	// waits in the kernel, and nothing but patience helps.
	killWarn = 5 * time.Second
)

// Spawner starts processes, one at a time. Its fields are required, as package proc
// makes them.
type Spawner struct {
	Forks *proc.Forks
	Tree  *proc.Tree
	Guard *proc.Guard

	turn sync.Mutex // held while one process is spawned
}

// Command is what to start. All fields but Env, Title and Sandbox are required.
type Command struct {
	Path   string   // of the file to execute; absolute
	Args   []string // the argv, as the process sees it
	Dir    string   // where it begins; absolute
	Env    []string // all of its environment, KEY=VALUE
	Token  string   // of all descendants; begins as the Spawner's Tree wants it
	Title  string   // of this start, before its first line in Stderr
	Stderr *stderrlog.Log
	Logger *slog.Logger
	// Sandbox confines the process. Nil does not. Then the process that Child knows is
	// the first of the sandbox, and the server is its child.
	Sandbox *sandbox.Profile
}

// Child is one process, its group, and whatever descends from it. End must be
// called.
type Child struct {
	// Stdin and Stdout are the ends of its pipes. End closes them.
	Stdin, Stdout *os.File

	cmd    *exec.Cmd
	token  string
	of     *Spawner
	stderr *os.File
	log    *slog.Logger

	box *sandbox.Process // nil where the process is not confined
	// How a confined server ended, if that is known; to be read once exited is closed.
	end   sandbox.End
	known bool

	exited  chan struct{} // closed when the server has ended
	gone    chan struct{} // closed when the process has; a confined server's lives as long as its descendants
	emptied chan struct{}
	closed  chan struct{} // closed when the pipes are, by End
	drained chan struct{} // closed when stderr has ended

	// kin are the descendants as they were when the end began, by pid, with
	// their start times: one that hides from the group and from the token is
	// known by its ancestors, but only while those live.
	kin map[int]uint64
}

// PID is the process's id, and its group's. It stays taken until End returns.
func (p *Child) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process itself has ended.
func (p *Child) Exited() <-chan struct{} { return p.exited }

// Emptied is closed after Exited, when nothing of the process's is left in Stdout,
// or has been for too long.
func (p *Child) Emptied() <-chan struct{} { return p.emptied }

// family returns the living processes of this instance, the leader included.
func (p *Child) family() []proc.Member { return p.of.Tree.Family(p.PID(), p.token, p.kin) }

// Spawn starts c in a process group of its own, with pipes of its own. The error
// wraps EMFILE also where so few descriptors are left that other work needs them.
func (s *Spawner) Spawn(c Command) (*Child, error) {
	// Pipes of our own and not those of exec.Cmd: Wait must not close them
	// before the session has read them to the end.
	var ends [6]*os.File
	shut := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	cmd, err := s.fork(c, &ends, shut)
	if err != nil {
		return nil, err
	}
	if cmd.box != nil {
		if err := cmd.box.Begin(); err != nil {
			cmd.Process.Kill()
			proc.AwaitExit(cmd.Cmd)
			s.Forks.Reap(cmd.Cmd)
			shut(ends[1], ends[2], ends[4])
			return nil, startError(c.Path, err)
		}
	}
	p := &Child{
		Stdin: ends[1], Stdout: ends[2],
		cmd:     cmd.Cmd,
		box:     cmd.box,
		token:   c.Token,
		of:      s,
		stderr:  ends[4],
		log:     c.Logger.With("pid", cmd.Process.Pid),
		exited:  make(chan struct{}),
		gone:    make(chan struct{}),
		emptied: make(chan struct{}),
		closed:  make(chan struct{}),
		drained: make(chan struct{}),
	}
	s.Guard.Add(p.PID())
	go func() {
		defer close(p.drained)
		c.Stderr.Note("%s", c.Title) // not before: who waits for descriptors must not open a file
		c.Stderr.Drain(p.stderr)
	}()
	go func() {
		defer close(p.emptied)
		p.awaitExit()
		close(p.exited)
		p.awaitEmpty()
	}()
	return p, nil
}

// forked is a process that has been started, and its sandbox, if it has one.
type forked struct {
	*exec.Cmd
	box *sandbox.Process
}

// fork makes the pipes, starts the process and closes its ends of them.
func (s *Spawner) fork(c Command, ends *[6]*os.File, shut func(...*os.File)) (*forked, error) {
	// One at a time, so that where descriptors are short one gets all it needs.
	s.turn.Lock()
	defer s.turn.Unlock()
	var err error
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			shut(ends[:]...)
			return nil, fmt.Errorf("making pipes: %w", err)
		}
	}
	if err := leavesRoom(ends[5]); err != nil {
		shut(ends[:]...)
		return nil, err
	}
	cmd := &exec.Cmd{
		Path:  c.Path,
		Args:  c.Args,
		Dir:   c.Dir,
		Env:   c.Env,
		Stdin: ends[0], Stdout: ends[3], Stderr: ends[5],
		SysProcAttr: proc.ChildAttr(),
	}
	var box *sandbox.Process
	if c.Sandbox != nil {
		if box, err = sandbox.Confine(cmd, c.Sandbox); err != nil {
			shut(ends[:]...)
			return nil, err
		}
		box.SetEnv(proc.TokenVar + "=" + c.Token)
	}
	err = s.Forks.Start(cmd, c.Token)
	shut(ends[0], ends[3], ends[5])
	if err != nil {
		shut(ends[1], ends[2], ends[4])
		if box != nil {
			box.Abandon()
		}
		return nil, startError(c.Path, err)
	}
	return &forked{cmd, box}, nil
}

// awaitExit returns when the server has ended, which is not always the process: the
// first process of a sandbox waits for the descendants of the server too.
func (p *Child) awaitExit() {
	awaitGone := func() {
		defer close(p.gone)
		proc.AwaitExit(p.cmd)
	}
	if p.box != nil {
		go awaitGone()
		end, known := <-p.box.Ended()
		if p.end, p.known = end, known; known && !end.Alone {
			return
		}
		<-p.gone
		return
	}
	awaitGone()
}

// State is how a server ended.
type State struct {
	Status   syscall.WaitStatus
	Exceeded string // the limit that it was ended for, as a sentence; or empty
}

// ExitCode is the code that the server exited with, or -1 where a signal ended it.
func (s *State) ExitCode() int { return s.Status.ExitStatus() }

// state is known once the process is reaped; nil where it is not known.
func (p *Child) state() *State {
	if p.known {
		return &State{p.end.Status, p.end.Exceeded}
	}
	if p.cmd.ProcessState == nil {
		return nil
	}
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return &State{Status: status}
}

// startError explains the error of an exec.
func startError(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was there a moment ago
		return fmt.Errorf("%w (is the interpreter in its first line, or its loader, installed?)", err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w (%s is for another kind of machine, or a script without #! line)", err, file)
	}
	return err
}

// Wait reports whether the process ends within d. hurry cuts the wait short.
func (p *Child) Wait(d time.Duration, hurry <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-hurry:
	case <-t.C:
	}
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// awaitEmpty returns when stdout holds nothing that the leader, which has ended,
// can have written.
func (p *Child) awaitEmpty() {
	deadline := time.Now().Add(drainWait)
	for since := time.Now(); time.Since(since) < emptyFor; {
		if n, err := proc.Unread(p.Stdout); err != nil || time.Now().After(deadline) {
			return
		} else if n > 0 {
			since = time.Now()
		}
		select {
		case <-p.closed:
			return
		case <-time.After(emptyFor / 5):
		}
	}
}

// Kind says where in the stop sequence to begin.
type Kind int

const (
	Gently Kind = iota // close stdin and wait
	Dead               // the process has ended: only what it left behind
	Now                // SIGKILL at once
)

// Stop is how a process is ended.
type Stop struct {
	Kind      Kind
	CloseWait time.Duration // after stdin was closed
	TermWait  time.Duration // after SIGTERM
}

// Session is what runs over the pipes.
type Session interface {
	Close(cause error)
	Done() <-chan struct{}
}

// End ends the instance: the session, which may be nil, the leader, its group and
// every other descendant. It returns when all are gone and the leader is reaped,
// with nil where its exit is unknown. The steps are those of the MCP
// specification, 2025-11-25, basic/lifecycle, section Shutdown, stdio: close the
// input stream to the server, wait for it to exit, send SIGTERM if it does not
// exit in reasonable time, and SIGKILL if it still does not. Each signal goes to
// the whole group, as servers are often started by a launcher (npx, sh -c) that
// dies alone. hurry cuts all waits short.
func (p *Child) End(sess Session, cause error, how Stop, hurry <-chan struct{}) *State {
	p.kin = make(map[int]uint64)
	for _, m := range p.family() {
		p.kin[m.PID] = m.Start
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		switch {
		case sess == nil:
			// Nobody reads; a server that flushes on its way out must not block.
			p.Stdin.Close()
			io.Copy(io.Discard, p.Stdout)
		case how.Kind != Dead || len(p.kin) > 0:
			// Of a dead leader's session all is read, but where others hold
			// the pipe it does not see the end, and calls still wait.
			sess.Close(cause)
		}
	}()

	termed := false
	if how.Kind == Gently && !p.Wait(how.CloseWait, hurry) {
		termed = true
		p.signalAll(syscall.SIGTERM)
		p.Wait(how.TermWait, hurry)
	}
	if how.Kind != Now {
		p.settleRest(termed, how.TermWait, hurry)
	}
	p.killAll()
	select {
	case <-p.gone:
	case <-time.After(killWarn):
		p.log.Error("the process does not go away after SIGKILL")
		<-p.gone
	}
	<-p.exited

	// All writers are gone, so what is left in the pipes has an end.
	if sess != nil {
		select {
		case <-sess.Done():
		case <-time.After(drainWait):
		}
		sess.Close(cause)
	}
	p.ClosePipes()
	close(p.closed)
	select {
	case <-p.drained:
	case <-time.After(stderrWait):
	}
	p.stderr.Close()
	<-p.drained
	<-p.emptied
	<-told
	p.of.Forks.Reap(p.cmd)
	p.of.Guard.Del(p.PID())
	return p.state()
}

// ClosePipes takes the pipes away from a session that does not let go of them.
func (p *Child) ClosePipes() {
	p.Stdin.Close()
	p.Stdout.Close()
}

// signalGroup signals the group. The leader is not reaped before End is done
// with it, so the number cannot have passed to another group.
func (p *Child) signalGroup(sig syscall.Signal) {
	if err := syscall.Kill(-p.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.log.Warn("signalling the process group", "signal", sig, "err", err)
	}
}

// signalAll signals the group and the descendants that left it.
func (p *Child) signalAll(sig syscall.Signal) {
	p.signalGroup(sig)
	for _, m := range p.family() {
		if m.Pgrp != p.PID() {
			m.Signal(sig)
		}
	}
}

// settleRest gives descendants that outlive the leader the time to end that
// the leader had.
func (p *Child) settleRest(termed bool, wait time.Duration, hurry <-chan struct{}) {
	select {
	case <-p.exited:
	default:
		return // the leader itself has not ended in time
	}
	deadline := time.Now().Add(wait)
	for pause := 5 * time.Millisecond; len(p.family()) > 0; pause = min(2*pause, 100*time.Millisecond) {
		if !termed {
			termed = true
			p.signalAll(syscall.SIGTERM)
		}
		select {
		case <-hurry:
			return
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return
		}
	}
}

// killAll kills the group and every descendant, again until none is left: one
// that forks meanwhile must not get away. Where there was anything to kill, two
// looks must show nothing, as a process has no environment, and so no token, in
// the middle of an exec.
func (p *Child) killAll() {
	p.signalGroup(syscall.SIGKILL)
	for round, quiet := 0, 0; round < 20; round++ {
		rest := p.family()
		for _, m := range rest {
			m.Signal(syscall.SIGKILL)
		}
		if len(rest) > 0 {
			quiet = 0
		} else if quiet++; quiet == 2 || round == 0 {
			return
		}
		time.Sleep(time.Duration(round+1) * 5 * time.Millisecond)
	}
	p.log.Error("descendants do not go away after SIGKILL", "pids", pids(p.family()))
}

func pids(list []proc.Member) (pids []int) {
	for _, m := range list {
		pids = append(pids, m.PID)
	}
	return pids
}

// leavesRoom returns an error that is EMFILE if fewer than SpareFiles
// descriptors are free beyond f, which was just opened: a new descriptor is
// always the lowest that is free (open(2)).
func leavesRoom(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var number uint64
	if err := conn.Control(func(fd uintptr) { number = uint64(fd) }); err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // unknown, so it is tried
	}
	if most := uint64(limit.Cur); number+SpareFiles >= most {
		return fmt.Errorf("%w: the limit is %d (ulimit -n), of which %d are kept for other work", syscall.EMFILE, most, SpareFiles)
	}
	return nil
}
