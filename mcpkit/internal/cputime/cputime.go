//go:build linux

// Package cputime measures for tests how much of the processor a function takes.
// Unlike the time that passes, that hardly depends on what else the machine does:
// a test may compare it with a bound, or with that of a smaller input. It knows
// nothing of what other goroutines do meanwhile.
package cputime

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Of runs f and returns the time that its thread spent on a processor, in the
// program and in the kernel. What f leaves to other goroutines is not in it.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := thread()
	f()
	return thread() - begin
}

func thread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has that clock
	}
	return time.Duration(t.Nano())
}
