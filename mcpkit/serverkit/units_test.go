//go:build linux

package serverkit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/sandbox"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/stderrlog"
)

func TestDelaysDoubleUpToTheCapAndTheFourthCrashIsFinal(t *testing.T) {
	p := Spec{}.withDefaults().Restart
	r := newRestarts(p)
	for n, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		delay, again := r.crashed(0, false)
		if !again || delay < want*8/10 || delay > want*12/10+1 {
			t.Errorf("crash %d: %v, %v; want about %v", n+1, delay, again, want)
		}
	}
	if _, again := r.crashed(59*time.Second, false); again {
		t.Error("the fourth crash in a row is not final")
	}
}

func TestTheDelayNeverExceedsTheCap(t *testing.T) {
	r := newRestarts(RestartPolicy{Max: 100, Base: 500 * time.Millisecond, Cap: 10 * time.Second, StableAfter: time.Hour})
	for range 100 {
		if delay, _ := r.crashed(0, false); delay > 10*time.Second {
			t.Fatalf("a delay of %v", delay)
		}
	}
}

func TestStableHealthStartsTheCountAnew(t *testing.T) {
	r := newRestarts(Spec{}.withDefaults().Restart)
	for range 3 {
		r.crashed(0, false)
	}
	delay, again := r.crashed(time.Minute, false)
	if !again || r.crashes != 1 || delay > 600*time.Millisecond+1 {
		t.Errorf("after a minute of health: %v, %v, %d", delay, again, r.crashes)
	}
}

func TestNeverMeansNever(t *testing.T) {
	r := newRestarts(RestartPolicy{Never: true, Max: 3, StableAfter: time.Second})
	if _, again := r.crashed(time.Hour, false); again {
		t.Error("it would restart")
	}
}

func TestSpecsAreComparedInEveryField(t *testing.T) {
	every := map[string]bool{}
	defer func() {
		for _, f := range reflect.VisibleFields(reflect.TypeFor[Spec]()) {
			if !every[f.Name] && f.Name != "Connect" { // functions cannot be compared: Revision stands for it
				t.Errorf("no change of %s was tried", f.Name)
			}
		}
	}()
	base := Spec{Name: "a", Command: []string{"x"}, Env: []string{"A=1"}}
	if copied := base.withDefaults(); !copied.Equal(copied.withDefaults()) {
		t.Error("a spec differs from its copy")
	}
	for _, edit := range []func(*Spec){
		func(s *Spec) { s.Name = "b" }, func(s *Spec) { s.Command = []string{"x", "y"} }, func(s *Spec) { s.Dir = "/" },
		func(s *Spec) { s.Env = nil }, func(s *Spec) { s.Secrets = []string{"s"} }, func(s *Spec) { s.StartTimeout = 1 },
		func(s *Spec) { s.Restart.Max = 9 }, func(s *Spec) { s.Stop.TermWait = 9 }, func(s *Spec) { s.Disabled = true },
		func(s *Spec) { s.Endpoint = "http://x" }, func(s *Spec) { s.Revision = "2" },
		func(s *Spec) { s.Sandbox = &sandbox.Profile{Network: sandbox.NetworkNone} },
	} {
		other := base
		edit(&other)
		a, b := reflect.ValueOf(base), reflect.ValueOf(other)
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			if name == "Connect" || reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				continue
			}
			every[name] = true
			inPlace := slices.Contains([]string{"Secrets", "StartTimeout", "Restart", "Stop"}, name)
			if base.same(other) || base.Equal(other) != inPlace {
				t.Errorf("a change of %s: same %v, equal %v", name, base.same(other), base.Equal(other))
			}
		}
	}
}

