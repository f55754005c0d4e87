package journal

import (
	"math"

	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
)

// minSegment is the smallest size of a segment in bytes, where its records need no more.
const minSegment = 64 << 10

// reserve is how many times the reserve must be free: more while the journal is
// degraded, so that it does not begin and stop all the time.
func (j *Journal) reserve() float64 {
	if j.State().Err != nil {
		return space.Resume
	}
	return 1
}

// checkRoom is an error while the journal's disk is nearly full.
func (j *Journal) checkRoom() error {
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return err
	}
	return d.Fits(j.reserve(), space.Need{}, 0)
}

// roomFor is an error while the disk has no room for b. Two things must fit beside
// the reserve: the batch itself, and the files of all that is acknowledged, with
// those of b. So every file that was promised can be made. The size is that of the
// segment to make, should one be needed.
func (j *Journal) roomFor(b *batch) (size int64, err error) {
	j.mu.Lock()
	before := j.mem.Files.Total()
	j.mu.Unlock()
	size = max(min(minSegment, j.opt.SegmentBytes), int64(len(b.buf))+segment.HeaderSize)
	newSegment := int64(0)
	if j.seg == nil || !j.seg.Fits(len(b.buf)) {
		newSegment = size
	}
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return 0, err
	}
	if err := d.Fits(j.reserve(), space.Need{}, newSegment); err != nil {
		return 0, err
	}
	files := before
	files.Add(b.files)
	here := files // those on the journal's own disk
	if j.opt.Outlet != "" {
		// An outlet that is gone is reported by those who make the files.
		if outlet, err := j.opt.look(j.opt.Outlet); err == nil && outlet.ID != d.ID {
			here = space.Need{}
			if err := outlet.FitsFiles(before, files, 0); err != nil {
				return 0, err
			}
		}
	}
	if err := d.FitsFiles(before, here, newSegment); err != nil {
		return 0, err
	}
	return max(size, min(j.opt.SegmentBytes, d.Spare(here)/8)), nil
}

// roomForSpare reports whether a segment made ahead takes little of what the disk can spare.
func (j *Journal) roomForSpare() (bool, error) {
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return false, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return d.Spare(j.mem.Files.Total())/8 >= j.opt.SegmentBytes, nil
}

// fitQueue makes the queue short on a small disk, as a batch finds room as a whole
// or not at all.
func (o *Options) fitQueue() {
	o.queueFiles = math.MaxInt64
	if o.Outlet == "" {
		return
	}
	if d, err := o.look(o.Outlet); err == nil {
		o.queueFiles = max(8, int64(d.ReservedBytes/d.Block/4))
		if d.CountsInodes {
			o.queueFiles = max(8, min(o.queueFiles, int64(d.ReservedInodes/2)))
		}
	}
}

// filesOf is the room that the file of a record wants.
func (j *Journal) filesOf(r *segment.Record) space.Need {
	if r.Kind != segment.Deliver || j.opt.Outlet == "" {
		return space.Need{}
	}
	return space.Need{Bytes: int64(len(r.Body)), Files: 1}
}
