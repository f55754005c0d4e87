package folders

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

func testDirs(t *testing.T) *Dirs {
	t.Helper()
	root := filepath.Join(t.TempDir(), "inbox")
	if _, err := queue.Prepare(root); err != nil {
		t.Fatal(err)
	}
	d, err := Open(root, new(atomic.Int64))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func write(t *testing.T, d *Dirs, name, text string) {
	t.Helper()
	if err := d.Write(new(Files), name, []byte(text), time.Now()); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, d *Dirs, folder, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.root, folder, name))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestWithoutSyncfsEachFileIsSynced(t *testing.T) {
	d := testDirs(t)
	d.syncfs = func(int) error { return unix.ENOSYS }
	write(t, d, "event_t_1.json", "one")
	if err := d.Sync(&Files{more: true}, true); err != nil {
		t.Error(err)
	}
	d.syncfs = func(int) error { return unix.EIO }
	if err := d.Sync(&Files{more: true}, true); !errors.Is(err, unix.EIO) {
		t.Errorf("a sync that failed: %v", err)
	}
}

func TestAVisibleFileIsNeverOverwritten(t *testing.T) {
	const name = "event_t_1.json"
	for how, publish := range map[string]func(*Dirs) error{
		"rename": func(d *Dirs) error {
			if placed, err := d.Publish(name); err != nil || placed {
				return errors.Join(errors.New("placed over a file"), err)
			}
			return unix.EEXIST
		},
		"link": func(d *Dirs) error { return d.publishByLink(name) },
	} {
		d := testDirs(t)
		write(t, d, name, "first")
		if placed, err := d.Publish(name); err != nil || !placed {
			t.Fatal(placed, err)
		}
		write(t, d, name, "second")
		if err := publish(d); !errors.Is(err, unix.EEXIST) {
			t.Errorf("%s: %v", how, err)
		}
		if got := content(t, d, queue.Pending, name); got != "first" {
			t.Errorf("%s: pending holds %q", how, got)
		}
	}
}

func TestALinkInTmpOfAVisibleFileIsNotMadeVisibleAgain(t *testing.T) {
	const name = "event_t_1.json"
	d := testDirs(t)
	write(t, d, name, "one")
	tmp, done := filepath.Join(d.root, queue.Tmp, name), filepath.Join(d.root, queue.Done, name)
	if err := os.Link(tmp, done); err != nil { // a crash between link and unlink; the Brain has taken it
		t.Fatal(err)
	}
	if err := d.publishByLink(name); !errors.Is(err, unix.EEXIST) {
		t.Errorf("got %v", err)
	}
	if got := content(t, d, queue.Pending, name); got != "" {
		t.Errorf("pending holds %q", got)
	}
	if err := os.Remove(done); err != nil {
		t.Fatal(err)
	}
	if err := d.publishByLink(name); err != nil || content(t, d, queue.Pending, name) != "one" || content(t, d, queue.Tmp, name) != "" {
		t.Errorf("by link: %v", err)
	}
}
