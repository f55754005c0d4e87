package inbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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
	syncs        *atomic.Int64      // counts sync calls
	syncfs       func(fd int) error // unix.Syncfs
}

func openDirs(root string, syncs *atomic.Int64) (*dirs, error) {
	tmp, err := os.Open(filepath.Join(root, queue.Tmp))
	if err != nil {
		return nil, err
	}
	pending, err := os.Open(filepath.Join(root, queue.Pending))
	if err != nil {
		tmp.Close()
		return nil, err
	}
	return &dirs{root, tmp, pending, syncs, unix.Syncfs}, nil
}

func (d *dirs) close() {
	d.tmp.Close()
	d.pending.Close()
}

// openFiles are the descriptors of a batch's files, while these are so few that
// they are synced one by one.
type openFiles struct {
	keep int // this many
	fds  []int
	more bool // there are more files than that; none is kept open
}

func (o *openFiles) add(fd int) error {
	if o.fds = append(o.fds, fd); len(o.fds) > o.keep || o.more {
		o.more = true
		return o.close()
	}
	return nil
}

func (o *openFiles) close() error {
	var errs []error
	for _, fd := range o.fds {
		errs = append(errs, unix.Close(fd))
	}
	o.fds = o.fds[:0]
	return errors.Join(errs...)
}

// write makes a file in tmp/ with the time of its record, which shows the order.
func (d *dirs) write(open *openFiles, name string, body []byte, at time.Time) error {
	fd, err := unix.Openat(int(d.tmp.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return pathError("create", queue.Tmp, name, err)
	}
	for len(body) > 0 && err == nil {
		var n int
		if n, err = unix.Write(fd, body); err == unix.EINTR {
			n, err = 0, nil
		}
		body = body[max(n, 0):]
	}
	if err != nil {
		unix.Close(fd)
		return pathError("write", queue.Tmp, name, err)
	}
	stamp := unix.NsecToTimespec(at.UnixNano())
	if err := unix.UtimesNanoAt(int(d.tmp.Fd()), name, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		unix.Close(fd)
		return pathError("utimes", queue.Tmp, name, err)
	}
	if err := open.add(fd); err != nil {
		return pathError("close", queue.Tmp, name, err)
	}
	return nil
}

// sync makes the files of a batch durable, and their names in tmp/; with moved
// also the names in pending/. The files are closed.
func (d *dirs) sync(open *openFiles, moved bool) (err error) {
	if open.more {
		d.syncs.Add(1)
		switch err := d.syncfs(int(d.tmp.Fd())); {
		case err == nil:
			return nil
		case !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP):
			return fmt.Errorf("syncfs %s: %w", d.tmp.Name(), err)
		}
		err = d.syncEach()
	} else {
		for _, fd := range open.fds {
			d.syncs.Add(1)
			err = errors.Join(err, unix.Fsync(fd))
		}
		err = errors.Join(err, open.close(), d.syncFolder(d.tmp))
	}
	if moved && err == nil {
		err = d.syncPending()
	}
	if err != nil {
		return fmt.Errorf("syncing %s: %w", d.tmp.Name(), err)
	}
	return nil
}

// syncEach is for systems without syncfs.
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
		d.syncs.Add(1)
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return d.syncFolder(d.tmp)
}

func (d *dirs) syncPending() error { return d.syncFolder(d.pending) }

func (d *dirs) syncFolder(f *os.File) error {
	d.syncs.Add(1)
	return f.Sync()
}

// inPlace fails when a folder is not the one any more that is held open: somebody
// moved or replaced it, and renames would go where no Brain looks.
func (d *dirs) inPlace() error {
	for _, held := range []*os.File{d.tmp, d.pending} {
		open, err := held.Stat()
		if err != nil {
			return err
		}
		there, err := os.Stat(held.Name())
		if err != nil {
			return err
		}
		if !os.SameFile(open, there) {
			return fmt.Errorf("%s was replaced", held.Name())
		}
	}
	return nil
}

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

// namesIn lists the names in dir that begin with prefix.
func namesIn(dir, prefix string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) }), nil
}