func TestTheBaseEnvironmentIsAnAllowlistWithoutCredentials(t *testing.T) {
	env := map[string]string{
		"PATH": "/usr/bin:/opt/python@3/bin", "OPENAI_API_KEY": "sk-secret", "AWS_SECRET_ACCESS_KEY": "x", "TERM": "xterm",
		"HTTPS_PROXY": "http://user:pass@proxy:3128", "https_proxy": "user:pass@proxy:3128", "HTTP_PROXY": "http://proxy:3128",
		"npm_config_registry": "https://tok:en@npm.example/", "NPM_CONFIG_REGISTRY": "https://npm.example/@scope/", "LC_ALL": "zh_CN.UTF-8",
	}
	got := BaseEnv(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	slices.Sort(got)
	want := []string{"HTTP_PROXY=http://proxy:3128", "LC_ALL=zh_CN.UTF-8", "NPM_CONFIG_REGISTRY=https://npm.example/@scope/", "PATH=/usr/bin:/opt/python@3/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestCommandsAreResolvedBesideThePlatformFirst(t *testing.T) {
	beside, first, second, dir := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	put := func(folder, name string, mode fs.FileMode) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	app := put(beside, "app", 0o755)
	put(first, "app", 0o755)
	put(first, "plain", 0o644)
	tool := put(second, "tool", 0o755)
	local := put(dir, "run.sh", 0o755)
	put(dir, "tool", 0o755) // must not be found through a relative PATH entry
	path := strings.Join([]string{"", ".", first, second}, ":")
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"app", app, nil}, {"tool", tool, nil}, {"./run.sh", local, nil}, {local, local, nil},
		{"plain", "", fs.ErrPermission}, {"absent", "", exec.ErrNotFound}, {"./absent", "", exec.ErrNotFound},
		{dir + "/", "", exec.ErrNotFound}, {"", "", exec.ErrNotFound},
	} {
		got, err := ResolveCommand(c.name, dir, path, beside)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	if _, err := ResolveCommand("absent", dir, path, beside); !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), beside) {
		t.Errorf("the error does not tell what was searched: %v", err)
	}
	for name, remedy := range map[string]string{
		"cmd": "begin with the word after them", "CMD.EXE": "begin with the word after them", `C:\Windows\System32\cmd.exe`: "begin with the word after them",
		"powershell.exe": "the program that it starts", "npx.cmd": "write npx", `C:\Program Files\nodejs\node.exe`: "write node",
		`D:\tools\server`: "where it is on this machine",
	} {
		if _, err := ResolveCommand(name, dir, path, beside); err == nil || !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "for Windows") || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAFloodIsDrainedWithinBounds(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.LogSize, o.LogBackups = 64<<10, 2 })
	spec := fake(t, "flood")
	r.apply(spec)
	s := r.session(0)
	path := r.stat("flood").LogPath
	eventually(t, "a note on what is missing", func() bool {
		files, _ := filepath.Glob(path + "*")
		var size int64
		noted := false
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // rotated away
			}
			size += int64(len(b))
			noted = noted || strings.Contains(string(b), "lines suppressed")
		}
		if size > 4*(64<<10) {
			t.Fatalf("the log files hold %d bytes", size)
		}
		return noted
	})
	s.pipes.Stdin.WriteString("hello\n")
	if got := <-s.lines; got != "hello" {
		t.Errorf("echo %q", got)
	}
	lines := r.Stderr("flood", 1000)
	if len(lines) != stderrlog.MaxLines || !strings.HasPrefix(lines[0], "flood flood") {
		t.Errorf("the ring holds %d lines, the first %q", len(lines), lines[0])
	}
}

func TestSecretsReachNeitherTheRingNorTheFile(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.Redact = func(s string) string { return strings.ReplaceAll(s, "red", "[colour]") }
	})
	spec := fake(t, "secret", "TOKEN=hunter2-hunter2")
	spec.Secrets = []string{"hunter2-hunter2"}
	r.apply(spec)
	if err := r.Stop(t.Context(), "secret"); err != nil {
		t.Fatal(err)
	}
	want := `token=[redacted]; \x1b[31m[colour]\a`
	// The hook sees the redacted mark as well.
	want = strings.ReplaceAll(want, "[redacted]", "["+"[colour]"+"acted]")
	if got := r.Stderr("secret", 1); !slices.Equal(got, []string{want}) {
		t.Errorf("the ring holds %q, want %q", got, want)
	}
	b, err := os.ReadFile(r.stat("secret").LogPath)
	if err != nil || strings.Contains(string(b), "hunter2") || !strings.Contains(string(b), want) {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

// babble is the error of a connection to a server that writes what is no message.
type babble struct{ error }

func (babble) Evidence() string { return "the first line: token hunter2-hunter2" }

func TestWhatAServerWroteInPlaceOfMessagesIsSaidWithoutSecrets(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "secret")
	spec.Secrets, spec.Restart.Never = []string{"hunter2-hunter2"}, true
	spec.Connect = func(context.Context, Instance, Pipes) (Session, error) {
		return nil, babble{errors.New("no answer")}
	}
	r.apply(spec)
	r.untilTold("secret", "crashed", "permanently_failed")
	if why := r.stat("secret").LastExit.Reason; !strings.HasSuffix(why, "; the first line: token [redacted]") {
		t.Errorf("the reason is %q", why)
	}
}
