// Package space says whether a disk has room: for what is about to be written
// beside a reserve for others, and for files that are still to be made.
//
//	err := space.Reserve{}.Check("data") // a *space.Low while the disk is nearly full
package space

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Reserve says how much of a disk stays free for others, such as the Brain, which
// needs some to take events away. The zero value means the defaults. Where less is
// free nothing is written, until half as much again is.
type Reserve struct {
	Bytes   uint64  // 64 MiB
	Percent float64 // 5, where that is less than Bytes
	Inodes  float64 // 1 percent of all inodes
}

// Low says that a disk is nearly full.
type Low struct{ text string }

func (e *Low) Error() string { return e.text }

// IsFull reports whether err says that a disk has too little room.
func IsFull(err error) bool {
	return errors.As(err, new(*Low)) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// Disk is what is free on a file system, and what stays so.
type Disk struct {
	Dir            string // a folder on it
	ID             unix.Fsid
	Bytes, Inodes  float64 // free
	ReservedBytes  float64
	ReservedInodes float64
	Block          float64 // bytes; a file takes whole blocks
	CountsInodes   bool    // the file system has a fixed number of inodes
}

// Look says what is free on dir's disk.
func (r Reserve) Look(dir string) (Disk, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return Disk{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	block := float64(fs.Bsize)
	all := float64(fs.Blocks) * block
	return Disk{
		Dir: dir, ID: fs.Fsid, Bytes: float64(fs.Bavail) * block, Inodes: float64(fs.Ffree),
		ReservedBytes:  min(float64(cmp.Or(r.Bytes, 64<<20)), all*cmp.Or(r.Percent, 5)/100),
		ReservedInodes: float64(fs.Files) * cmp.Or(r.Inodes, 1) / 100,
		Block:          block, CountsInodes: fs.Files > 0,
	}, nil
}

// Resume is how many times the reserve must be free before writing begins again
// on a disk that was full.
const Resume = 1.5

// Fits is a [Low] unless times the reserve, the files and bytes more fit into what
// is free on the disk.
func (d Disk) Fits(times float64, files Need, bytes int64) error {
	want := times*d.ReservedBytes + d.blocks(files) + float64(bytes)
	if d.Bytes < want {
		return &Low{fmt.Sprintf("disk of %s is nearly full: %.1f MB free, want %.1f", d.Dir, d.Bytes/1e6, want/1e6)}
	}
	if want := times*d.ReservedInodes + float64(files.Files); d.CountsInodes && d.Inodes < want {
		return &Low{fmt.Sprintf("disk of %s is nearly out of inodes: %.0f free, want %.0f", d.Dir, d.Inodes, want)}
	}
	return nil
}

// Later says that files find no room beside those that are promised already: there
// is room once these are made, and whoever they are for has taken them.
type Later struct{ error }

func (l Later) Unwrap() error { return l.error }

// FitsFiles is an error unless all files and bytes more fit beside the reserve. It
// is a [Later] where files that are promised already, before, are some of them.
// Without these there is nothing to wait for: the files may then use the reserve,
// but must find room on the disk.
func (d Disk) FitsFiles(before, all Need, bytes int64) error {
	err := d.Fits(1, all, bytes)
	switch {
	case err == nil:
		return nil
	case before.Files > 0:
		return Later{err}
	}
	return d.Fits(0, all, bytes)
}

// blocks is what files take of the disk at most, in bytes.
func (d Disk) blocks(files Need) float64 {
	return float64(files.Bytes) + float64(files.Files)*d.Block
}

// Spare is how many bytes are free beyond the reserve of a disk that was full, and
// beyond what files need.
func (d Disk) Spare(files Need) int64 {
	return int64(d.Bytes - Resume*d.ReservedBytes - d.blocks(files))
}

// Check is an error while dir's disk has too little room to begin to write again.
func (r Reserve) Check(dir string) error {
	d, err := r.Look(dir)
	if err != nil {
		return err
	}
	return d.Fits(Resume, Need{}, 0)
}

// Size is that of dir's disk in bytes.
func Size(dir string) int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return math.MaxInt64
	}
	return int64(fs.Blocks) * fs.Bsize
}

// Need is the room that files want: their number, and the bytes in them.
type Need struct{ Bytes, Files int64 }

// Add adds the room that more files want.
func (n *Need) Add(more Need) { n.Bytes, n.Files = n.Bytes+more.Bytes, n.Files+more.Files }

// Promised is the room for files that are promised and not made yet: of the
// records up to each of some positions, which rise. The zero value is of none. It
// is not safe for concurrent use.
type Promised struct {
	list  []promise
	total Need
}

// promise is of the records up to last and after the promise before.
type promise struct {
	last uint64
	Need
}

// perPromise is how many files share a promise, so that the list stays short.
const perPromise = 64

// Total is the room that all promised files want.
func (p *Promised) Total() Need { return p.total }

// Promise notes the room for the files of the records up to last.
func (p *Promised) Promise(last uint64, more Need) {
	if more.Files == 0 {
		return
	}
	p.total.Add(more)
	if n := len(p.list); n > 0 && p.list[n-1].Files+more.Files <= perPromise {
		p.list[n-1].Add(more)
		p.list[n-1].last = last
	} else {
		p.list = append(p.list, promise{last, more})
	}
}

// Kept notes that the files of all records up to pos are made. A promise is
// forgotten when the last of its files is.
func (p *Promised) Kept(pos uint64) {
	for len(p.list) > 0 && p.list[0].last <= pos {
		p.total.Add(Need{-p.list[0].Bytes, -p.list[0].Files})
		p.list = p.list[1:]
	}
}
