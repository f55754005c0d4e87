//go:build !linux

package sandbox

import (
	"fmt"
	"os/exec"
)

// RunIfAsked does nothing on this system.
func RunIfAsked() {}

// Process is never made on this system.
type Process struct{}

// Confine is an error on this system.
func Confine(*exec.Cmd, *Profile) (*Process, error) { return nil, Available() }

// Available says that processes can be confined on Linux alone.
func Available() error { return fmt.Errorf("%w: it needs Linux", ErrUnavailable) }

func (*Process) SetEnv(string)     {}
func (*Process) Abandon()          {}
func (*Process) Begin() error      { return Available() }
func (*Process) Ended() <-chan End { return nil }
func (*Process) Mounts() []Mount   { return nil }
