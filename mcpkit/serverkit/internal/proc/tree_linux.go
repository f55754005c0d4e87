package proc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Member is a process as /proc shows it.
type Member struct {
	PID, PPID, Pgrp int
	Zombie          bool
	Start           uint64 // clock ticks after boot; with PID it is unique
	Token           string // by mark or by TokenVar, if it begins with the prefix asked for
}

// Signal sends sig to the process that m was, and to no other that has taken
// its number since.
func (m Member) Signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(m.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if errors.Is(err, unix.ESRCH) {
		return
	}
	if now, ok := Stat(m.PID); !ok || now.Start != m.Start {
		return
	}
	if err == nil {
		unix.PidfdSendSignal(fd, sig, nil, 0)
		return
	}
	syscall.Kill(m.PID, sig) // an old kernel: a moment of uncertainty remains
}

// Stat returns a process, without its token, from /proc/PID/stat; see
// proc_pid_stat(5).
func Stat(pid int) (m Member, ok bool) {
	var buf [1024]byte
	b, ok := readProc(pid, "stat", buf[:])
	if !ok {
		return m, false
	}
	// The name in parentheses may itself hold spaces and parentheses.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return m, false
	}
	m.PID = pid
	m.Zombie = f[0][0] == 'Z' || f[0][0] == 'X'
	m.PPID, _ = strconv.Atoi(string(f[1]))
	m.Pgrp, _ = strconv.Atoi(string(f[2]))
	m.Start, _ = strconv.ParseUint(string(f[19]), 10, 64)
	return m, true
}

// readProc reads /proc/PID/name into buf, or into a larger one where it does
// not fit.
func readProc(pid int, name string, buf []byte) ([]byte, bool) {
	// Plain system calls: thousands of these files are read in a sweep, and
	// none is worth a place in the poller.
	path := "/proc/" + strconv.Itoa(pid) + "/" + name
	fd, err := patiently(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	n := 0
	for {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, false
		}
		if m == 0 {
			return buf[:n], true
		}
		n += m
	}
}

// patiently calls open until it does not fail for want of descriptors, for a
// second at most: what a sweep does not see stays alive.
func patiently[F any](open func() (F, error)) (F, error) {
	for tries := 0; ; tries++ {
		f, err := open()
		if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) || tries == 100 {
			return f, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Scan returns all processes. With a prefix it also reads their marks and
// environments, as far as they may be read, and notes the tokens that begin with it.
func Scan(prefix string) []Member {
	dir, err := patiently(func() (*os.File, error) { return os.Open("/proc") })
	if err != nil {
		return nil
	}
	defer dir.Close()
	var all []Member
	key := []byte(TokenVar + "=" + prefix)
	buf := make([]byte, 16<<10)
	run, marks := runMark(prefix)
	self := os.Getpid() // bears the mark of a child while it forks it
	for {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			pid, convErr := strconv.Atoi(name)
			if convErr != nil {
				continue
			}
			m, ok := Stat(pid)
			if !ok {
				continue
			}
			if prefix != "" && pid != self && !m.Zombie {
				if start, ok := markedStart(pid, run); ok && marks {
					m.Token = prefix + strconv.FormatUint(start, 10)
				} else if env, ok := readProc(pid, "environ", buf); ok {
					m.Token = tokenIn(env, key, prefix)
				}
			}
			all = append(all, m)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && len(all) == 0 {
				return nil
			}
			return all
		}
	}
}

// tokenIn returns the token in an environment if it begins with prefix.
func tokenIn(env, key []byte, prefix string) string {
	for at := 0; ; {
		i := bytes.Index(env[at:], key)
		if i < 0 {
			return ""
		}
		at += i
		if at == 0 || env[at-1] == 0 {
			value, _, _ := bytes.Cut(env[at+len(key):], []byte{0})
			return prefix + string(value)
		}
		at += len(key)
	}
}

// Tree finds the living descendants of servers. One look at /proc serves all
// who asked before it began, so fifty servers that stop at once cost few looks.
type Tree struct {
	prefix string // the common beginning of this kit's tokens

	mu    sync.Mutex
	began time.Time
	all   []Member
}

// NewTree returns a tree for the processes whose tokens begin with prefix.
func NewTree(prefix string) *Tree { return &Tree{prefix: prefix} }

func (t *Tree) look() []Member {
	asked := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began.After(asked) {
		t.began = time.Now()
		t.all = Scan(t.prefix)
	}
	return t.all
}

// Family returns what lives of the group of leader, of those whose environment
// carries token, of kin (pid to start time), and of the descendants of these.
func (t *Tree) Family(leader int, token string, kin map[int]uint64) []Member {
	return Descend(t.look(), func(m Member) bool {
		start, known := kin[m.PID]
		return m.Pgrp == leader || m.Token == token || known && m.Start == start
	})
}

// Descend returns the living processes for which is holds and their living
// descendants.
func Descend(all []Member, is func(Member) bool) []Member {
	in := make(map[int]bool)
	for again := true; again; {
		again = false
		for _, m := range all {
			if !in[m.PID] && (is(m) || in[m.PPID]) {
				in[m.PID] = true
				again = true
			}
		}
	}
	var found []Member
	for _, m := range all {
		if in[m.PID] && !m.Zombie {
			found = append(found, m)
		}
	}
	return found
}
