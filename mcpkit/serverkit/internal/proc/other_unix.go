//go:build unix && !linux

package proc

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

// marked runs fork: there are no marks on this system.
func marked(_ string, fork func() error) error { return fork() }

// CanMark is always false on this system.
func CanMark() bool { return false }

// ChildAttr puts a child into its own group.
func ChildAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Unread cannot tell here, so a pipe is read until its end or for drainWait.
func Unread(*os.File) (int, error) { return 1, nil }

// AwaitExit returns when cmd's process has ended; here it also reaps it.
func AwaitExit(cmd *exec.Cmd) { cmd.Wait() }

// Member is a process.
type Member struct {
	PID, Pgrp int
	Start     uint64
}

// Signal does nothing on this system.
func (Member) Signal(syscall.Signal) {}

// Tree knows of no descendants on this system.
type Tree struct{}

// NewTree returns an empty tree.
func NewTree(string) *Tree { return nil }

// Family returns nil.
func (*Tree) Family(int, string, map[int]uint64) []Member { return nil }

// Guard is always nil on this system.
type Guard struct{}

func NewGuard(string, string, *Forks, *slog.Logger) *Guard { return nil }
func (*Guard) Add(int)                                     {}
func (*Guard) Del(int)                                     {}
func (*Guard) Close()                                      {}

// Reaper is always nil on this system.
type Reaper struct{}

func NewReaper(*Forks) (*Reaper, error) {
	return nil, errors.New("adopting orphans works on Linux only")
}
func (*Reaper) Close() {}
