package proc

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

// guardPause is how long a guard process must have lived for the next to be
// started at once; one that fails again and again must not keep a processor busy.
const guardPause = time.Second

// guardHooked is set once this program has shown that it can be a guard.
// Executing a program that does not call RunGuardIfAsked would only start it
// again, endlessly.
var guardHooked atomic.Bool

// RunGuardIfAsked must be the first thing that main, and TestMain, calls. It
// returns at once unless the program was started as a guard; then it
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

// Guard is the platform's side of the guard process: it starts the guard process, starts another if that
// ends, and tells it of every process group. All methods do nothing on nil.
type Guard struct {
	prefix, logPath string
	forks           *Forks
	log             *slog.Logger
	closing         chan struct{}
	done            chan struct{}

	mu     sync.Mutex
	cmd    *exec.Cmd
	pipe   *os.File
	groups map[int]uint64 // leader to start time
}

// NewGuard starts a guard process, so that it is there before the first child. It
// returns nil where there can be none.
func NewGuard(prefix, logPath string, forks *Forks, log *slog.Logger) *Guard {
	if !guardHooked.Load() {
		log.Warn("this program does not call serverkit.RunGuardIfAsked: descendants of servers may outlive it if it is killed")
		return nil
	}
	g := &Guard{prefix: prefix, logPath: logPath, forks: forks, log: log,
		closing: make(chan struct{}), done: make(chan struct{}), groups: make(map[int]uint64)}
	cmd := g.start()
	go g.keep(cmd)
	return g
}

// keep replaces the guard process whenever it ends, until Close.
func (g *Guard) keep(cmd *exec.Cmd) {
	defer close(g.done)
	for {
		began := time.Now()
		if cmd != nil {
			AwaitExit(cmd)
			g.forks.Reap(cmd)
		}
		select {
		case <-g.closing:
			return
		default:
			g.log.Warn("there is no guard process; starting another")
		}
		if time.Since(began) < guardPause {
			select {
			case <-g.closing:
			case <-time.After(guardPause):
			}
		}
		cmd = g.start()
	}
}

// start starts a guard process and tells it of all groups. It returns nil if
// that failed or the guard was closed meanwhile.
func (g *Guard) start() *exec.Cmd {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.closing:
		return nil
	default:
	}
	const failed = "starting the guard process: servers may outlive a killed platform"
	r, w, err := os.Pipe()
	if err != nil {
		g.log.Error(failed, "err", err)
		return nil
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
	if err := g.forks.Start(cmd, ""); err != nil {
		w.Close()
		g.log.Error(failed, "err", err)
		return nil
	}
	if g.pipe != nil {
		g.pipe.Close()
	}
	g.cmd, g.pipe = cmd, w
	for pid, start := range g.groups {
		g.tell("add %d %d\n", pid, start)
	}
	return cmd
}

// tell writes one line to the guard process. One that does not read is
// killed, and keep replaces it.
func (g *Guard) tell(format string, args ...any) {
	if g.pipe == nil {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprintf(g.pipe, format, args...); err != nil && g.cmd != nil {
		g.cmd.Process.Kill()
	}
}

// Add tells of a process that leads a group.
func (g *Guard) Add(pid int) {
	if g == nil {
		return
	}
	m, _ := Stat(pid)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[pid] = m.Start
	g.tell("add %d %d\n", pid, m.Start)
}

// Del tells that a group is gone.
func (g *Guard) Del(pid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, pid)
	g.tell("del %d\n", pid)
}

// Close dismisses the guard process and waits for it.
func (g *Guard) Close() {
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
// or descend from one of these, and looks again until a whole second has shown
// none: in the middle of an exec a process has no environment to be known by.
// It returns the pids.
func killOrphans(prefix string, groups map[int]uint64) []int {
	var killed []int
	seen := make(map[Member]bool)
	for quiet, round := 0, 0; quiet < 10 && round < 100; round++ {
		all := Scan(prefix)
		reused := make(map[int]bool) // leaders whose number a stranger has by now
		for _, m := range all {
			if start, ok := groups[m.PID]; ok && m.Start != start {
				reused[m.PID] = true
			}
		}
		found := Descend(all, func(m Member) bool {
			start, ours := groups[m.Pgrp]
			return m.Token != "" || ours && m.Start >= start && !reused[m.Pgrp]
		})
		quiet++
		for _, m := range found {
			quiet = 0
			m.Signal(syscall.SIGKILL)
			if !seen[m] {
				seen[m] = true
				killed = append(killed, m.PID)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return killed
}
