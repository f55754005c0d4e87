package stderrlog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// rotatedFile appends to path and keeps backups path.1 (the newest) to path.N.
// It is opened by the first write. A nil rotatedFile takes everything and keeps
// nothing. The caller serialises calls.
type rotatedFile struct {
	path    string
	max     int64 // bytes of one file
	backups int
	log     *slog.Logger

	file    *os.File
	size    int64
	blocked time.Time // after a failure: no attempt before this
}

// retryAfter a failed write, so that a full disk is not asked for every line.
const retryAfter = 5 * time.Second

// write appends b, whole lines. What cannot be written is dropped: a full disk
// must not stop the reader of a pipe.
func (f *rotatedFile) write(b []byte) {
	if f == nil || len(b) == 0 || time.Now().Before(f.blocked) {
		return
	}
	if err := f.append(b); err != nil {
		f.close()
		f.blocked = time.Now().Add(retryAfter)
		f.log.Error("writing the stderr log", "path", f.path, "err", err)
	}
}

func (f *rotatedFile) append(b []byte) error {
	if err := f.open(); err != nil {
		return err
	}
	if f.size > 0 && f.size+int64(len(b)) > f.max {
		f.close()
		if err := f.rotate(); err != nil {
			return err
		}
		if err := f.open(); err != nil {
			return err
		}
	}
	n, err := f.file.Write(b)
	f.size += int64(n)
	return err
}

func (f *rotatedFile) open() error {
	if f.file != nil {
		return nil
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	f.file, f.size = file, info.Size()
	return nil
}

func (f *rotatedFile) rotate() error {
	for n := f.backups; n > 0; n-- {
		from := f.path
		if n > 1 {
			from = fmt.Sprintf("%s.%d", f.path, n-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", f.path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (f *rotatedFile) close() {
	if f != nil && f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// Path returns the file for name inside dir. Names that differ never share a
// file, and none leads out of dir.
func Path(dir, name string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, name)
	safe = strings.TrimLeft(safe[:min(len(safe), 100)], "._") // _ is for files of the kit's own
	if safe != name || safe == "" {                           // also for capitals: some file systems fold them
		safe = fmt.Sprintf("%s-%.4x", safe, sha256.Sum256([]byte(name)))
	}
	return filepath.Join(dir, safe+".log")
}
