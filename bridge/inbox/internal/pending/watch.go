package pending

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
)

// watch hears of the files that come to a folder and go from it.
type watch struct {
	fd, stop int // inotify, eventfd
	ending   sync.Mutex
	closed   bool
	missed   bool
	buf      [64 << 10]byte
}

var errMissed = errors.New("events of the folder were missed")

func watchFolder(dir string) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	const mask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &watch{fd: fd, stop: stop}, nil
}

func (w *watch) close() {
	w.ending.Lock()
	defer w.ending.Unlock()
	w.closed = true
	unix.Close(w.fd)
	unix.Close(w.stop)
}

// interrupt ends wait for good. It may come late.
func (w *watch) interrupt() {
	w.ending.Lock()
	defer w.ending.Unlock()
	if !w.closed {
		unix.Write(w.stop, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// wait returns true when something happened, and false when interrupted.
func (w *watch) wait() bool {
	for {
		fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}, {Fd: int32(w.stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == nil || err != unix.EINTR {
			return err == nil && fds[1].Revents == 0
		}
	}
}

// read returns what happened since the last call.
func (w *watch) read() (came, taken int64, err error) {
	for !w.missed {
		n, err := unix.Read(w.fd, w.buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return came, taken, nil
		case err != nil:
			return came, taken, err
		}
		in, out, missed := parseEvents(w.buf[:n])
		came, taken, w.missed = came+in, taken+out, missed
	}
	return came, taken, errMissed
}

// parseEvents counts the events of inotify in b; lost says that the count cannot
// go on from here.
func parseEvents(b []byte) (came, taken int64, lost bool) {
	for len(b) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if end > len(b) {
			return came, taken, true
		}
		name := b[unix.SizeofInotifyEvent:end]
		b = b[end:]
		switch {
		case mask&(unix.IN_Q_OVERFLOW|unix.IN_IGNORED|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0:
			lost = true
		case !bytes.HasPrefix(name, []byte(folders.EventPrefix)):
		case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
			came++
		default:
			taken++
		}
	}
	return came, taken, lost
}
