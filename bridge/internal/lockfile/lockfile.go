// Package lockfile keeps a folder to one process, and notices when a file that
// is in use was removed or replaced by somebody else.
//
//	f, err := lockfile.Lock(filepath.Join(dir, "lock")) // freed by f.Close
//	err = lockfile.InPlace(f)
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process has the folder open for writing.
var ErrLocked = errors.New("in use")

// Lock takes the only write lock of a folder, which is the file at path. The
// error wraps [ErrLocked] and names the process that has the lock.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := make([]byte, 20)
		n, _ := f.ReadAt(holder, 0)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w by process %s (%s)", ErrLocked, strings.TrimSpace(string(holder[:n])), path)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	pid := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if err := f.Truncate(0); err == nil {
		f.WriteAt(pid, 0) // only for the message above
	}
	return f, nil
}

// Removed says that somebody removed or replaced the file at Path while it was in use.
type Removed struct{ Path string }

func (e Removed) Error() string { return e.Path + " was removed while it was in use" }

// InPlace is a [Removed] unless the open file f is still found under its name.
func InPlace(f *os.File) error {
	var held, there unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &held); err != nil {
		return &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	err := unix.Stat(f.Name(), &there)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || err == nil && (held.Dev != there.Dev || held.Ino != there.Ino) {
		return Removed{f.Name()}
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return nil
}
