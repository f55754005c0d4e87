package smallfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		syscall.Mkfifo(at("pipe"), 0o600),
		os.WriteFile(at("file"), []byte("content"), 0o600),
		os.WriteFile(at("open"), []byte("content"), 0o640),
		os.WriteFile(at("empty"), nil, 0o600),
		os.Symlink(at("file"), at("link")),
		os.Symlink(at("pipe"), at("link-to-pipe")),
		os.Symlink(at("loop"), at("loop")),
	); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		name  string
		limit int64
		rules Rule
		want  error
	}{
		{"file", 7, Private | NoLink, nil},
		{"file", 6, 0, ErrTooLarge},
		{"empty", 0, Private, nil},
		{"open", 100, 0, nil},
		{"open", 100, Private, ErrNotPrivate},
		{"link", 100, Private, nil},
		{"link", 100, NoLink, ErrNotRegular},
		{"pipe", 100, 0, ErrNotRegular},
		{"link-to-pipe", 100, 0, ErrNotRegular},
		{"socket", 100, 0, ErrNotRegular},
		{"", 100, 0, ErrNotRegular},
		{"/dev/zero", 100, 0, ErrNotRegular},
		{"loop", 100, 0, syscall.ELOOP},
		{"nothing", 100, NoLink, fs.ErrNotExist},
		{"/proc/self/cmdline", 0, 0, ErrTooLarge}, // whose size is said to be 0
	} {
		path := c.name
		if !filepath.IsAbs(path) {
			path = at(c.name)
		}
		data, err := Read(path, c.limit, c.rules)
		var named *fs.PathError
		switch {
		case !errors.Is(err, c.want) || err != nil && (!errors.As(err, &named) || named.Path != path):
			t.Errorf("%s with %d: %v, want %v", c.name, c.rules, err, c.want)
		case err == nil && c.name != "empty" && string(data) != "content" || err != nil && data != nil:
			t.Errorf("%s: read %q", c.name, data)
		}
	}
}
