// Package recovery brings the memory of a journal up from its files when it is
// opened, and completes what a crash left: it cuts the torn end of the last
// segment, makes missing summaries, and keeps damaged bytes aside.
package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/bridge/internal/format"
	"github.com/aurorabot-dev/platform/bridge/journal/internal/ids"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// Memory is what a journal knows of its records.
type Memory struct {
	Index   *ids.Index
	Sources ids.Sources
	Next    uint64         // position of the next record
	Last    time.Time      // of the last record
	Files   space.Promised // room for the files of its records, as if none were made
	Damage  []segment.Damage
	// Tail is the segment that may take further records, and where its records
	// end; Tail 0 where there is none.
	Tail    uint64
	TailEnd int64
}

// Remember adds a record at the end.
func (m *Memory) Remember(r *segment.Record) {
	m.Index.Add(r.Key, r.Pos, r.Owner, r.Time)
	m.Sources.Note(r.Source, r.Seq, r.Pos)
	m.Next, m.Last = r.Pos+1, r.Time
}

type loader struct {
	*Memory
	dir     string
	filesOf func(*segment.Record) space.Need
	log     *slog.Logger
}

// Load reads the journal in dir into m, which has an index. Of a full segment it
// reads the summary, all of the last one. The file of a record wants the room that
// filesOf says.
func Load(dir string, m *Memory, filesOf func(*segment.Record) space.Need, log *slog.Logger) error {
	m.Sources, m.Next = ids.Sources{}, 1
	l := loader{m, dir, filesOf, log}
	logs, err := segment.List(dir)
	if err != nil {
		return err
	}
	summaries, err := segment.ListNamed(dir, ids.Suffix)
	if err != nil {
		return err
	}
	for len(logs) > 0 { // an empty last segment says nothing; a new one takes its name
		last := logs[len(logs)-1]
		if empty, err := l.removeEmpty(last); err != nil {
			return err
		} else if !empty {
			break
		}
		logs = logs[:len(logs)-1]
	}
	firsts := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(summaries), logs...))))
	for i, first := range firsts {
		if len(logs) > 0 && first == logs[len(logs)-1] && !slices.Contains(summaries, first) {
			return l.loadLast(first)
		}
		limit := uint64(0)
		if i+1 < len(firsts) {
			limit = firsts[i+1]
		}
		if err := l.loadFull(first, limit, slices.Contains(logs, first)); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) removeEmpty(first uint64) (bool, error) {
	end, damage, err := segment.Scan(l.dir, first, 0, func(segment.Record) {})
	if err != nil || end > segment.HeaderSize {
		return false, err
	}
	if err := l.keep(damage); err != nil {
		return false, err
	}
	return true, os.Remove(segment.Path(l.dir, first))
}

func (l *loader) loadFull(first, limit uint64, hasLog bool) error {
	s, err := ids.Read(l.dir, first, func(k segment.Key, pos uint64, owner uint16, t time.Time) {
		l.Index.Add(k, pos, owner, t)
		l.Last = t
	})
	if errors.Is(err, format.ErrNewer) {
		return err
	}
	if err != nil && hasLog {
		if !errors.Is(err, os.ErrNotExist) {
			l.log.Warn("journal: making a summary anew", "error", err)
		}
		s, err = ids.Summarise(l.dir, first, limit, func(r *segment.Record) {
			l.Index.Add(r.Key, r.Pos, r.Owner, r.Time)
			l.Last = r.Time
		}, l.keep)
	}
	if errors.Is(err, ids.ErrInvalid) {
		return l.forget(first, limit)
	}
	if err != nil {
		return err
	}
	for name, src := range s.Sources {
		l.Sources.Merge(name, src)
	}
	l.Next = max(l.Next, s.Last+1, limit)
	if info, err := os.Stat(segment.Path(l.dir, first)); err == nil && l.filesOf(&segment.Record{Kind: segment.Deliver}).Files > 0 {
		l.Files.Promise(s.Last, space.Need{Bytes: info.Size(), Files: int64(s.Last + 1 - first)}) // at most
	}
	return nil
}

// forget puts a summary aside that is not valid and whose segment was dropped: a
// journal that does not start would be worse than ids that are not remembered.
func (l *loader) forget(first, limit uint64) error {
	path := ids.Path(l.dir, first)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	l.Next = max(l.Next, limit, first+1)
	if err := l.keep([]segment.Damage{{Segment: filepath.Base(path), Bytes: info.Size(), From: first, To: max(limit, first+1) - 1}}); err != nil {
		return err
	}
	return os.Remove(path)
}

// loadLast reads the segment that records may be added to.
func (l *loader) loadLast(first uint64) error {
	end, damage, err := segment.Scan(l.dir, first, 0, func(r segment.Record) {
		l.Remember(&r)
		l.Files.Promise(r.Pos, l.filesOf(&r))
	})
	if err != nil {
		return err
	}
	if err := l.keep(damage); err != nil {
		return err
	}
	f, err := os.OpenFile(segment.Path(l.dir, first), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	// Records may have been read from memory that never reached the disk: they
	// count as durable from here on, so they are synced first.
	if err := errors.Join(f.Truncate(end), f.Sync(), durable.SyncDir(l.dir), f.Close()); err != nil {
		return err
	}
	l.Tail, l.TailEnd = first, end
	return nil
}

func (l *loader) keep(damage []segment.Damage) error {
	l.Damage = append(l.Damage, damage...)
	return KeepAside(l.dir, l.Damage[len(l.Damage)-len(damage):], l.log)
}

// KeepAside copies damaged bytes of the journal in dir beside their segments, and
// logs them.
func KeepAside(dir string, damage []segment.Damage, log *slog.Logger) error {
	for i := range damage {
		if err := damage[i].Keep(dir); err != nil {
			return fmt.Errorf("keeping damaged bytes aside: %w", err)
		}
		log.Warn("journal: damage", "what", damage[i].String(), "kept", filepath.Base(damage[i].Kept))
	}
	return nil
}
