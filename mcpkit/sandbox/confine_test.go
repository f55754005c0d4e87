//go:build linux

package sandbox_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/mcpkit/sandbox"
)

// hostileVar names what a process of this test is to try; its words are in argv.
const hostileVar = "SANDBOX_TEST_HOSTILE"

func TestMain(m *testing.M) {
	sandbox.RunIfAsked()
	if what, ok := os.LookupEnv(hostileVar); ok {
		if err := hostile[what](os.Args[1:]); err != nil {
			fmt.Println("refused:", err)
			os.Exit(1)
		}
		fmt.Println("reached")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hostile are the attempts of a server to reach what it was not given. Each returns nil
// where it has reached it.
var hostile = map[string]func(args []string) error{
	"read":   func(a []string) error { _, err := os.ReadFile(a[0]); return err },
	"list":   func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"open":   func(a []string) error { return try(os.OpenFile(a[0], os.O_WRONLY, 0)) },
	"make":   func(a []string) error { return os.WriteFile(a[0], []byte("{}"), 0o600) },
	"remove": func(a []string) error { return os.Remove(a[0]) },
	"dial":   func(a []string) error { c, err := net.Dial(a[0], a[1]); return tryConn(c, err) },
	"through-link": func(a []string) error { // a link in its own folder
		link := filepath.Join(a[0], "link")
		os.Remove(link)
		if err := os.Symlink(a[1], link); err != nil {
			return err
		}
		_, err := os.ReadFile(link)
		return err
	},
	"kill":   func(a []string) error { return syscall.Kill(number(a[0]), 0) },
	"ptrace": func(a []string) error { return syscall.PtraceAttach(number(a[0])) },
	"memory": func(a []string) error {
		local, remote := make([]byte, 8), unix.RemoteIovec{Base: uintptr(number64(a[1])), Len: 8}
		_, err := unix.ProcessVMReadv(number(a[0]), []unix.Iovec{{Base: &local[0], Len: 8}}, []unix.RemoteIovec{remote}, 0)
		return err
	},
	"device": func(a []string) error { return syscall.Mknod(a[0], syscall.S_IFBLK|0o600, 1<<8) },
	"nested": func(a []string) error { // rights in namespaces of its own, and then what argv says
		cmd := exec.Command("/proc/self/exe", a[1:]...)
		cmd.Env = append(os.Environ(), hostileVar+"="+a[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	},
	"unmount": func(a []string) error {
		if err := syscall.Unmount(a[0], syscall.MNT_DETACH); err != nil {
			return err
		}
		return try(os.OpenFile(a[1], os.O_WRONLY, 0))
	},
	"remount": func(a []string) error { return syscall.Mount("", a[0], "", syscall.MS_REMOUNT|syscall.MS_BIND, "") },
	"daemon": func(a []string) error { // leaves a process without group, parents, environment and mark
		unix.Prlimit(0, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil)
		cmd := exec.Command("/bin/sh", "-c", "setsid env -i sleep "+a[0]+" </dev/null >/dev/null 2>&1 & echo")
		_, err := cmd.Output()
		for err == nil && len(sleepers(a[0])) == 0 { // until it has been executed
		}
		return err
	},
}

func try(f *os.File, err error) error {
	if err == nil {
		f.Close()
	}
	return err
}

func tryConn(c net.Conn, err error) error {
	if err == nil {
		c.Close()
	}
	return err
}

func number(s string) int { n, _ := strconv.Atoi(s); return n }

func number64(s string) uint64 { n, _ := strconv.ParseUint(s, 10, 64); return n }

// sleepers are the processes that sleep for so many seconds.
func sleepers(seconds string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if raw, _ := os.ReadFile(name); string(raw) == "sleep\x00"+seconds+"\x00" {
			pids = append(pids, number(strings.Split(name, "/")[2]))
		}
	}
	return pids
}

// needSandbox skips a test where processes cannot be confined.
func needSandbox(t *testing.T) {
	t.Helper()
	if err := sandbox.Available(); err != nil && os.Getuid() == 0 {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
}

// run runs a command, confined if there is a profile, and returns what it wrote and how
// it ended. Nothing that it has started lives on then, if it was confined.
func run(t *testing.T, p *sandbox.Profile, cmd *exec.Cmd) (string, sandbox.End) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p == nil {
		cmd.Run()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return out.String(), sandbox.End{Status: cmd.ProcessState.Sys().(syscall.WaitStatus)}
	}
	s, err := sandbox.Confine(cmd, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Abandon()
		t.Fatal(err)
	}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	end := <-s.Ended()
	if !end.Alone {
		cmd.Process.Kill()
	}
	cmd.Wait()
	return out.String(), end
}

// script is a shell script.
func script(p sandbox.Profile, text string) *exec.Cmd {
	return &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", text}, Dir: p.Dir, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.Home}}
}

// place is a platform's data folder with a server's own folder in it, and something
// that listens.
type place struct {
	data, own, neighbour, manifests, policy, socket string
	profile                                         sandbox.Profile
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{
		data: dir + "/data", own: dir + "/data/apps/own", neighbour: dir + "/data/apps/neighbour",
		manifests: dir + "/manifests", policy: dir + "/policy.yaml",
	}
	for _, d := range []string{p.own, p.neighbour, p.manifests, p.data + "/inbox", dir + "/home", dir + "/given"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{p.policy, p.manifests + "/a.yaml", p.neighbour + "/secret", p.data + "/inbox/event.json", dir + "/README"} {
		if err := os.WriteFile(f, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	short, err := os.MkdirTemp("", "s") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	p.socket = short + "/platform.sock"
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p.profile = sandbox.Profile{
		// The folder above is named, so that only what is hidden protects the rest.
		Read: []string{dir}, Own: []string{p.own}, Hidden: []string{p.data, p.manifests, p.policy},
		Home: "/home/somebody", HomeDir: dir + "/home", Network: sandbox.NetworkAll,
	}
	return p
}

func TestAHostileServerReachesNothingOfThePlatformOrOfAnotherServer(t *testing.T) {
	needSandbox(t)
	p := newPlace(t)
	abstract := fmt.Sprintf("@sandbox-test-%d", os.Getpid())
	l, err := net.Listen("unix", abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	victim := exec.Command("/bin/sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	self, pid := strconv.Itoa(os.Getpid()), strconv.Itoa(victim.Process.Pid)
	word := []byte("a secret")
	address := fmt.Sprintf("%d", addressOf(word))
	for _, c := range []struct {
		name string
		what []string
		root bool // only root reaches it unconfined
	}{
		{"the socket", []string{"dial", "unix", p.socket}, false},
		{"an abstract socket", []string{"dial", "unix", abstract}, false},
		{"the policy, to read", []string{"read", p.policy}, false},
		{"the policy, to write", []string{"open", p.policy}, false},
		{"the manifests", []string{"list", p.manifests}, false},
		{"a manifest of its own making", []string{"make", p.manifests + "/b.yaml"}, false},
		{"an event of another", []string{"read", p.data + "/inbox/event.json"}, false},
		{"an event of its own making", []string{"make", p.data + "/inbox/forged.json"}, false},
		{"the folder of another server", []string{"read", p.neighbour + "/secret"}, false},
		{"the same through a link", []string{"through-link", p.own, p.neighbour + "/secret"}, false},
		{"the same through the first process", []string{"read", "/proc/1/root" + p.neighbour + "/secret"}, true},
		{"the platform's environment", []string{"read", "/proc/" + self + "/environ"}, false},
		{"the platform's memory", []string{"memory", self, address}, false},
		{"the platform, to signal", []string{"kill", self}, false},
		{"a neighbour's process, to trace", []string{"ptrace", pid}, false},
		{"what it was given to read, to write", []string{"make", filepath.Dir(p.policy) + "/given/new"}, false},
		{"the environment of the first process", []string{"read", "/proc/1/environ"}, true},
		{"the memory of the first process", []string{"open", "/proc/1/mem"}, true},
		{"the program that the kernel runs for a core", []string{"open", "/proc/sys/kernel/core_pattern"}, true},
		{"the passwords of the system", []string{"read", "/etc/shadow"}, true},
		{"the system, to write", []string{"make", "/usr/lib/sandbox-test"}, true},
		{"a device", []string{"device", p.own + "/device"}, true},
		{"what is below a mount", []string{"unmount", "/proc", "/proc/sys/kernel/core_pattern"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			try := func(profile *sandbox.Profile) (string, bool) {
				out, end := run(t, profile, &exec.Cmd{Path: executable(t), Args: append([]string{"hostile"}, c.what[1:]...), Dir: p.own, Env: []string{hostileVar + "=" + c.what[0]}})
				return out, end.Status.ExitStatus() == 0 && strings.Contains(out, "reached")
			}
			if out, reached := try(&p.profile); reached || !strings.Contains(out, "refused") {
				t.Errorf("confined: %s", out)
			}
			if c.what[0] == "unmount" || strings.Contains(c.name, "first process") || c.root && os.Getuid() != 0 {
				return
			}
			// Without a sandbox it is reached: the attempt is a good one.
			defer os.Remove("/usr/lib/sandbox-test")
			if out, reached := try(nil); !reached {
				t.Errorf("not confined: %s", out)
			}
		})
	}
}

func TestRightsInNamespacesOfItsOwnDoNotOpenTheSandbox(t *testing.T) {
	needSandbox(t)
	p := newPlace(t)
	for _, what := range [][]string{
		{"unmount", "/proc/sys", "/proc/sys/kernel/core_pattern"},
		{"unmount", "/usr", "/usr/lib"},
		{"remount", "/usr"},
		{"remount", "/proc/sys"},
		{"remount", filepath.Dir(p.policy)},
		{"read", "/proc/1/environ"},
		{"device", p.own + "/device"},
	} {
		out, end := run(t, &p.profile, &exec.Cmd{Path: executable(t), Args: append([]string{"hostile"}, what...), Dir: p.own, Env: []string{hostileVar + "=nested"}})
		if end.Status.ExitStatus() != 1 || !strings.Contains(out, "refused") {
			t.Errorf("%v: %s", what, out)
		}
	}
	strict := p.profile
	strict.NoNesting = true
	out, end := run(t, &strict, &exec.Cmd{Path: executable(t), Args: []string{"hostile", "read", p.own}, Dir: p.own, Env: []string{hostileVar + "=nested"}})
	if end.Status.ExitStatus() != 1 || !strings.Contains(out, "no space left on device") { // what the kernel says of this limit
		t.Errorf("there are namespaces within where they are forbidden: %s", out)
	}
}

func TestNoProcessOutlivesItsSandbox(t *testing.T) {
	needSandbox(t)
	p := newPlace(t)
	for i, profile := range []*sandbox.Profile{&p.profile, nil} {
		seconds := fmt.Sprint(3_000_000 + 10*os.Getpid() + i)
		out, _ := run(t, profile, &exec.Cmd{Path: executable(t), Args: []string{"hostile", seconds}, Dir: p.own, Env: []string{hostileVar + "=daemon", "PATH=" + os.Getenv("PATH")}})
		if !strings.Contains(out, "reached") {
			t.Fatalf("there was no daemon: %s", out)
		}
		left := sleepers(seconds)
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if confined := profile != nil; confined == (len(left) > 0) {
			t.Errorf("confined: %v, and the daemon's processes are %v", confined, left)
		}
	}
}

func TestAServerHasAnEndOfItsOwn(t *testing.T) {
	needSandbox(t)
	for text, want := range map[string]sandbox.End{
		"exit 7":                         {Status: 7 << 8, Alone: true},
		"kill -SEGV $$":                  {Status: syscall.WaitStatus(syscall.SIGSEGV), Alone: true},
		"kill -KILL $$":                  {Status: syscall.WaitStatus(syscall.SIGKILL), Alone: true},
		"sleep 1000 & exit 3":            {Status: 3 << 8},
		"trap 'exit 5' TERM; kill 0":     {Status: 5 << 8, Alone: true}, // the first process is in the same group
		"kill -KILL 1; kill -9 -1; true": {Status: 0, Alone: true},
	} {
		_, end := run(t, &sandbox.Profile{Network: sandbox.NetworkAll}, script(sandbox.Profile{Dir: "/"}, text))
		if end != want {
			t.Errorf("%s: %+v, want %+v", text, end, want)
		}
	}
}

func TestAServerBeyondItsLimitIsEndedAndSaysWhy(t *testing.T) {
	needSandbox(t)
	for _, c := range []struct {
		limits     sandbox.Limits
		text, want string
	}{
		{sandbox.Limits{Memory: 64 << 20}, `python3 -c 'b = bytearray(300 << 20)
while True: pass' & wait`, "MiB of memory; its limit is 64 MiB"},
		{sandbox.Limits{Processes: 20}, `while :; do sleep 1000 & done`, "its limit is 20"},
	} {
		_, end := run(t, &sandbox.Profile{Network: sandbox.NetworkAll, Limits: c.limits, Home: os.Getenv("HOME")}, script(sandbox.Profile{Dir: "/"}, "PATH=/usr/bin:/bin;"+c.text))
		if !strings.Contains(end.Exceeded, c.want) || end.Status.Signal() != syscall.SIGKILL {
			t.Errorf("%s: %+v", c.text, end)
		}
	}
	out, _ := run(t, &sandbox.Profile{Network: sandbox.NetworkAll, Limits: sandbox.Limits{OpenFiles: 77}}, script(sandbox.Profile{Dir: "/"}, "ulimit -n; ulimit -n 78"))
	if !strings.HasPrefix(out, "77\n") || len(strings.TrimSpace(out)) < 4 {
		t.Errorf("open files: %s", out)
	}
}

func TestWithoutNetworkThereIsLoopbackAlone(t *testing.T) {
	needSandbox(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for network, reached := range map[string]bool{sandbox.NetworkAll: true, sandbox.NetworkNone: false} {
		out, _ := run(t, &sandbox.Profile{Network: network}, &exec.Cmd{Path: executable(t), Args: []string{"hostile", "tcp", l.Addr().String()}, Dir: "/", Env: []string{hostileVar + "=dial"}})
		if strings.Contains(out, "reached") != reached {
			t.Errorf("%s: %s", network, out)
		}
	}
	out, _ := run(t, &sandbox.Profile{Network: sandbox.NetworkNone}, script(sandbox.Profile{Dir: "/"}, "tail -n +3 /proc/net/dev"))
	if lines := strings.Fields(out); len(lines) == 0 || lines[0] != "lo:" || strings.Count(strings.TrimSpace(out), "\n") != 0 {
		t.Errorf("interfaces: %s", out)
	}
}

func TestAFileThatIsReplacedStaysHidden(t *testing.T) {
	needSandbox(t)
	p := newPlace(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := script(p.profile, "read go; cat "+p.policy+" "+filepath.Dir(p.policy)+"/README")
	cmd.Dir, cmd.Stdin = "/", r
	s, err := sandbox.Confine(cmd, &p.profile)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	next := p.policy + ".new"
	os.WriteFile(next, []byte("replaced"), 0o600)
	if err := os.Rename(next, p.policy); err != nil { // as every careful program writes
		t.Fatal(err)
	}
	w.WriteString("go\n")
	<-s.Ended()
	cmd.Wait()
	if got := out.String(); got != "content" { // of README alone
		t.Errorf("it read %q", got)
	}
}

func TestMountsSayWhatIsReached(t *testing.T) {
	p := newPlace(t)
	mounts, err := p.profile.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		p.policy: "none", p.data: "none", p.neighbour + "/secret": "none", p.own + "/x": "write", filepath.Dir(p.policy) + "/README": "read",
		"/usr/bin/env": "read", "/etc/hostname": "read", "/etc/shadow": "none", "/tmp/x": "none", "/home/somebody/x": "none", "/root/.ssh": "none",
	} {
		if got := sandbox.Explain(mounts, path); got.Access != want || got.Reason == "" {
			t.Errorf("%s: %+v, want %s", path, got, want)
		}
	}
	if !slices.ContainsFunc(mounts, func(m sandbox.Mount) bool { return m.Path == p.own && m.Write }) {
		t.Errorf("%+v", mounts)
	}
	for _, bad := range []sandbox.Profile{
		{Read: []string{p.data}, Hidden: p.profile.Hidden},
		{Read: []string{p.neighbour}, Hidden: p.profile.Hidden},
		{Write: []string{filepath.Dir(p.policy)}, Hidden: p.profile.Hidden},
		{Read: []string{"/"}},
		{Read: []string{p.data + "/missing"}},
	} {
		if _, err := bad.Mounts(); err == nil {
			t.Errorf("%+v is allowed", bad)
		}
	}
}

func TestAProgramBringsWhatLiesBesideIt(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := func(path string) string {
		os.MkdirAll(filepath.Dir(dir+path), 0o700)
		if err := os.WriteFile(dir+path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir + path
	}
	node := file("/.nvm/v20/bin/node")
	file("/.nvm/v20/lib/x")
	file("/app/package.json")
	script := file("/app/dist/index.js")
	lone := file("/scripts/server.py")
	module := file("/w/node_modules/.bin/x")
	mounts, err := (&sandbox.Profile{Program: node, Home: dir}).Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/.nvm/v20/lib/x": "read", "/.nvm/v20/bin/node": "read", "/app": "none"} {
		if got := sandbox.Explain(mounts, dir+path); got.Access != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	got := sandbox.Named([]string{"node", script, "server.py", module, "--config=" + lone, "-v", dir + "/app"}, dir+"/scripts", dir)
	if want := []string{dir + "/app", lone, dir + "/w/node_modules", lone, dir + "/app"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	needSandbox(t)
	cmd := &exec.Cmd{Path: "/nowhere/program", Args: []string{"x"}, Dir: "/"}
	s, err := sandbox.Confine(cmd, &sandbox.Profile{Network: sandbox.NetworkAll})
	if err == nil {
		if err = cmd.Start(); err == nil {
			err = s.Begin()
			cmd.Wait()
		}
	}
	if err == nil || !strings.Contains(err.Error(), "/nowhere/program") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

func executable(t *testing.T) string {
	t.Helper()
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func BenchmarkStart(b *testing.B) {
	for name, p := range map[string]*sandbox.Profile{"confined": {Network: sandbox.NetworkAll}, "free": nil} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				cmd := &exec.Cmd{Path: "/bin/true", Args: []string{"true"}, Dir: "/"}
				var s *sandbox.Process
				if p != nil {
					var err error
					if s, err = sandbox.Confine(cmd, p); err != nil {
						b.Fatal(err)
					}
				}
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				if s != nil {
					if err := s.Begin(); err != nil {
						b.Fatal(err)
					}
				}
				cmd.Wait()
			}
		})
	}
}

// addressOf is where the first byte is in the memory of this process.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
