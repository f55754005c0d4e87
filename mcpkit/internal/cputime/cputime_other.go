//go:build !linux

package cputime

import "time"

// Of runs f. How much of the processor it takes is known on Linux alone; here it
// is 0, which is within every bound.
func Of(f func()) time.Duration {
	f()
	return 0
}
