package stderrlog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLogPathsStayInTheFolderAndNeverMeet(t *testing.T) {
	seen := make(map[string]string)
	for _, name := range []string{"a", "A", "im.polaris.weather", "../../etc/passwd", "..", ".", "", "/", "a/b", "a_b", "a\x00b", "天气", "_guard",
		strings.Repeat("x", 200), strings.Repeat("x", 201)} {
		path := Path("/logs", name)
		if filepath.Dir(path) != "/logs" || len(filepath.Base(path)) > 150 || path == "/logs/_guard.log" {
			t.Errorf("%q is logged to %q", name, path)
		}
		if other, ok := seen[path]; ok {
			t.Errorf("%q and %q share %s", name, other, path)
		}
		seen[path] = name
	}
	if got := Path("/logs", "im.polaris.weather"); got != "/logs/im.polaris.weather.log" {
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

func newTestLog() *Log { return New(Options{}) }

func TestTheRingKeepsTheLastLinesMadeVisible(t *testing.T) {
	l := newTestLog()
	for n := range 250 {
		l.take(fmt.Appendf(nil, "line %d\r\n", n))
	}
	l.take([]byte("\x1b[31mred\x07 \xff \u202e天气\tx\nunfinished"))
	got := l.Lines(3)
	want := []string{"line 249", `\x1b[31mred\a \xff \u202e天气` + "\tx", "unfinished"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if all := l.Lines(1000); len(all) != MaxLines || all[0] != "line 152" {
		t.Errorf("%d lines from %q", len(all), all[0])
	}
	if got := l.Lines(0); len(got) != 0 {
		t.Errorf("no lines are %q", got)
	}
}

func TestALongLineIsCutAndTheNextIsWhole(t *testing.T) {
	l := newTestLog()
	l.take([]byte(strings.Repeat("é", 50_000)))
	l.take([]byte("\nnext\n"))
	got := l.Lines(2)
	if len(got[0]) > lineBytes || !utf8.ValidString(got[0]) || !strings.HasSuffix(got[0], "é…") || got[1] != "next" {
		t.Errorf("a line of %d bytes, then %q", len(got[0]), got[1])
	}
}

func TestSecretsAreRemovedWhereverTheyAreCut(t *testing.T) {
	const secret = "s3cr3t-value"
	for pad := rawBytes - 20; pad <= rawBytes; pad++ {
		l := newTestLog()
		l.Forget([]string{secret, "short", "first-line\nsecond-line"})
		// many secrets make the line shorter than it came, so its cut end is kept
		line := strings.Repeat(secret, (pad-100)/len(secret))
		line += strings.Repeat(".", pad-len(line)) + secret + strings.Repeat(".", 100)
		l.take([]byte(line[:5000]))
		l.take([]byte(line[5000:] + "\nshort second-line s3cr3t-"))
		for _, kept := range l.Lines(2) {
			if strings.Contains(kept, "s3cr") || strings.Contains(kept, "second-line") {
				t.Fatalf("pad %d: kept %q", pad, kept[max(0, len(kept)-60):])
			}
		}
		if got := l.Lines(1)[0]; !strings.HasPrefix(got, "short [redacted]") {
			t.Errorf("kept %q", got)
		}
	}
}

func FuzzNothingSecretOrInvisibleIsKept(f *testing.F) {
	f.Add([]byte("a token-123456 b\nnext"), 3)
	f.Add([]byte("\x00\x1b]0;t\x07\xffé\r\n"), 1)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		const secret = "token-123456"
		l := newTestLog()
		l.Forget([]string{secret})
		cut = min(max(0, cut), len(b))
		l.take(b[:cut])
		l.take(b[cut:])
		l.Flush()
		for _, line := range l.Lines(MaxLines) {
			if strings.Contains(line, secret) || len(line) > lineBytes || !utf8.ValidString(line) {
				t.Errorf("kept %q", line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
				t.Errorf("kept the control characters of %q", line)
			}
		}
	})
}
