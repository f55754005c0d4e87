package inbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

// fewFiles is up to how many files are synced one by one: syncfs also waits for
// what other processes wrote.
const fewFiles = 4

// eventPrefix begins the names of all files of events.
const eventPrefix = "event_"

// dirs are the two folders of the projector, held open.
type dirs struct {
	root         string
	tmp, pending *os.File
	syncfs       func(fd int) error // unix.Syncfs
}

func openDirs(root string) (*dirs, error) {
	tmp, err := os.Open(filepath.Join(root, queue.Tmp))
	if err != nil {
		return nil, err
	}
	pending, err := os.Open(filepath.Join(root, queue.Pending))
	if err != nil {
		tmp.Close()
		return nil, err
	}
	return &dirs{root, tmp, pending, unix.Syncfs}, nil
}

func (d *dirs) close() {
	d.tmp.Close()
	d.pending.Close()
}

// write makes a file in tmp/ with the time of its record, which shows the order.
func (d *dirs) write(name string, body []byte, at time.Time, sync bool) (err error) {
	fd, err := unix.Openat(int(d.tmp.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return pathError("create", queue.Tmp, name, err)
	}
	defer func() {
		if e := unix.Close(fd); err == nil && e != nil {
			err = pathError("close", queue.Tmp, name, e)
		}
	}()
	for len(body) > 0 {
		n, err := unix.Write(fd, body)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return pathError("write", queue.Tmp, name, err)
		}
		body = body[n:]
	}
	stamp := unix.NsecToTimespec(at.UnixNano())
	if err := unix.UtimesNanoAt(int(d.tmp.Fd()), name, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return pathError("utimes", queue.Tmp, name, err)
	}
	if sync {
		if err := unix.Fsync(fd); err != nil {
			return pathError("fsync", queue.Tmp, name, err)
		}
	}
	return nil
}

// syncTmp makes all files in tmp/ durable, and their names; with synced the
// files are so already.
func (d *dirs) syncTmp(synced bool) error {
	if synced {
		return d.tmp.Sync()
	}
	err := d.syncfs(int(d.tmp.Fd()))
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return d.syncEach()
	}
	if err != nil {
		return fmt.Errorf("syncfs %s: %w", d.tmp.Name(), err)
	}
	return nil
}

// syncEach is syncTmp where the system has no syncfs.
func (d *dirs) syncEach() error {
	names, err := namesIn(d.tmp.Name(), eventPrefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(filepath.Join(d.tmp.Name(), name))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return d.tmp.Sync()
}

func (d *dirs) syncPending() error { return d.pending.Sync() }

// publish makes a file of tmp/ visible. A file of that name that is visible
// already stays, and the one in tmp/ goes: placed is false then.
func (d *dirs) publish(name string) (placed bool, err error) {
	from, to := int(d.tmp.Fd()), int(d.pending.Fd())
	err = unix.Renameat2(from, name, to, name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		err = d.publishByLink(name)
	}
	placed = err == nil
	if errors.Is(err, unix.EEXIST) {
		err = unix.Unlinkat(from, name, 0)
	}
	if err != nil {
		return false, pathError("rename", queue.Pending, name, err)
	}
	return placed, nil
}

// publishByLink is publish where the file system cannot rename without
// overwriting. A second link of a file in tmp/ means that it has been visible:
// a crash came between the two calls.
func (d *dirs) publishByLink(name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.tmp.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Nlink > 1 {
		return unix.EEXIST
	}
	if err := unix.Linkat(int(d.tmp.Fd()), name, int(d.pending.Fd()), name, 0); err != nil {
		return err
	}
	return unix.Unlinkat(int(d.tmp.Fd()), name, 0)
}

// clear removes what is in tmp/ and begins with prefix.
func (d *dirs) clear(prefix string) error {
	names, err := namesIn(d.tmp.Name(), prefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(d.tmp.Name(), name)); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether a file is in any folder where a delivered event can be.
func (d *dirs) holds(name string) bool {
	for _, folder := range []string{queue.Pending, queue.Processing, queue.Done, queue.Failed} {
		if _, err := os.Lstat(filepath.Join(d.root, folder, name)); err == nil {
			return true
		}
	}
	return false
}

func pathError(op, folder, name string, err error) error {
	return &fs.PathError{Op: op, Path: filepath.Join(folder, name), Err: err}
}
