package serverkit

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// scarceWait is how long a server waits before it is tried again when the
	// system lacked what a process takes; doubled each time up to scarceCap.
	scarceWait = 500 * time.Millisecond
	scarceCap  = 5 * time.Second
	// spareFiles is how many descriptors spawning leaves to the rest of the
	// program: to stop servers, and to write down what happens.
	spareFiles = 16
)

// errCalledOff says that a start was given up because something else is wanted.
var errCalledOff = errors.New("the start was called off")

// spawn spawns w's command. While the system is short of what that takes it
// waits and tries again, as that is no fault of the server's; the status says
// so, and so does the outcome so far.
func (s *server) spawn(w want, number int) (*process, []string, error) {
	token := s.kit.token()
	for tries, wait := 0, scarceWait; ; tries, wait = tries+1, min(2*wait, scarceCap) {
		p, argv, err := s.kit.spawn(w.spec, token, number, s.stderr)
		if !scarce(err) {
			if tries > 0 && err == nil {
				s.log.Info("the server has what it waited for", "tries", tries+1)
			}
			return p, argv, err
		}
		waiting := fmt.Errorf("waiting for what a process takes: %w", err)
		s.move(func() {
			s.st.Waiting = waiting.Error()
			s.gen, s.outcome = w.gen, waiting
		})
		if tries == 0 {
			s.log.Warn("the server cannot be spawned yet; it is tried again until it can", "err", err)
		}
		select {
		case <-s.kit.after(wait):
		case <-w.over:
			return nil, nil, errCalledOff
		}
	}
}

// scarce reports whether err says that descriptors, processes or memory are
// short: what others use and give back.
func scarce(err error) bool {
	for _, short := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, short) {
			return true
		}
	}
	return false
}

// leavesRoom returns an error that is EMFILE if fewer than spareFiles
// descriptors are free beyond f, which was just opened: a new descriptor is
// always the lowest that is free (open(2)).
func leavesRoom(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var number uint64
	if err := conn.Control(func(fd uintptr) { number = uint64(fd) }); err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // unknown, so it is tried
	}
	if most := uint64(limit.Cur); number+spareFiles >= most {
		return fmt.Errorf("%w: the limit is %d (ulimit -n), of which %d are kept for other work", syscall.EMFILE, most, spareFiles)
	}
	return nil
}
