package serverkit

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The environment of the guard process.
const (
	guardVar    = "AURORA_SERVERKIT_GUARD"     // the prefix of the tokens to look for
	guardLogVar = "AURORA_SERVERKIT_GUARD_LOG" // where to note what was killed; may be empty
)

// guardHooked is set once this program has shown that it can be a guard.
// Executing a program that does not call RunGuardIfAsked would only start it
// again, endlessly.
var guardHooked atomic.Bool

// RunGuardIfAsked must be the first thing that main, and TestMain, calls. It
// returns at once unless the program was started by a kit as its guard; then it
// does that work and exits.
func RunGuardIfAsked() {
	prefix, asked := os.LookupEnv(guardVar)
	if !asked {
		guardHooked.Store(true)
		return
	}
	guardMain(prefix, os.Getenv(guardLogVar), os.NewFile(3, "platform"))
	syscall.Exit(0) // nothing is to be flushed or finalized
}

// guard is the kit's side: it starts the guard process, starts another if that
// ends, and tells it of every process group. All methods do nothing on nil.
type guard struct {
	prefix, logPath string
	forks           *forks
	log             *slog.Logger
	closing         chan struct{}
	done            chan struct{}

	mu     sync.Mutex
	cmd    *exec.Cmd
	pipe   *os.File
	groups map[int]uint64 // leader to start time
}

// newGuard returns nil where there can be no guard.
func newGuard(prefix, logPath string, forks *forks, log *slog.Logger) *guard {
	if !guardHooked.Load() {
		log.Warn("this program does not call serverkit.RunGuardIfAsked: descendants of servers may outlive it if it is killed")
		return nil
	}
	g := &guard{prefix: prefix, logPath: logPath, forks: forks, log: log,
		closing: make(chan struct{}), done: make(chan struct{}), groups: make(map[int]uint64)}
	go g.keep()
	return g
}

// keep has one guard process running until close.
func (g *guard) keep() {
	defer close(g.done)
	for {
		if cmd, err := g.start(); err != nil {
			g.log.Error("starting the guard process: servers may outlive a killed platform", "err", err)
		} else if cmd != nil {
			awaitExit(cmd)
			g.forks.reap(cmd)
		}
		select {
		case <-g.closing:
			return
		default:
			g.log.Warn("the guard process ended; starting another")
		}
		select {
		case <-g.closing:
			return
		case <-time.After(time.Second):
		}
	}
}

// start starts a guard process and tells it of all groups. It returns nil if
// the guard was closed meanwhile.
func (g *guard) start() (*exec.Cmd, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.closing:
		return nil, nil
	default:
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := &exec.Cmd{
		// Not os.Executable: the file may have been replaced by an upgrade.
		Path:       "/proc/self/exe",
		Args:       []string{"platform-guard"},
		Dir:        "/",
		Env:        []string{guardVar + "=" + g.prefix, guardLogVar + "=" + g.logPath, "GOMAXPROCS=1"},
		ExtraFiles: []*os.File{r},
		// A session of its own: neither Ctrl-C nor a hang-up reaches it.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := g.forks.start(cmd); err != nil {
		w.Close()
		return nil, err
	}
	if g.pipe != nil {
		g.pipe.Close()
	}
	g.cmd, g.pipe = cmd, w
	for pid, start := range g.groups {
		g.tell("add %d %d\n", pid, start)
	}
	return cmd, nil
}

// tell writes one line to the guard process. One that does not read is
// killed, and keep replaces it.
func (g *guard) tell(format string, args ...any) {
	if g.pipe == nil {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprintf(g.pipe, format, args...); err != nil && g.cmd != nil {
		g.cmd.Process.Kill()
	}
}

func (g *guard) add(pid int) {
	if g == nil {
		return
	}
	var m member
	readStat(pid, &m)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[pid] = m.start
	g.tell("add %d %d\n", pid, m.start)
}

func (g *guard) del(pid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, pid)
	g.tell("del %d\n", pid)
}

// close dismisses the guard process and waits for it.
func (g *guard) close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	close(g.closing)
	g.tell("bye\n")
	cmd := g.cmd
	g.mu.Unlock()
	select {
	case <-g.done:
	case <-time.After(2 * time.Second):
		if cmd != nil {
			cmd.Process.Kill()
		}
		<-g.done
	}
	if g.pipe != nil {
		g.pipe.Close()
	}
}

// guardMain is the guard process. It follows the platform's words until the
// pipe ends. After "bye" it has nothing to do; without it the platform has died,
// and all that it started must die too.
func guardMain(prefix, logPath string, pipe io.Reader) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	groups := make(map[int]uint64)
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		var pid int
		var start uint64
		line := lines.Text()
		if line == "bye" {
			return
		}
		if n, _ := fmt.Sscanf(line, "add %d %d", &pid, &start); n == 2 {
			groups[pid] = start
		} else if n, _ := fmt.Sscanf(line, "del %d", &pid); n == 1 {
			delete(groups, pid)
		}
	}
	killed := killOrphans(prefix, groups)
	if len(killed) == 0 || logPath == "" {
		return
	}
	f, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s the platform ended without stopping its servers; killed %d processes: %s\n",
		time.Now().UTC().Format(time.RFC3339), len(killed), strings.Trim(fmt.Sprint(killed), "[]"))
}

// killOrphans kills all processes that carry a token, are in a recorded group,
// or descend from one of these, and looks again until there are none: a child
// that was being forked when the platform died shows its token only after exec.
// It returns the pids.
func killOrphans(prefix string, groups map[int]uint64) []int {
	var killed []int
	seen := make(map[member]bool)
	for quiet, round := 0, 0; quiet < 3 && round < 100; round++ {
		all := scan(prefix)
		reused := make(map[int]bool) // leaders whose number a stranger has by now
		for _, m := range all {
			if start, ok := groups[m.pid]; ok && m.start != start {
				reused[m.pid] = true
			}
		}
		found := descend(all, func(m member) bool {
			start, ours := groups[m.pgrp]
			return m.token != "" || ours && m.start >= start && !reused[m.pgrp]
		})
		quiet++
		for _, m := range found {
			quiet = 0
			m.signal(syscall.SIGKILL)
			if !seen[m] {
				seen[m] = true
				killed = append(killed, m.pid)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return killed
}
