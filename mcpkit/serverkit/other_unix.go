//go:build unix && !linux

package serverkit

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
)

// On systems other than Linux a server's group is all that is known of its
// descendants, and nothing ends it when the platform is killed.

// RunGuardIfAsked does nothing on this system.
func RunGuardIfAsked() {}

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// unread cannot tell here, so a pipe is read until its end or for drainWait.
func unread(*os.File) (int, error) { return 1, nil }

func awaitExit(cmd *exec.Cmd) { cmd.Wait() }

type member struct {
	pid, pgrp int
	start     uint64
}

func (member) signal(syscall.Signal) {}

type tree struct{ prefix string }

func (*tree) family(int, string, map[int]uint64) []member { return nil }

type guard struct{}

func newGuard(string, string, *forks, *slog.Logger) *guard { return nil }
func (*guard) add(int)                                     {}
func (*guard) del(int)                                     {}
func (*guard) close()                                      {}

type reaper struct{}

func newReaper(*forks) (*reaper, error) {
	return nil, errors.New("adopting orphans works on Linux only")
}
func (*reaper) close() {}
