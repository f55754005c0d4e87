package serverkit

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

// member is a process as /proc shows it.
type member struct {
	pid, ppid, pgrp int
	zombie          bool
	start           uint64 // clock ticks after boot; with pid it is unique
	token           string // the value of tokenVar if it begins with the prefix asked for
}

// signal sends sig to the process that m was, and to no other that has taken
// its number since.
func (m member) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if errors.Is(err, unix.ESRCH) {
		return
	}
	var now member
	if !readStat(m.pid, &now) || now.start != m.start {
		return
	}
	if err == nil {
		unix.PidfdSendSignal(fd, sig, nil, 0)
		return
	}
	syscall.Kill(m.pid, sig) // an old kernel: a moment of uncertainty remains
}

// readStat fills m from /proc/PID/stat, see proc_pid_stat(5).
func readStat(pid int, m *member) bool {
	var buf [1024]byte
	b, ok := readProc(pid, "stat", buf[:])
	if !ok {
		return false
	}
	// The name in parentheses may itself hold spaces and parentheses.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return false
	}
	m.pid = pid
	m.zombie = f[0][0] == 'Z' || f[0][0] == 'X'
	m.ppid, _ = strconv.Atoi(string(f[1]))
	m.pgrp, _ = strconv.Atoi(string(f[2]))
	m.start, _ = strconv.ParseUint(string(f[19]), 10, 64)
	return true
}

// readProc reads /proc/PID/name into buf, or into a larger one where it does
// not fit.
func readProc(pid int, name string, buf []byte) ([]byte, bool) {
	// Plain system calls: thousands of these files are read in a sweep, and
	// none is worth a place in the poller.
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
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

// scan returns all processes. With a prefix it also reads their environments,
// as far as they may be read, and notes the tokens that begin with it.
func scan(prefix string) []member {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	var all []member
	key := []byte(tokenVar + "=" + prefix)
	buf := make([]byte, 16<<10)
	for {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			pid, convErr := strconv.Atoi(name)
			if convErr != nil {
				continue
			}
			var m member
			if !readStat(pid, &m) {
				continue
			}
			if prefix != "" && !m.zombie {
				if env, ok := readProc(pid, "environ", buf); ok {
					m.token = tokenIn(env, key, prefix)
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

// tree finds the living descendants of servers. One look at /proc serves all
// who asked before it began, so fifty servers that stop at once cost few looks.
type tree struct {
	prefix string // the common beginning of this kit's tokens

	mu    sync.Mutex
	began time.Time
	all   []member
}

func (t *tree) look() []member {
	asked := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began.After(asked) {
		t.began = time.Now()
		t.all = scan(t.prefix)
	}
	return t.all
}

// family returns what lives of the group of leader, of those whose environment
// carries token, of kin (pid to start time), and of the descendants of these.
func (t *tree) family(leader int, token string, kin map[int]uint64) []member {
	return descend(t.look(), func(m member) bool {
		start, known := kin[m.pid]
		return m.pgrp == leader || m.token == token || known && m.start == start
	})
}

// descend returns the living processes for which is holds and their living
// descendants.
func descend(all []member, is func(member) bool) []member {
	in := make(map[int]bool)
	for again := true; again; {
		again = false
		for _, m := range all {
			if !in[m.pid] && (is(m) || in[m.ppid]) {
				in[m.pid] = true
				again = true
			}
		}
	}
	var found []member
	for _, m := range all {
		if in[m.pid] && !m.zombie {
			found = append(found, m)
		}
	}
	return found
}
