package journal

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Space says how much of a disk stays free for others, such as the Brain, which
// needs some to take events away. The zero value means the defaults; below the
// limit nothing is written, until half as much again is free.
type Space struct {
	Bytes   uint64  // 64 MiB
	Percent float64 // 5, where that is less than Bytes
	Inodes  float64 // 1 percent of all inodes
}

func (s *Space) defaults() {
	set(&s.Bytes, 64<<20)
	set(&s.Percent, 5)
	set(&s.Inodes, 1)
}

// errLow says that the disk is nearly full.
type errLow struct{ text string }

func (e errLow) Error() string { return e.text }

func errSpace(err error) bool {
	return errors.As(err, new(errLow)) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// check is an error while dir's disk has too little room.
func (s Space) check(dir string, degraded bool) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	block := float64(fs.Bsize)
	bytes, inodes := min(float64(s.Bytes), float64(fs.Blocks)*block*s.Percent/100), float64(fs.Files)*s.Inodes/100
	if degraded {
		bytes, inodes = 1.5*bytes, 1.5*inodes
	}
	if free := float64(fs.Bavail) * block; free < bytes {
		return errLow{fmt.Sprintf("disk of %s is nearly full: %.1f MB free, want %.1f", dir, free/1e6, bytes/1e6)}
	}
	if fs.Files > 0 && float64(fs.Ffree) < inodes {
		return errLow{fmt.Sprintf("disk of %s is nearly out of inodes: %d free, want %.0f", dir, fs.Ffree, inodes)}
	}
	return nil
}

// quarter is a fourth of the size of dir's disk, in bytes.
func quarter(dir string) int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return math.MaxInt64
	}
	return int64(fs.Blocks) / 4 * fs.Bsize
}

// fit is the size for a new segment: less on a small disk.
func (s Space) fit(dir string, size int64) int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return size
	}
	return min(size, max(int64(fs.Bavail)*fs.Bsize/8, 64<<10))
}
