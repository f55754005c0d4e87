package proc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ChildAttr puts a child into its own group and has the kernel kill it when the
// thread that forked it ends, which for [Forks] is when the platform does.
func ChildAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// AwaitExit returns when cmd's process has ended, and leaves it to be reaped:
// until then neither its number nor its group's can pass to another.
func AwaitExit(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	ended := func(options int) bool {
		for {
			var info unix.Siginfo
			err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			// Without WNOHANG it returns at the end; with it, signo tells.
			return err != nil || info.Signo != 0
		}
	}
	// A pidfd is readable once the process has ended, so the runtime's poller
	// can wait for it and no thread has to sleep in the kernel.
	if fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err == nil {
		f := os.NewFile(uintptr(fd), "pidfd")
		defer f.Close()
		if conn, err := f.SyscallConn(); err == nil {
			if conn.Read(func(uintptr) bool { return ended(unix.WNOHANG) }) == nil {
				return
			}
		}
	}
	ended(0)
}

// Unread returns how many bytes wait in a pipe.
func Unread(f *os.File) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if ctlErr := conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); ctlErr != nil {
		return 0, ctlErr
	}
	return n, err
}
