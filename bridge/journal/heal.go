package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/ids"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/tail"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// inPlace fails when the folder or the last segment was removed or replaced.
func (j *Journal) inPlace() error {
	if j.seg != nil {
		if err := j.seg.InPlace(); err != nil {
			return j.renew(err)
		}
	}
	return j.renew(lockfile.InPlace(j.lock))
}

// renew makes a new segment where cause says that something was removed, so that
// readers go on also while nobody writes. It returns any other cause, or none.
func (j *Journal) renew(cause error) error {
	if !errors.As(cause, new(lockfile.Removed)) {
		return cause
	}
	if j.seg != nil {
		j.giveUpSegment(cause)
	}
	if err := j.heal(); err != nil {
		return err
	}
	d, err := j.opt.look(j.opt.Dir)
	if err != nil {
		return err
	}
	seg, err := tail.Create(j.opt.Dir, j.Durable()+1, min(j.opt.SegmentBytes, max(minSegment, d.Spare(space.Need{})/8)), j.opt.Fault)
	if err != nil {
		return err
	}
	j.use(seg)
	return nil
}

// heal makes the folder anew where it was removed, with the lock and the memory
// of ids. The records in it are gone, but for those that readers have open.
func (j *Journal) heal() error {
	cause := lockfile.InPlace(j.lock)
	if !errors.As(cause, new(lockfile.Removed)) {
		return cause
	}
	if err := os.MkdirAll(j.opt.Dir, 0o700); err != nil {
		return err
	}
	lock, err := lockfile.Lock(filepath.Join(j.opt.Dir, lockName))
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
	for _, suffix := range []string{ids.Suffix, segment.Suffix} {
		if there, err := segment.ListNamed(j.opt.Dir, suffix); err != nil || len(there) > 0 {
			return 0, err
		}
	}
	j.mu.Lock()
	s := j.mem.Index.Summary(j.durable, j.mem.Sources)
	j.mu.Unlock()
	if s.Len() == 0 {
		return 0, nil
	}
	return s.Len(), s.Write(j.opt.Dir)
}
