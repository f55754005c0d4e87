package backend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// logPoll is how often a followed log is looked at.
const logPoll = 200 * time.Millisecond

// Logs reads a server's log file. A file that has become shorter was rotated and
// is read from its beginning.
func (b *Backend) Logs(ctx context.Context, server string, n int, follow bool, emit func(lines []string) error) error {
	name := b.o.Servers.Name(server)
	var path string
	if s := b.o.Servers.Status(name); s != nil {
		path = s.LogPath
	}
	if path == "" {
		// A server that was removed has left its log.
		path = b.o.Servers.Kit.LogPath(name)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			return b.o.Servers.Unknown(server)
		}
	}
	last, offset, err := tail(path, n)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", name, err)
	}
	if err := emit(last); err != nil {
		return err
	}
	tick := time.NewTicker(logPoll)
	defer tick.Stop()
	for follow {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if offset, err = readOn(path, offset, emit); err != nil {
			return err
		}
	}
	return nil
}

// tail returns the last n lines of a file and where it ended. A file that is
// not there yet is empty.
func tail(path string, n int) (lines []string, end int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		l, err := r.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		if errors.Is(err, io.EOF) {
			return lines[max(0, len(lines)-n):], end, nil // a line without its end comes with the next read
		}
		end += int64(len(l))
		if lines = append(lines, l[:len(l)-1]); len(lines) > 2*n+100 {
			lines = append(lines[:0], lines[len(lines)-n:]...)
		}
	}
}

// readOn passes on the whole lines after offset and returns where they end.
func readOn(path string, offset int64, emit func(lines []string) error) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return offset, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return offset, err
	} else if info.Size() < offset {
		offset = 0 // the log was rotated
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	for r := bufio.NewReader(f); ; {
		l, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return offset, nil
		}
		if err != nil {
			return offset, err
		}
		if err := emit([]string{l[:len(l)-1]}); err != nil {
			return offset, err
		}
		offset += int64(len(l))
	}
}
