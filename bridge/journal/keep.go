package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/ids"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/recovery"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/retention"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// Delivered tells the journal that all records up to pos need no delivery any
// more. Segments with later ones are kept whatever their age.
func (j *Journal) Delivered(pos uint64) {
	j.mu.Lock()
	j.mem.Files.Kept(pos)
	j.mu.Unlock()
	j.delivered.Store(pos)
	poke(j.gotRoom)
}

// DeliveredTo is the position that [Journal.Delivered] was last told.
func (j *Journal) DeliveredTo() uint64 { return j.delivered.Load() }

// Dir is the journal's folder.
func (j *Journal) Dir() string { return j.opt.Dir }

// keep summarises segments as they become full and drops what is too old.
func (j *Journal) keep() {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	said := "" // the last failure, which comes again while the disk is full
	for {
		select {
		case <-j.closing:
			return
		case <-j.rotated:
		case <-tick.C:
		}
		err := ids.SummariseAll(j.opt.Dir, func(damage []segment.Damage) error {
			return recovery.KeepAside(j.opt.Dir, damage, j.opt.Logger)
		}) // else it is tried again with the next one, and at start
		j.mu.Lock()
		horizon := j.mem.Index.Horizon()
		j.mu.Unlock()
		if _, e := j.opt.retention().Apply(j.delivered.Load(), horizon, false); e != nil {
			err = errors.Join(err, fmt.Errorf("dropping old segments: %w", e))
		}
		if err != nil && err.Error() != said {
			j.opt.Logger.Warn("journal: keeping what is old in order", "error", err)
			said = err.Error()
		}
	}
}

// Dropped is a file that retention removed, or would.
type Dropped = retention.Dropped

// Prune drops old segments of a journal that no process has open, by the
// options' KeepBytes and KeepAge; none that holds records after delivered, nor
// the last one. A dry run only tells which.
func Prune(opt Options, delivered uint64, dryRun bool) ([]Dropped, error) {
	opt.defaults()
	lock, err := lockfile.Lock(filepath.Join(opt.Dir, lockName))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return opt.retention().Apply(delivered, 0, dryRun)
}

func (o *Options) retention() retention.Policy {
	return retention.Policy{Dir: o.Dir, Bytes: o.KeepBytes, Age: o.KeepAge}
}

// CheckSummaries calls damaged with the name of each summary in dir that is not
// valid, and whether its segment is there, of which the next start makes it anew.
func CheckSummaries(dir string, damaged func(name string, again bool)) error {
	return ids.Check(dir, damaged)
}
