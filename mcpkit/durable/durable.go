// Package durable writes small files that are there after power loss.
//
//	err := durable.WriteFile(path, data) // all of data, or what was there before
//
// The file's content is synced before it gets its name, and the folder after it:
// a rename without both may be lost or leave an empty file. What grows, such as a
// journal, and what is too large to hold in memory is written elsewhere, with
// SyncDir. The package keeps two writers of one file from tearing it, not from
// losing each other's change.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TempPrefix begins the names of files that are not finished. A program that
// was killed leaves them behind, in the folder of the file that it wrote.
const TempPrefix = ".tmp-"

// WriteFile replaces the file at path with data, private to this user. Whatever
// happens, power loss included, the file holds either the old content or the new
// one in full; when WriteFile has returned nil it is the new one.
func WriteFile(path string, data []byte) error { return write(path, data, os.Rename) }

// CreateFile is WriteFile for a file that is not there yet. Where it is, it stays
// as it is, and the error wraps fs.ErrExist.
func CreateFile(path string, data []byte) error {
	return write(path, data, func(from, to string) error {
		defer os.Remove(from)
		return os.Link(from, to)
	})
}

// write makes a whole, synced file beside path, and then puts it in its place.
func write(path string, data []byte, place func(from, to string) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, TempPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = place(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// RemoveFile removes the file at path for good: when it has returned nil, the
// file does not come back after power loss. A file that is not there is no error.
func RemoveFile(path string) error {
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// MkdirAll makes the folder at path, private to this user, and those above it,
// so that they stay after power loss. A folder that is there stays as it is.
func MkdirAll(path string) error {
	var made []string
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break // there, or an error that the next call reports
		}
		made = append(made, dir)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, dir := range made {
		if err := SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
