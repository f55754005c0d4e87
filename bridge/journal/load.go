package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// load brings the journal's memory up from its files. Full segments are read
// from their summaries; the last one is read, synced and cut at its torn end.
func (j *Journal) load() error {
	dir := j.opt.Dir
	logs, err := list(dir, ".log")
	if err != nil {
		return err
	}
	ids, err := list(dir, ".ids")
	if err != nil {
		return err
	}
	for len(logs) > 0 { // an empty last segment says nothing; a new one takes its name
		last := logs[len(logs)-1]
		if empty, err := j.removeEmpty(last); err != nil {
			return err
		} else if !empty {
			break
		}
		logs = logs[:len(logs)-1]
	}
	firsts := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(ids), logs...))))
	for i, first := range firsts {
		if len(logs) > 0 && first == logs[len(logs)-1] && !slices.Contains(ids, first) {
			return j.loadLast(first) // it may be written on
		}
		limit := uint64(0)
		if i+1 < len(firsts) {
			limit = firsts[i+1]
		}
		if err := j.loadFull(first, limit, slices.Contains(logs, first)); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) removeEmpty(first uint64) (bool, error) {
	end, damage, err := scan(j.opt.Dir, first, 0, func(Record) {})
	if err != nil || end > headerSize {
		return false, err
	}
	if err := j.report(damage); err != nil {
		return false, err
	}
	return true, os.Remove(segmentPath(j.opt.Dir, first))
}

func (j *Journal) loadFull(first, limit uint64, hasLog bool) error {
	s, err := readSummary(j.opt.Dir, first, func(k Key, pos uint64, owner uint16, t time.Time) {
		j.index.add(k, pos, owner, t)
		j.last = t
	})
	if err != nil && hasLog {
		if !errors.Is(err, os.ErrNotExist) {
			j.opt.Logger.Warn("journal: making a summary anew", "error", err)
		}
		s, err = j.summarise(first, limit, func(r *Record) {
			j.index.add(r.Key, r.Pos, r.Owner, r.Time)
			j.last = r.Time
		})
	}
	if errors.Is(err, errSummary) {
		return j.forget(first, limit)
	}
	if err != nil {
		return err
	}
	for name, src := range s.sources {
		j.sources.note(name, src.seq, src.pos)
	}
	j.next = max(j.next, s.last+1, limit)
	if info, err := os.Stat(segmentPath(j.opt.Dir, first)); err == nil && j.opt.Outlet != "" {
		j.debts.note(s.last, debt{info.Size(), int64(s.last + 1 - first)}) // at most; which were delivered comes later
	}
	return nil
}

// forget puts a summary aside that is not valid and whose segment was dropped: a
// journal that does not start would be worse than ids that are not remembered.
func (j *Journal) forget(first, limit uint64) error {
	path := idsPath(j.opt.Dir, first)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	j.next = max(j.next, limit, first+1)
	if err := j.report([]Damage{{Segment: filepath.Base(path), Bytes: info.Size(), From: first, To: max(limit, first+1) - 1}}); err != nil {
		return err
	}
	return os.Remove(path)
}

// summarise reads a full segment and writes its summary, with the seqs of all
// sources known before it.
func (j *Journal) summarise(first, limit uint64, fn func(*Record)) (*summary, error) {
	s := &summary{first: first, last: first - 1, sources: sources{}}
	if before, err := list(j.opt.Dir, ".ids"); err == nil {
		if at, _ := slices.BinarySearch(before, first); at > 0 {
			older, err := readSummary(j.opt.Dir, before[at-1], func(Key, uint64, uint16, time.Time) {})
			if err != nil {
				return nil, err
			}
			s.sources = older.sources
		}
	}
	_, damage, err := scan(j.opt.Dir, first, limit, func(r Record) {
		s.note(&r)
		fn(&r)
	})
	if err != nil {
		return nil, err
	}
	if err := j.report(damage); err != nil {
		return nil, err
	}
	return s, s.write(j.opt.Dir)
}

func (j *Journal) loadLast(first uint64) error {
	path := segmentPath(j.opt.Dir, first)
	end, damage, err := scan(j.opt.Dir, first, 0, func(r Record) {
		j.remember(&r)
		j.debts.note(r.Pos, j.owes(&r))
		j.next, j.last = r.Pos+1, r.Time
	})
	if err != nil {
		return err
	}
	if err := j.report(damage); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	// Records may have been read from memory that never reached the disk: they
	// count as durable from here on, so they are synced first.
	if err := errors.Join(f.Truncate(end), f.Sync(), durable.SyncDir(j.opt.Dir), f.Close()); err != nil {
		return err
	}
	if end < j.opt.SegmentBytes/2 {
		d, err := j.opt.look(j.opt.Dir)
		if err != nil {
			return err
		}
		size := min(j.opt.SegmentBytes, d.slack(j.debts.total)/8)
		seg, err := resumeSegment(j.opt.Dir, first, end, max(size, end), j.opt.Fault)
		if err != nil {
			return err
		}
		j.use(seg)
	}
	return nil
}

func (j *Journal) report(damage []Damage) error {
	for i := range damage {
		if err := damage[i].Keep(j.opt.Dir); err != nil {
			return fmt.Errorf("keeping damaged bytes aside: %w", err)
		}
		j.opt.Logger.Warn("journal: damage", "what", damage[i].String(), "kept", filepath.Base(damage[i].Kept))
	}
	j.damage = append(j.damage, damage...)
	return nil
}
