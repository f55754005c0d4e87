package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/mcpkit/sandbox/internal/inside"
)

// initVar is in the environment of the first process of a sandbox, and of no other.
const initVar = "AURORA_SANDBOX_INIT"

// hooked is set once this program has shown that it can be the first process of a
// sandbox. Executing a program that does not call RunIfAsked would run it again.
var hooked atomic.Bool

// RunIfAsked must be among the first things that main, and TestMain, calls. It returns
// at once unless the program was started as the first process of a sandbox; then it
// does that work and exits.
func RunIfAsked() {
	if _, asked := os.LookupEnv(initVar); !asked {
		hooked.Store(true)
		return
	}
	inside.Main(os.NewFile(3, "platform"))
}

// startWait bounds how long the first process may take until the server runs: a file
// system that does not answer must not hold up the platform.
const startWait = 30 * time.Second

// namespaces are those that every confined process has of its own.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Process is a server that is confined, or will be.
type Process struct {
	order  inside.Order
	mounts []Mount
	conn   *os.File // this process's end of the socket to the first process
	theirs *os.File
	ended  chan End
	words  *json.Decoder
}

// Confine changes cmd, which is not yet started, so that it runs confined: cmd then
// executes this program, which starts the server. The pipes, the group and the
// attributes of cmd stay as they are. The process of cmd is not the server itself but
// its parent, in the same group, and lives as long as any descendant of the server.
// One of [Process.Begin] and [Process.Abandon] must follow.
func Confine(cmd *exec.Cmd, p *Profile) (*Process, error) {
	if !hooked.Load() {
		return nil, fmt.Errorf("%w: this program does not call sandbox.RunIfAsked", ErrUnavailable)
	}
	own := *p
	own.Program, own.Dir = cmd.Path, cmd.Dir
	mounts, err := own.Mounts()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	unix.SetNonblock(pair[0], true) // so that the runtime's poller waits for it
	s := &Process{
		conn: os.NewFile(uintptr(pair[0]), "sandbox"), theirs: os.NewFile(uintptr(pair[1]), "platform"),
		ended: make(chan End, 1), mounts: mounts,
		order: inside.Order{
			Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env, NoNesting: p.NoNesting, Loopback: p.Network == NetworkNone,
			Memory: p.Limits.Memory, Processes: p.Limits.Processes, OpenFiles: p.Limits.OpenFiles,
		},
	}
	for _, m := range mounts {
		s.order.Tree = append(s.order.Tree, inside.Mount{Kind: string(m.Kind), Path: m.Path, Source: m.Source, Write: m.Write})
	}
	cmd.Path, cmd.Args, cmd.Dir = "/proc/self/exe", []string{"platform-sandbox"}, "/"
	cmd.Env = []string{initVar + "=1", "GOMAXPROCS=1", "GOGC=off"}
	cmd.ExtraFiles = append(cmd.ExtraFiles, s.theirs)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	a := cmd.SysProcAttr
	a.Cloneflags |= namespaces
	if p.Network == NetworkNone {
		a.Cloneflags |= unix.CLONE_NEWNET
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	if os.Geteuid() != 0 { // a user other than root has no capabilities after an exec
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_RESOURCE}
	}
	return s, nil
}

// SetEnv gives the server one more variable.
func (s *Process) SetEnv(kv string) {
	s.order.Env = append(s.order.Env[:len(s.order.Env):len(s.order.Env)], kv)
}

// Abandon releases what Confine took, where the process of cmd could not be started.
func (s *Process) Abandon() {
	s.theirs.Close()
	s.conn.Close()
}

// Begin waits, once cmd has been started, until the server runs. On an error, a
// *StartError, it does not, and the process of cmd ends by itself.
func (s *Process) Begin() error {
	s.theirs.Close()
	s.conn.SetDeadline(time.Now().Add(startWait))
	if err := json.NewEncoder(s.conn).Encode(&s.order); err != nil {
		defer s.conn.Close()
		return &StartError{"giving orders to the first process", err}
	}
	s.words = json.NewDecoder(s.conn)
	var word inside.Word
	if err := s.words.Decode(&word); err != nil {
		defer s.conn.Close()
		return &StartError{"the first process ended", err}
	}
	if word.Failed != "" {
		defer s.conn.Close()
		return &StartError{word.Failed, wordError(word)}
	}
	s.conn.SetDeadline(time.Time{})
	go s.follow()
	return nil
}

// wordError is the error of the first process as one of this.
func wordError(w inside.Word) error {
	if w.Errno != 0 {
		return syscall.Errno(w.Errno)
	}
	return errors.New(w.Detail)
}

// follow reads how the server ended.
func (s *Process) follow() {
	defer close(s.ended)
	defer s.conn.Close()
	for {
		var word inside.Word
		if s.words.Decode(&word) != nil {
			return
		}
		if word.Ended {
			s.ended <- End{Status: syscall.WaitStatus(word.Status), Alone: word.Alone, Exceeded: word.Exceeded}
			io.Copy(io.Discard, s.conn)
			return
		}
	}
}

// Ended gets how the server ended, while descendants of it may live on. It is closed
// without a value where that is not known because all of it was killed.
func (s *Process) Ended() <-chan End { return s.ended }

// Mounts is the tree that the server lives in.
func (s *Process) Mounts() []Mount { return s.mounts }

// Available says why processes cannot be confined here, or nil. It tries it once, by
// confining a process that does nothing.
var Available = sync.OnceValue(func() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	cmd := &exec.Cmd{Dir: "/", Stdin: null, Stdout: null, Stderr: null}
	s, err := Confine(cmd, &Profile{Network: NetworkNone})
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		s.Abandon()
		return fmt.Errorf("%w: making namespaces: %w (sysctl user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns, and the seccomp profile of a container, decide about them)", ErrUnavailable, err)
	}
	err = s.Begin()
	cmd.Wait()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
})
