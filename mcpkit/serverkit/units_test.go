//go:build linux

package serverkit

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestDelaysDoubleUpToTheCapAndTheFourthCrashIsFinal(t *testing.T) {
	p := Spec{}.withDefaults().Restart
	r := newRestarts(p)
	for n, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		delay, again := r.crashed(0)
		if !again || delay < want*8/10 || delay > want*12/10+1 {
			t.Errorf("crash %d: %v, %v; want about %v", n+1, delay, again, want)
		}
	}
	if _, again := r.crashed(59 * time.Second); again {
		t.Error("the fourth crash in a row is not final")
	}
}

func TestTheDelayNeverExceedsTheCap(t *testing.T) {
	r := newRestarts(RestartPolicy{Max: 100, Base: 500 * time.Millisecond, Cap: 10 * time.Second, StableAfter: time.Hour})
	for range 100 {
		if delay, _ := r.crashed(0); delay > 10*time.Second {
			t.Fatalf("a delay of %v", delay)
		}
	}
}

func TestStableHealthStartsTheCountAnew(t *testing.T) {
	r := newRestarts(Spec{}.withDefaults().Restart)
	for range 3 {
		r.crashed(0)
	}
	delay, again := r.crashed(time.Minute)
	if !again || r.crashes != 1 || delay > 600*time.Millisecond+1 {
		t.Errorf("after a minute of health: %v, %v, %d", delay, again, r.crashes)
	}
}

func TestNeverMeansNever(t *testing.T) {
	r := newRestarts(RestartPolicy{Never: true, Max: 3, StableAfter: time.Second})
	if _, again := r.crashed(time.Hour); again {
		t.Error("it would restart")
	}
}

func TestSpecsAreComparedInEveryField(t *testing.T) {
	base := Spec{Name: "a", Command: []string{"x"}, Env: []string{"A=1"}}
	if copied := base.withDefaults(); !copied.Equal(copied.withDefaults()) {
		t.Error("a spec differs from its copy")
	}
	for _, edit := range []func(*Spec){
		func(s *Spec) { s.Name = "b" }, func(s *Spec) { s.Command = []string{"x", "y"} }, func(s *Spec) { s.Dir = "/" },
		func(s *Spec) { s.Env = nil }, func(s *Spec) { s.Secrets = []string{"s"} }, func(s *Spec) { s.StartTimeout = 1 },
		func(s *Spec) { s.Restart.Max = 9 }, func(s *Spec) { s.Stop.TermWait = 9 }, func(s *Spec) { s.Disabled = true },
	} {
		other := base
		if edit(&other); base.Equal(other) {
			t.Errorf("%+v equals %+v", other, base)
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
}

func TestLogPathsStayInTheFolderAndNeverMeet(t *testing.T) {
	seen := make(map[string]string)
	for _, name := range []string{"a", "A", "im.polaris.weather", "../../etc/passwd", "..", ".", "", "/", "a/b", "a_b", "a\x00b", "天气", "_guard",
		strings.Repeat("x", 200), strings.Repeat("x", 201)} {
		path := logPath("/logs", name)
		if filepath.Dir(path) != "/logs" || len(filepath.Base(path)) > 150 || path == "/logs/_guard.log" {
			t.Errorf("%q is logged to %q", name, path)
		}
		if other, ok := seen[path]; ok {
			t.Errorf("%q and %q share %s", name, other, path)
		}
		seen[path] = name
	}
	if got := logPath("/logs", "im.polaris.weather"); got != "/logs/im.polaris.weather.log" {
		t.Errorf("a plain name becomes %s", got)
	}
}

func TestLogFilesAreRotatedWithinBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	f := &rotatedFile{path: path, max: 1000, backups: 2, log: slog.New(slog.DiscardHandler)}
	for n := range 200 {
		f.write(fmt.Appendf(nil, "line %03d %s\n", n, strings.Repeat(".", 40)))
		if n == 100 {
			f.close() // a restart of the platform goes on where it was
		}
	}
	f.close()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("files %v, %v", files, err)
	}
	var all strings.Builder
	for _, file := range []string{path + ".2", path + ".1", path} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 1000 {
			t.Errorf("%s has %d bytes", file, len(b))
		}
		if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", file, info.Mode())
		}
		all.Write(b)
	}
	lines := strings.Split(strings.TrimSpace(all.String()), "\n")
	for i, line := range lines {
		if want := fmt.Sprintf("line %03d ", 200-len(lines)+i); !strings.HasPrefix(line, want) {
			t.Fatalf("line %d of the rest is %q, want %q", i, line, want)
		}
	}
}

func TestALogFileThatIsASymbolicLinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, "x.log")); err != nil {
		t.Fatal(err)
	}
	f := &rotatedFile{path: filepath.Join(dir, "x.log"), max: 1000, backups: 1, log: slog.New(slog.DiscardHandler)}
	f.write([]byte("x\n"))
	f.close()
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
}

func newTestLog() *stderrLog { return newStderrLog(nil, nil, time.Now) }

func TestTheRingKeepsTheLastLinesMadeVisible(t *testing.T) {
	l := newTestLog()
	for n := range 250 {
		l.take(fmt.Appendf(nil, "line %d\r\n", n))
	}
	l.take([]byte("\x1b[31mred\x07 \xff \u202e天气\tx\nunfinished"))
	got := l.lines(3)
	want := []string{"line 249", `\x1b[31mred\a \xff \u202e天气` + "\tx", "unfinished"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if all := l.lines(1000); len(all) != ringLines || all[0] != "line 152" {
		t.Errorf("%d lines from %q", len(all), all[0])
	}
	if got := l.lines(0); len(got) != 0 {
		t.Errorf("no lines are %q", got)
	}
}

func TestALongLineIsCutAndTheNextIsWhole(t *testing.T) {
	l := newTestLog()
	l.take([]byte(strings.Repeat("é", 50_000)))
	l.take([]byte("\nnext\n"))
	got := l.lines(2)
	if len(got[0]) > lineBytes || !utf8.ValidString(got[0]) || !strings.HasSuffix(got[0], "é…") || got[1] != "next" {
		t.Errorf("a line of %d bytes, then %q", len(got[0]), got[1])
	}
}

func TestSecretsAreRemovedWhereverTheyAreCut(t *testing.T) {
	const secret = "s3cr3t-value"
	for pad := rawBytes - 20; pad <= rawBytes; pad++ {
		l := newTestLog()
		l.forget([]string{secret, "short", "first-line\nsecond-line"})
		// many secrets make the line shorter than it came, so its cut end is kept
		line := strings.Repeat(secret, (pad-100)/len(secret))
		line += strings.Repeat(".", pad-len(line)) + secret + strings.Repeat(".", 100)
		l.take([]byte(line[:5000]))
		l.take([]byte(line[5000:] + "\nshort second-line s3cr3t-"))
		for _, kept := range l.lines(2) {
			if strings.Contains(kept, "s3cr") || strings.Contains(kept, "second-line") {
				t.Fatalf("pad %d: kept %q", pad, kept[max(0, len(kept)-60):])
			}
		}
		if got := l.lines(1)[0]; !strings.HasPrefix(got, "short [redacted]") {
			t.Errorf("kept %q", got)
		}
	}
}

func TestAFloodIsDrainedWithinBounds(t *testing.T) {
	r := newRig(t, func(o *Options) { o.LogSize, o.LogBackups = 64<<10, 2 })
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
	if len(lines) != ringLines || !strings.HasPrefix(lines[0], "flood flood") {
		t.Errorf("the ring holds %d lines, the first %q", len(lines), lines[0])
	}
}

func TestSecretsReachNeitherTheRingNorTheFile(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Redact = func(s string) string { return strings.ReplaceAll(s, "red", "[colour]") } })
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

func FuzzNothingSecretOrInvisibleIsKept(f *testing.F) {
	f.Add([]byte("a token-123456 b\nnext"), 3)
	f.Add([]byte("\x00\x1b]0;t\x07\xffé\r\n"), 1)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		const secret = "token-123456"
		l := newTestLog()
		l.forget([]string{secret})
		cut = min(max(0, cut), len(b))
		l.take(b[:cut])
		l.take(b[cut:])
		l.end()
		for _, line := range l.lines(ringLines) {
			if strings.Contains(line, secret) || len(line) > lineBytes || !utf8.ValidString(line) {
				t.Errorf("kept %q", line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
				t.Errorf("kept the control characters of %q", line)
			}
		}
	})
}
