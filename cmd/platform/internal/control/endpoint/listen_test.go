package endpoint_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server"
)

// dataDir is a data folder with a path short enough for a socket.
func dataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// versioned is a backend that knows only its version.
type versioned struct{ server.Backend }

func (versioned) Version() control.Version { return control.Version{Version: "1"} }

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestTheSocketIsItsOwnersAloneWhateverTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	data := dataDir(t)
	l, moved, err := endpoint.Listen(data)
	if err != nil || moved {
		t.Fatal(moved, err)
	}
	path := filepath.Join(data, "platform.sock")
	if m := mode(t, path); m != os.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v", m)
	}
	l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays behind: %v", err)
	}
}

func TestTheSocketOfADeadPlatformIsReplacedAndNothingElseIs(t *testing.T) {
	data := dataDir(t)
	dead, _, err := endpoint.Listen(data)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	path := filepath.Join(data, "platform.sock")
	if m := mode(t, path); m.Type() != os.ModeSocket {
		t.Fatalf("nothing was left behind: %v", m)
	}
	client, err := control.Dial(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Version(t.Context()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("a dead platform answers %v", err)
	}
	l, _, err := endpoint.Listen(data)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := client.Version(t.Context()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("a platform that is no more answers %v", err)
	}
	for name, make := range map[string]func() error{
		"file":    func() error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"folder":  func() error { return os.Mkdir(path, 0o700) },
		"symlink": func() error { return os.Symlink("elsewhere", path) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if l, _, err := endpoint.Listen(data); err == nil {
			l.Close()
			t.Errorf("a %s was replaced", name)
		}
		if err := os.Remove(path); err != nil {
			t.Errorf("the %s is gone: %v", name, err)
		}
	}
}

// long is a data folder whose path is too long for a socket.
func long(t *testing.T) string {
	t.Helper()
	data := filepath.Join(dataDir(t), strings.Repeat("long", 30))
	if err := os.MkdirAll(filepath.Join(data, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestASocketWhosePathIsTooLongIsElsewhereAndFound(t *testing.T) {
	data, run := long(t), dataDir(t)
	t.Setenv("XDG_RUNTIME_DIR", run)
	l, moved, err := endpoint.Listen(data)
	if err != nil || !moved {
		t.Fatal(moved, err)
	}
	if m := mode(t, l.Addr().String()); m != os.ModeSocket|0o600 || !strings.HasPrefix(l.Addr().String(), run) {
		t.Errorf("the socket is %s with mode %v", l.Addr(), m)
	}
	if again, _, _ := endpoint.SocketPath(data); again != l.Addr().String() {
		t.Errorf("the same folder has another socket: %s", again)
	}
	if other, _, _ := endpoint.SocketPath(data + "x"); other == l.Addr().String() {
		t.Error("another folder has the same socket")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- server.Serve(ctx, server.Options{Backend: versioned{}, Socket: l, Grace: time.Second})
	}()
	t.Setenv("XDG_RUNTIME_DIR", "") // the client's surroundings may be others
	client, err := control.Dial(data)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := client.Version(t.Context()); err != nil || v.Version != "1" {
		t.Errorf("got %v %v", v, err)
	}
	client.Close()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAFolderThatOthersMayWriteToIsNotTrustedWithTheSocket(t *testing.T) {
	data, run := long(t), dataDir(t)
	t.Setenv("XDG_RUNTIME_DIR", run)
	base := filepath.Join(run, "aurora")
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		if l, _, err := endpoint.Listen(data); err == nil {
			l.Close()
			t.Errorf("%s: a platform takes it", what)
		}
		if _, err := control.Dial(data); err == nil {
			t.Errorf("%s: a client takes it", what)
		}
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	refused("everybody's folder")
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chmod(base, 0o700), os.Chown(base, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		refused("another user's folder")
	}
	if err := errors.Join(os.RemoveAll(base), os.Symlink(dataDir(t), base)); err != nil {
		t.Fatal(err)
	}
	refused("a link")
}

func TestOnlyLoopbackIsListenedOn(t *testing.T) {
	for addr, good := range map[string]bool{
		"127.0.0.1:0": true, "127.0.0.1:8420": true, "[::1]:0": true, "localhost:0": true, "127.1.2.3:65535": true,
		"": false, "127.0.0.1": false, ":0": false, "0.0.0.0:0": false, "[::]:0": false, "192.0.2.1:1": false, "example.com:1": false,
		"127.0.0.1:": false, "127.0.0.1:65536": false, "127.0.0.1:-1": false, "[::ffff:10.0.0.1]:1": false,
	} {
		if err := endpoint.CheckAddress(addr); (err == nil) != good {
			t.Errorf("%q: %v", addr, err)
		}
		if good || addr == "" {
			continue
		}
		if l, _, err := endpoint.ListenTCP(dataDir(t), addr); err == nil {
			l.Close()
			t.Errorf("%q is listened on", addr)
		}
	}
}

func TestTheTokenIsMadeOnceAndItsAddressNotedWhileItIsThere(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	data := dataDir(t)
	noted, kept := filepath.Join(data, "state/api-address"), filepath.Join(data, endpoint.TokenFile)
	if l, token, err := endpoint.ListenTCP(data, ""); l != nil || token != "" || err != nil {
		t.Fatal(l, token, err)
	}
	if _, err := os.Lstat(kept); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a token that nobody needs: %v", err)
	}
	var tokens []string
	for range 2 {
		l, token, err := endpoint.ListenTCP(data, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
		raw, err := os.ReadFile(noted)
		if err != nil || string(raw) != l.Addr().String()+"\n" {
			t.Errorf("noted is %q %v, not %s", raw, err, l.Addr())
		}
		for _, path := range []string{noted, kept} {
			if m := mode(t, path); m != 0o600 {
				t.Errorf("%s has mode %v", path, m)
			}
		}
		l.Close()
		if _, err := os.Lstat(noted); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the address stays behind: %v", err)
		}
	}
	if tokens[0] != tokens[1] || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(tokens[0]) {
		t.Errorf("the tokens are %q", tokens)
	}
	if l, other, err := endpoint.ListenTCP(dataDir(t), "127.0.0.1:0"); err != nil || other == tokens[0] {
		t.Errorf("another folder has the token %q, %v", other, err)
	} else {
		l.Close()
	}
	if err := os.WriteFile(noted, []byte("127.0.0.1:1\n"), 0o600); err != nil { // of a platform that was killed
		t.Fatal(err)
	}
	if _, _, err := endpoint.ListenTCP(data, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(noted); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the address of a dead platform stays: %v", err)
	}
}

func TestATokenThatIsNoSecretIsNotUsed(t *testing.T) {
	good := strings.Repeat("0a", 32) + "\n"
	for name, make := range map[string]func(path string) error{
		"empty":    func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"short":    func(p string) error { return os.WriteFile(p, []byte("0a0b\n"), 0o600) },
		"words":    func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("password", 10)), 0o600) },
		"readable": func(p string) error { return os.WriteFile(p, []byte(good), 0o644) },
		"link": func(p string) error {
			return errors.Join(os.WriteFile(p+"2", []byte(good), 0o600), os.Symlink(p+"2", p))
		},
		"folder": func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		data := dataDir(t)
		if err := make(filepath.Join(data, endpoint.TokenFile)); err != nil {
			t.Fatal(err)
		}
		if l, _, err := endpoint.ListenTCP(data, "127.0.0.1:0"); err == nil {
			l.Close()
			t.Errorf("%s: the token is used", name)
		}
	}
	data := dataDir(t)
	if err := os.WriteFile(filepath.Join(data, endpoint.TokenFile), []byte(good), 0o400); err != nil {
		t.Fatal(err)
	}
	l, token, err := endpoint.ListenTCP(data, "localhost:0")
	if err != nil || token+"\n" != good {
		t.Fatalf("a person's own token: %q %v", token, err)
	}
	l.Close()
}
