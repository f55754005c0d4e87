package request

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// noticeDeath bounds how long what was sent may wait for the other side to say
// that it has come. Signs of life are not asked for while something waits, and
// the system's own limit is a quarter of an hour.
func noticeDeath(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(2*probeTime/time.Millisecond))
	}); e != nil {
		return e
	}
	return err
}
