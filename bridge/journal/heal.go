package journal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// inPlace fails when the folder or the last segment was removed or replaced.
func (j *Journal) inPlace() error {
	if j.seg != nil {
		if err := j.seg.inPlace(); err != nil {
			return j.renew(err)
		}
	}
	if err := inPlace(j.lock); err != nil {
		return j.renew(err)
	}
	return nil
}

// renew goes on with a new segment while nobody writes, so that readers go on, too.
func (j *Journal) renew(cause error) error {
	if !errors.As(cause, new(errRemoved)) {
		return cause
	}
	if j.seg != nil {
		j.lost(cause)
	}
	if err := j.heal(); err != nil {
		return err
	}
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return err
	}
	seg, err := createSegment(j.opt.Dir, j.Durable()+1, min(j.opt.SegmentBytes, max(least, d.slack(debt{})/8)), j.opt.Fault)
	if err != nil {
		return err
	}
	j.use(seg)
	return nil
}

// heal makes the folder anew where it was removed, with the lock and the memory
// of ids. The records in it are gone, but for those that readers have open.
func (j *Journal) heal() error {
	cause := inPlace(j.lock)
	if !errors.As(cause, new(errRemoved)) {
		return cause
	}
	if err := os.MkdirAll(j.opt.Dir, 0o700); err != nil {
		return err
	}
	lock, err := Lock(filepath.Join(j.opt.Dir, "lock"))
	if err != nil {
		return err
	}
	j.lock.Close()
	j.lock = lock
	kept, err := j.keepIDs()
	if err != nil {
		j.opt.Logger.Error("journal: writing down the ids that are remembered", "error", err) // they are still in memory
	}
	if err := durable.SyncDir(filepath.Dir(j.opt.Dir)); err != nil {
		return err
	}
	j.opt.Logger.Error("journal: the folder was removed and is made anew", "cause", cause, "durable", j.Durable())
	j.opt.Report(fmt.Sprintf("journal: %v; records up to %d that were in it are gone, %d ids are remembered", cause, j.Durable(), kept))
	return nil
}

// keepIDs writes the memory of ids into a folder that has none.
func (j *Journal) keepIDs() (int, error) {
	for _, suffix := range []string{".ids", ".log"} {
		if there, err := list(j.opt.Dir, suffix); err != nil || len(there) > 0 {
			return 0, err
		}
	}
	s := j.remembered()
	if len(s.ids) == 0 {
		return 0, nil
	}
	return len(s.ids), s.write(j.opt.Dir)
}

// remembered is the memory of ids of all durable records, as a summary. An id's
// time is that of the first record of its thousand.
func (j *Journal) remembered() *summary {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &summary{last: j.durable, sources: sources{}}
	for k, v := range j.index.entries {
		if pos := v >> 16; pos >= j.index.horizon && pos <= j.durable {
			s.ids = append(s.ids, idEntry{key: k, value: v})
		}
	}
	slices.SortFunc(s.ids, func(a, b idEntry) int { return cmp.Compare(a.value, b.value) })
	marks := j.index.marks
	for i := range s.ids {
		pos := s.ids[i].value >> 16
		if at := sort.Search(len(marks), func(k int) bool { return marks[k].pos > pos }); at > 0 {
			s.ids[i].time = marks[at-1].time
		} else {
			s.ids[i].time = time.Now().UnixNano()
		}
	}
	if len(s.ids) > 0 {
		s.first = s.ids[0].value >> 16
	}
	for name, src := range j.sources {
		s.sources[name] = src
	}
	return s
}
