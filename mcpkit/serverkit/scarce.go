package serverkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/child"
)

const (
	// scarceWait is how long a server waits before it is tried again when the
	// system lacked what a process takes; doubled each time up to scarceCap.
	scarceWait = 500 * time.Millisecond
	scarceCap  = 5 * time.Second
)

// errCalledOff says that a start was given up because something else is wanted.
var errCalledOff = errors.New("the start was called off")

// spawn spawns w's command. While the system is short of what that takes it
// waits and tries again, as that is no fault of the server's; the status says
// so, and so does the outcome so far.
func (s *server) spawn(w want, number int) (*child.Child, []string, error) {
	token := s.kit.token()
	for tries, wait := 0, scarceWait; ; tries, wait = tries+1, min(2*wait, scarceCap) {
		p, argv, err := s.tryToSpawn(w.spec, token, number)
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

// tryToSpawn starts spec's command. It returns what was executed even where that
// failed.
func (s *server) tryToSpawn(spec Spec, token string, number int) (*child.Child, []string, error) {
	argv := slices.Clone(spec.Command)
	if len(argv) == 0 {
		return nil, argv, errors.New("the command is empty")
	}
	if spec.Dir == "" {
		return nil, argv, errors.New("the server has no working directory, and the folder that the platform was started in is gone")
	}
	if !filepath.IsAbs(spec.Dir) {
		return nil, argv, fmt.Errorf("the working directory %q is not absolute", spec.Dir)
	}
	if info, err := os.Stat(spec.Dir); err != nil {
		return nil, argv, fmt.Errorf("the working directory: %w", err)
	} else if !info.IsDir() {
		return nil, argv, fmt.Errorf("the working directory %s is not a directory", spec.Dir)
	}
	file, err := ResolveCommand(argv[0], spec.Dir, getenv(spec.Env, "PATH"), s.kit.exeDir)
	if err != nil {
		return nil, argv, err
	}
	argv[0] = file
	p, err := s.kit.children.Spawn(child.Command{
		Path: file, Args: slices.Clone(spec.Command), Dir: spec.Dir, Env: spec.Env,
		Token: token, Title: fmt.Sprintf("start %d", number), Stderr: s.stderr, Logger: s.log,
		Sandbox: spec.Sandbox,
	})
	return p, argv, err
}
