// Package smallfile reads whole files that others name or write: settings, keys,
// requests.
//
//	data, err := smallfile.Read("tokens.yaml", 1<<20, smallfile.Private)
//
// It waits for nothing and takes in no more than it was told to: what is no regular
// file, such as a pipe that nobody writes to, is an error at once. Package durable
// writes such files.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var (
	// ErrNotRegular is wrapped where a path leads to a folder, a pipe, a device or the
	// like. It stays so until somebody changes it.
	ErrNotRegular = errors.New("it is no regular file")
	// ErrTooLarge is wrapped where a file has more bytes than are taken in.
	ErrTooLarge = errors.New("it is too large")
	// ErrNotPrivate is wrapped where others than a file's owner may use it.
	ErrNotPrivate = errors.New("others can read it or change it")
)

// Rule is what is asked of a file, beside being one. Rules are combined with |.
type Rule uint8

const (
	// Private files have no permissions for others than their owner.
	Private Rule = 1 << iota
	// NoLink files are not reached by a symbolic link as the last element of their path.
	NoLink
)

// Read returns the content of the file at path, limit bytes at most. Its errors are
// *fs.PathErrors.
func Read(path string, limit int64, rules Rule) ([]byte, error) {
	flags := os.O_RDONLY | syscall.O_NONBLOCK // which a pipe is opened with at once
	if rules&NoLink != 0 {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, syscall.ENXIO) || rules&NoLink != 0 && errors.Is(err, syscall.ELOOP) { // a socket, a link
		err = refuse(path, ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, refuse(path, ErrNotRegular)
	case rules&Private != 0 && info.Mode().Perm()&0o077 != 0:
		return nil, refuse(path, fmt.Errorf("%w: it has mode %04o (chmod 600 %s)", ErrNotPrivate, info.Mode().Perm(), path))
	case info.Size() > limit:
		return nil, refuse(path, tooLarge(limit))
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = refuse(path, tooLarge(limit))
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, limit)
}

func refuse(path string, why error) error { return &fs.PathError{Op: "read", Path: path, Err: why} }
