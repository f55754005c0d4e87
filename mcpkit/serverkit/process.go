package serverkit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/proc"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/stderrlog"
)

const (
	// exitGrace is how long a process whose session ended first may take to
	// end by itself, so that its exit code is known and not ours.
	exitGrace = time.Second
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

// process is one child, its group, and whatever descends from it.
type process struct {
	cmd    *exec.Cmd
	token  string // of all descendants
	tree   *proc.Tree
	forks  *proc.Forks
	pipes  Pipes
	stderr *os.File
	log    *slog.Logger

	spawned time.Time
	exited  chan struct{} // closed when the leader has ended; it stays a zombie until end reaps it
	emptied chan struct{} // closed after exited, when nothing of the leader's is left in stdout
	closed  chan struct{} // closed when the pipes are, by end
	drained chan struct{} // closed when stderr has ended

	// kin are the descendants as they were when the end began, by pid, with
	// their start times: one that hides from the group and from the token is
	// known by its ancestors, but only while those live.
	kin map[int]uint64
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// family returns the living processes of this instance, the leader included.
func (p *process) family() []proc.Member { return p.tree.Family(p.pid(), p.token, p.kin) }

// spawn starts spec's command in its own process group, with pipes of its own.
// It returns what was executed even where that failed.
func (k *Kit) spawn(spec Spec, token string, number int, out *stderrlog.Log) (*process, []string, error) {
	argv := slices.Clone(spec.Command)
	if len(argv) == 0 {
		return nil, argv, errors.New("the command is empty")
	}
	if spec.Dir == "" {
		return nil, argv, errors.New("the server has no working directory, and the folder that the platform was started in is gone")
	}
	if !filepath.IsAbs(spec.Dir) {
		return nil, argv, fmt.Errorf("the working directory %q is not absolute", spec.Dir)
	}
	if info, err := os.Stat(spec.Dir); err != nil {
		return nil, argv, fmt.Errorf("the working directory: %w", err)
	} else if !info.IsDir() {
		return nil, argv, fmt.Errorf("the working directory %s is not a directory", spec.Dir)
	}
	file, err := ResolveCommand(argv[0], spec.Dir, getenv(spec.Env, "PATH"), k.exeDir)
	if err != nil {
		return nil, argv, err
	}
	argv[0] = file

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
	// One at a time, so that where descriptors are short one gets all it needs.
	k.spawning.Lock()
	defer k.spawning.Unlock()
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			shut(ends[:]...)
			return nil, argv, fmt.Errorf("making pipes: %w", err)
		}
	}
	if err := leavesRoom(ends[5]); err != nil {
		shut(ends[:]...)
		return nil, argv, err
	}
	cmd := &exec.Cmd{
		Path:  file,
		Args:  slices.Clone(spec.Command),
		Dir:   spec.Dir,
		Env:   spec.Env,
		Stdin: ends[0], Stdout: ends[3], Stderr: ends[5],
		SysProcAttr: proc.ChildAttr(),
	}
	err = k.forks.Start(cmd, token)
	shut(ends[0], ends[3], ends[5])
	if err != nil {
		shut(ends[1], ends[2], ends[4])
		return nil, argv, startError(file, err)
	}
	p := &process{
		cmd:     cmd,
		token:   token,
		tree:    k.tree,
		forks:   k.forks,
		pipes:   Pipes{Stdin: ends[1], Stdout: ends[2]},
		stderr:  ends[4],
		log:     k.log.With("server", spec.Name, "pid", cmd.Process.Pid),
		spawned: k.now(),
		exited:  make(chan struct{}),
		emptied: make(chan struct{}),
		closed:  make(chan struct{}),
		drained: make(chan struct{}),
	}
	k.guard.Add(p.pid())
	go func() {
		defer close(p.drained)
		out.Note("start %d", number) // not before: who waits for descriptors must not open a file
		out.Drain(p.stderr)
	}()
	go func() {
		defer close(p.emptied)
		proc.AwaitExit(cmd)
		close(p.exited)
		p.awaitEmpty()
	}()
	return p, argv, nil
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

// wait reports whether the leader ends within d. hurry cuts the wait short.
func (p *process) wait(d time.Duration, hurry <-chan struct{}) bool {
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
func (p *process) awaitEmpty() {
	deadline := time.Now().Add(drainWait)
	for since := time.Now(); time.Since(since) < emptyFor; {
		if n, err := proc.Unread(p.pipes.Stdout); err != nil || time.Now().After(deadline) {
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

// stopKind says where in the stop sequence to begin.
type stopKind int

const (
	stopGently stopKind = iota // close stdin and wait
	stopDead                   // the leader has ended: only what it left behind
	stopNow                    // SIGKILL at once
)

// end ends the instance: the session, the leader, its group and every other
// descendant. It returns when all are gone and the leader is reaped. The steps
// are those of the MCP specification, 2025-11-25, basic/lifecycle, section
// Shutdown, stdio: close the input stream to the server, wait for it to exit,
// send SIGTERM if it does not exit in reasonable time, and SIGKILL if it still
// does not. Each signal goes to the whole group, as servers are often started
// by a launcher (npx, sh -c) that dies alone. hurry cuts all waits short.
func (p *process) end(sess Session, cause error, kind stopKind, policy StopPolicy, hurry <-chan struct{}) *os.ProcessState {
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
			p.pipes.Stdin.Close()
			io.Copy(io.Discard, p.pipes.Stdout)
		case kind != stopDead || len(p.kin) > 0:
			// Of a dead leader's session all is read, but where others hold
			// the pipe it does not see the end, and calls still wait.
			sess.Close(cause)
		}
	}()

	termed := false
	if kind == stopGently && !p.wait(policy.CloseWait, hurry) {
		termed = true
		p.signalAll(syscall.SIGTERM)
		p.wait(policy.TermWait, hurry)
	}
	if kind != stopNow {
		p.settleRest(termed, policy.TermWait, hurry)
	}
	p.killAll()
	if !p.wait(killWarn, nil) {
		p.log.Error("the process does not go away after SIGKILL")
		<-p.exited
	}

	// All writers are gone, so what is left in the pipes has an end.
	if sess != nil {
		select {
		case <-sess.Done():
		case <-time.After(drainWait):
		}
		sess.Close(cause)
	}
	p.closePipes()
	close(p.closed)
	select {
	case <-p.drained:
	case <-time.After(stderrWait):
	}
	p.stderr.Close()
	<-p.drained
	<-p.emptied
	<-told
	p.forks.Reap(p.cmd)
	return p.cmd.ProcessState
}

func (p *process) closePipes() {
	p.pipes.Stdin.Close()
	p.pipes.Stdout.Close()
}

// signalGroup signals the group. The leader is not reaped before end is done
// with it, so the number cannot have passed to another group.
func (p *process) signalGroup(sig syscall.Signal) {
	if err := syscall.Kill(-p.pid(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.log.Warn("signalling the process group", "signal", sig, "err", err)
	}
}

// signalAll signals the group and the descendants that left it.
func (p *process) signalAll(sig syscall.Signal) {
	p.signalGroup(sig)
	for _, m := range p.family() {
		if m.Pgrp != p.pid() {
			m.Signal(sig)
		}
	}
}

// settleRest gives descendants that outlive the leader the time to end that
// the leader had.
func (p *process) settleRest(termed bool, wait time.Duration, hurry <-chan struct{}) {
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
func (p *process) killAll() {
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
