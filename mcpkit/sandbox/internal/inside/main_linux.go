package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchEvery is how often the limits of memory and processes are looked at.
const watchEvery = 100 * time.Millisecond

// Main does the work of the first process and exits. The platform is at the other end
// of conn.
func Main(conn *os.File) {
	// Rights belong to a thread: the thread that gives them up has to be the one that
	// starts the server.
	runtime.LockOSThread()
	// Signals to the group are for the server. They are not ignored, as the server
	// would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT)
	unix.CloseOnExec(int(conn.Fd()))
	tell := json.NewEncoder(conn)
	var o Order
	if err := json.NewDecoder(conn).Decode(&o); err != nil {
		os.Exit(125) // the platform is gone
	}
	cmd, err := begin(&o)
	if err != nil {
		w := Word{Failed: "starting the server", Detail: err.Error()}
		if step, ok := errors.AsType[*stepError](err); ok {
			w.Failed = step.step
		}
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			w.Errno = int(errno)
		}
		tell.Encode(&w)
		os.Exit(125)
	}
	tell.Encode(&Word{})
	if cmd == nil {
		os.Exit(0)
	}
	os.Exit(attend(&o, cmd.Process.Pid, tell))
}

// stepError is an error with what was tried.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// step names what was tried in an error.
func step(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &stepError{fmt.Sprintf(format, args...), err}
}

// begin makes the sandbox and starts the server in it.
func begin(o *Order) (*exec.Cmd, error) {
	if o.Loopback {
		if err := loopback(); err != nil {
			return nil, step(err, "setting up the loopback interface")
		}
	}
	if err := makeTree(o.Tree, o.Memory); err != nil {
		return nil, err
	}
	if o.NoNesting {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			return nil, step(err, "forbidding further namespaces")
		}
	}
	if err := lockKernelFiles(); err != nil {
		return nil, err
	}
	if err := renounce(); err != nil {
		return nil, err
	}
	if err := limit(o); err != nil {
		return nil, err
	}
	if o.Path == "" {
		return nil, nil
	}
	dir := o.Dir
	if _, err := os.Stat(dir); err != nil {
		return nil, step(err, "entering the working directory %s", dir)
	}
	cmd := &exec.Cmd{Path: o.Path, Args: o.Args, Dir: dir, Env: o.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := cmd.Start(); err != nil {
		return nil, step(err, "executing %s", o.Path)
	}
	// The pipes are the server's alone: both sides see when it closes them.
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, step(err, "opening /dev/null")
	}
	for fd := range 3 {
		unix.Dup3(null, fd, 0)
	}
	return cmd, nil
}

// renounce gives up all rights of this thread, and of what it starts, for good.
func renounce() error {
	// The securebits: root has no rights either, and none is kept or raised.
	const locked = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, locked, 0, 0, 0); err != nil {
		return step(err, "locking the secure bits")
	}
	for c := uintptr(0); c <= 63; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // there is no further capability
		} else if err != nil {
			return step(err, "dropping capability %d", c)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return step(err, "clearing ambient capabilities")
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return step(err, "dropping capabilities")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return step(err, "forbidding new privileges")
	}
	// The server cannot trace this process or read its memory and descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return step(err, "protecting the first process")
	}
	return scope()
}

// scope keeps the server from abstract sockets of processes outside, which no tree of
// files hides, where the kernel can do that (Landlock ABI 6).
func scope() error {
	abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if int(abi) < 6 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return step(errno, "making a Landlock ruleset")
	}
	defer unix.Close(int(fd))
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return step(errno, "entering a Landlock domain")
	}
	return nil
}

// limit sets the limits that the system keeps by itself.
func limit(o *Order) error {
	set := func(name string, resource int, n int64) error {
		if n <= 0 {
			return nil
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return step(err, "reading the limit of %s", name)
		}
		value := min(uint64(n), now.Max)
		return step(unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value}), "limiting %s to %d", name, value)
	}
	if err := set("open files", unix.RLIMIT_NOFILE, int64(o.OpenFiles)); err != nil {
		return err
	}
	if o.Memory > 0 {
		// The watch ends the server; this is for what one process takes between two looks.
		if err := set("memory", unix.RLIMIT_DATA, 4*o.Memory+1<<30); err != nil {
			return err
		}
	}
	return set("core files", unix.RLIMIT_CORE, 1) // a core would be written where the kernel is told to, outside
}

// attend reaps what ends until nothing is left, and returns the exit code.
func attend(o *Order, server int, tell *json.Encoder) int {
	exceeded := make(chan string, 1)
	if o.Memory > 0 || o.Processes > 0 {
		go watch(o, exceeded)
	}
	deaths := make(chan Word)
	go func() {
		defer close(deaths)
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return // ECHILD: nothing else is left in these namespaces
			}
			if pid == server {
				deaths <- Word{Ended: true, Status: uint32(status), Alone: alone()}
			}
		}
	}()
	code := 125
	for {
		select {
		case why := <-exceeded:
			// All else ends with this process, also what is being forked just now.
			tell.Encode(&Word{Ended: true, Status: uint32(syscall.SIGKILL), Exceeded: why})
			return 137
		case d, ok := <-deaths:
			if !ok {
				return code
			}
			status := syscall.WaitStatus(d.Status)
			if code = status.ExitStatus(); status.Signaled() {
				code = 128 + int(status.Signal())
			}
			tell.Encode(&d)
		}
	}
}

// alone reaps what has ended and reports whether nothing else is left.
func alone() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG|syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		}
	}
}

// watch looks at the memory and the number of all processes of the sandbox and says
// once what is exceeded.
func watch(o *Order, exceeded chan<- string) {
	page := int64(os.Getpagesize())
	for range time.Tick(watchEvery) {
		pids, err := processes()
		if err != nil {
			continue
		}
		if n := len(pids); o.Processes > 0 && n > o.Processes {
			exceeded <- fmt.Sprintf("it had %d processes at once; its limit is %d", n, o.Processes)
			return
		}
		if o.Memory == 0 {
			continue
		}
		var sum int64
		for _, pid := range pids {
			raw, err := os.ReadFile("/proc/" + pid + "/statm")
			if err != nil {
				continue
			}
			if f := strings.Fields(string(raw)); len(f) > 2 { // proc_pid_statm(5): size, resident, shared
				resident, _ := strconv.ParseInt(f[1], 10, 64)
				shared, _ := strconv.ParseInt(f[2], 10, 64)
				sum += (resident - shared) * page
			}
		}
		if sum > o.Memory {
			exceeded <- fmt.Sprintf("it used %d MiB of memory; its limit is %d MiB", sum>>20, o.Memory>>20)
			return
		}
	}
}

// processes are the processes of the sandbox but this one.
func processes() ([]string, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	pids := names[:0]
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n != 1 {
			pids = append(pids, name)
		}
	}
	return pids, err
}

// loopback switches the loopback interface of a new network on.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// parents are the folders above path, the topmost first, without the root.
func parents(path string) (out []string) {
	for dir := filepath.Dir(path); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		out = append([]string{dir}, out...)
	}
	return out
}
