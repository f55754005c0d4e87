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

// disk is what is free on a file system, and what stays so.
type disk struct {
	dir             string
	id              unix.Fsid
	bytes, files    float64 // free
	reserve, inodes float64
	block           float64
	countsFiles     bool
}

func (s Space) look(dir string) (disk, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return disk{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	block := float64(fs.Bsize)
	return disk{dir, fs.Fsid, float64(fs.Bavail) * block, float64(fs.Ffree),
		min(float64(s.Bytes), float64(fs.Blocks)*block*s.Percent/100), float64(fs.Files) * s.Inodes / 100,
		block, fs.Files > 0}, nil
}

// holds is an error unless d has room for what is owed and a segment of a size,
// beside the reserve, of which times as much is wanted.
func (d disk) holds(times float64, owed debt, segment int64) error {
	bytes := times*d.reserve + float64(owed.bytes+segment) + float64(owed.files)*d.block
	if d.bytes < bytes {
		return errLow{fmt.Sprintf("disk of %s is nearly full: %.1f MB free, want %.1f", d.dir, d.bytes/1e6, bytes/1e6)}
	}
	if files := times*d.inodes + float64(owed.files); d.countsFiles && d.files < files {
		return errLow{fmt.Sprintf("disk of %s is nearly out of inodes: %.0f free, want %.0f", d.dir, d.files, files)}
	}
	return nil
}

// hysteresis is how much of the reserve must be free to begin again.
const hysteresis = 1.5

func times(degraded bool) float64 {
	if degraded {
		return hysteresis
	}
	return 1
}

// Check is an error while dir's disk has too little room to begin to write again.
func (s Space) Check(dir string) error {
	s.defaults()
	return s.check(dir, true)
}

// check is an error while dir's disk has too little room.
func (s Space) check(dir string, degraded bool) error {
	d, err := s.look(dir)
	if err != nil {
		return err
	}
	return d.holds(times(degraded), debt{}, 0)
}

// least is the smallest size of a segment, where records need no more.
const least = 64 << 10

// admit is an error while there is no room for b: in the journal, and for the
// files of what is acknowledged, so that these can always be made. It returns
// the size of the segment to make, should one be needed.
func (j *Journal) admit(b *batch) (size int64, err error) {
	j.mu.Lock()
	before, degraded := j.debts.total, j.state.Err != nil
	j.mu.Unlock()
	size = max(min(least, j.opt.SegmentBytes), int64(len(b.buf))+headerSize)
	segment := int64(0)
	if j.seg == nil || !j.seg.fits(len(b.buf)) {
		segment = size
	}
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return 0, err
	}
	if err := d.holds(times(degraded), debt{}, segment); err != nil {
		return 0, err
	}
	owed := before
	owed.add(b.owes)
	here := owed // what of it is on the journal's own disk
	if j.opt.Outlet != "" {
		// A folder that is gone is for those to say who make the files.
		if there, err := j.opt.look(j.opt.Outlet); err == nil && there.id != d.id {
			here, err = debt{}, there.holds(1, owed, 0)
			if err != nil && before.files > 0 {
				return 0, errOwed{err}
			}
		}
	}
	if err := d.holds(1, here, segment); err != nil && before.files > 0 {
		return 0, errOwed{err} // where nothing is owed, waiting would give no room
	}
	return max(size, min(j.opt.SegmentBytes, d.slack(here)/8)), nil
}

// slack is what is free beyond the reserve and what is owed.
func (d disk) slack(owed debt) int64 {
	return int64(d.bytes - hysteresis*d.reserve - float64(owed.bytes) - float64(owed.files)*d.block)
}

// errOwed says that acknowledgements wait for the files of records before.
type errOwed struct{ error }

func (e errOwed) Unwrap() error { return e.error }

// fitQueue makes the queue small on a small disk: what it holds is admitted as a whole.
func (o *Options) fitQueue() {
	o.queueFiles = math.MaxInt64
	if o.Outlet == "" {
		return
	}
	if d, err := o.look(o.Outlet); err == nil {
		o.queueFiles = max(8, int64(d.reserve/d.block/4))
		if d.countsFiles {
			o.queueFiles = max(8, min(o.queueFiles, int64(d.inodes/2)))
		}
	}
}

// debt is room that files will need: their number, and the size of their bodies.
type debt struct{ bytes, files int64 }

func (d *debt) add(e debt) { d.bytes, d.files = d.bytes+e.bytes, d.files+e.files }

func (j *Journal) owes(r *Record) debt {
	if r.Kind != Deliver || j.opt.Outlet == "" {
		return debt{}
	}
	return debt{int64(len(r.Body)), 1}
}

// debts are what is owed for the records up to each of some positions, which rise.
type debts struct {
	list  []owing
	total debt
}

type owing struct {
	last uint64
	debt
}

// together is how many files are owed together, so that the list stays short.
const together = 64

func (d *debts) note(last uint64, more debt) {
	if more.files == 0 {
		return
	}
	d.total.add(more)
	if n := len(d.list); n > 0 && d.list[n-1].files+more.files <= together {
		d.list[n-1].add(more)
		d.list[n-1].last = last
	} else {
		d.list = append(d.list, owing{last, more})
	}
}

// paid forgets the debts of records up to pos.
func (d *debts) paid(pos uint64) {
	for len(d.list) > 0 && d.list[0].last <= pos {
		d.total.add(debt{-d.list[0].bytes, -d.list[0].files})
		d.list = d.list[1:]
	}
}

// DiskSize is the size of dir's disk in bytes.
func DiskSize(dir string) int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return math.MaxInt64
	}
	return int64(fs.Blocks) * fs.Bsize
}
