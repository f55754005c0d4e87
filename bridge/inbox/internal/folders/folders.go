// Package folders makes an inbox's files: it writes them to tmp/, syncs them many
// at a time, and renames them to pending/, where they become visible. It also has
// the few other operations on single files of an inbox.
//
// The package knows no order of these steps: package inbox does.
package folders

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// Few is up to how many files of a batch are synced one by one: syncfs also waits
// for what other processes wrote.
const Few = 4

// EventPrefix begins the names of all files of events.
const EventPrefix = "event_"

// Dirs are the folders tmp/ and pending/ of an inbox, held open.
type Dirs struct {
	root         string
	tmp, pending *os.File
	syncs        *atomic.Int64      // counts sync calls
	syncfs       func(fd int) error // unix.Syncfs
}

// Open opens the two folders of the inbox in root. Sync calls are counted in syncs.
func Open(root string, syncs *atomic.Int64) (*Dirs, error) {
	tmp, err := os.Open(filepath.Join(root, queue.Tmp))
	if err != nil {
		return nil, err
	}
	pending, err := os.Open(filepath.Join(root, queue.Pending))
	if err != nil {
		tmp.Close()
		return nil, err
	}
	return &Dirs{root, tmp, pending, syncs, unix.Syncfs}, nil
}

// Close closes both.
func (d *Dirs) Close() {
	d.tmp.Close()
	d.pending.Close()
}

// Files are the descriptors of a batch's files, kept open while the files are so
// few that they are synced one by one.
type Files struct {
	Keep int // at most this many are kept open
	fds  []int
	more bool // there are more files than Keep; none is kept open
}

func (o *Files) add(fd int) error {
	if o.fds = append(o.fds, fd); len(o.fds) > o.Keep || o.more {
		o.more = true
		return o.Close()
	}
	return nil
}

// Close closes them.
func (o *Files) Close() error {
	var errs []error
	for _, fd := range o.fds {
		errs = append(errs, unix.Close(fd))
	}
	o.fds = o.fds[:0]
	return errors.Join(errs...)
}

// Write makes a file in tmp/ with the time of its record, which shows the order.
func (d *Dirs) Write(open *Files, name string, body []byte, at time.Time) error {
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

// Sync makes the files of a batch durable, and their names in tmp/; with moved
// also the names in pending/. The files are closed.
func (d *Dirs) Sync(open *Files, moved bool) (err error) {
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
		err = errors.Join(err, open.Close(), d.syncFolder(d.tmp))
	}
	if moved && err == nil {
		err = d.SyncPending()
	}
	if err != nil {
		return fmt.Errorf("syncing %s: %w", d.tmp.Name(), err)
	}
	return nil
}

// syncEach is for systems without syncfs.
func (d *Dirs) syncEach() error {
	names, err := namesIn(d.tmp.Name(), EventPrefix)
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

// SyncPending makes the names in pending/ durable.
func (d *Dirs) SyncPending() error { return d.syncFolder(d.pending) }

func (d *Dirs) syncFolder(f *os.File) error {
	d.syncs.Add(1)
	return f.Sync()
}

// InPlace fails when a folder is not the one any more that is held open: somebody
// moved or replaced it, and renames would go where no Brain looks.
func (d *Dirs) InPlace() error {
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

// Publish makes a file of tmp/ visible. A file of that name that is visible
// already stays, and the one in tmp/ goes: placed is false then.
func (d *Dirs) Publish(name string) (placed bool, err error) {
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

// publishByLink is Publish where the file system cannot rename without
// overwriting. A second link of a file in tmp/ means that it has been visible:
// a crash came between the two calls.
func (d *Dirs) publishByLink(name string) error {
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

// Clear removes what is in tmp/ and begins with prefix.
func (d *Dirs) Clear(prefix string) error {
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

// Contains reports whether a file is in any folder where a delivered event can be.
func (d *Dirs) Contains(name string) bool {
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

// Each calls fn with the names in dir, in no order, without holding them all. A
// folder that is not there is empty.
func Each(dir string, fn func(string)) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			fn(name)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// WriteSynced makes a new file with a durable content; its name is not durable yet.
func WriteSynced(path string, body []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	return errors.Join(err, f.Sync(), f.Close())
}

// Exchange puts a file with body and the modification time at in place of the file
// name in a folder of the inbox in dir. It is one step: a reader finds one file or
// the other, and a name that is gone stays so. Kept is where in the inbox the file is
// that was there; empty where nothing was exchanged.
func Exchange(dir, folder, name string, body []byte, at time.Time) (kept string, err error) {
	kept = filepath.Join(queue.Rejected, "damaged_"+amp.NewID()+".json")
	path, aside := filepath.Join(dir, folder, name), filepath.Join(dir, kept)
	if err := errors.Join(os.MkdirAll(filepath.Dir(aside), 0o700), WriteSynced(aside, body)); err != nil {
		return "", err
	}
	err = os.Chtimes(aside, at, at) // which shows the order
	if err == nil {
		err = durable.SyncDir(filepath.Dir(aside)) // so that no power cut leaves only the name of the old file
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return "", errors.Join(pathError("exchange", folder, name, err), os.Remove(aside))
	}
	now := time.Now() // it is kept as long as what is rejected now
	return kept, errors.Join(os.Chtimes(aside, now, now), durable.SyncDir(filepath.Dir(path)), durable.SyncDir(filepath.Dir(aside)))
}
