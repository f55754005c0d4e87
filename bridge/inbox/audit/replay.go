package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/checkpoint"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/internal/lockfile"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// ReplayFilter chooses records. Zero fields choose all.
type ReplayFilter struct {
	Since time.Time
	Type  string // of the event, or the beginning of one followed by *
	All   bool   // also what was only recorded or had expired
}

// Replay writes events of a journal into the folder to, which is made when
// missing, under their names and with their times. It never writes into the
// inbox itself and leaves files alone that are there already. It returns how
// many it wrote.
func Replay(at Folders, f ReplayFilter, to string) (written int64, err error) {
	inboxDir, err := filepath.Abs(at.Inbox)
	if err != nil {
		return 0, err
	}
	target, err := filepath.Abs(to)
	if err != nil {
		return 0, err
	}
	if target == inboxDir || strings.HasPrefix(target, inboxDir+string(filepath.Separator)) {
		return 0, fmt.Errorf("replaying into the inbox %s itself would deliver events again; choose another folder", inboxDir)
	}
	if err := os.MkdirAll(target, 0o700); err != nil {
		return 0, err
	}
	r, err := segment.OpenReader(at.Journal, 1)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	match := queue.Filter{Type: f.Type}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return written, err
		}
		if rec.Time.Before(f.Since) || !f.All && rec.Kind != segment.Deliver {
			continue
		}
		for name, event := range named(&rec, f.All) {
			if !match.MatchName(name) {
				continue
			}
			made, err := replayed(filepath.Join(target, filepath.Base(name)), event, rec.Time)
			if err != nil {
				return written, err
			}
			if made {
				written++
			}
		}
	}
}

// named are the events of a record by the names of their files: the one that it
// is for, and those recorded with it where all are wanted.
func named(rec *segment.Record, all bool) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for event := range rec.Before() {
			var e amp.Envelope
			if all && json.Unmarshal(event, &e) == nil && !yield(amp.FileName(e.Payload.Type, e.Header.MessageID), event) {
				return
			}
		}
		yield(rec.Name, rec.Event())
	}
}

// replayed makes a file unless it is there already.
func replayed(path string, event []byte, at time.Time) (made bool, err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = file.Write(event)
	return true, errors.Join(err, file.Close(), os.Chtimes(path, at, at))
}

// PrunePolicy says what may stay of an inbox and its journal.
type PrunePolicy struct {
	Done, Failed, Rejected queue.Policy
	JournalBytes           int64         // 0: the journal's default
	JournalAge             time.Duration // 0: the journal's default
}

// Prune removes old finished things: files of done/, failed/ and rejected/, and
// whole segments of the journal. It never touches what is pending, claimed or
// not delivered. The journal of a running platform is left to that platform;
// skipped says so. A dry run only tells.
func Prune(at Folders, p PrunePolicy, dryRun bool) (files []queue.Pruned, segments []journal.Dropped, skipped error, err error) {
	files, err = queue.Dir(at.Inbox).Prune(map[string]queue.Policy{
		queue.Done: p.Done, queue.Failed: p.Failed, queue.Rejected: p.Rejected}, dryRun)
	if err != nil {
		return files, nil, nil, err
	}
	cp, _, err := checkpoint.Read(at.Journal)
	if err != nil {
		return files, nil, nil, err
	}
	keep := journal.Options{Dir: at.Journal, KeepBytes: p.JournalBytes, KeepAge: p.JournalAge}
	segments, err = journal.Prune(keep, cp.Projected, dryRun)
	if errors.Is(err, lockfile.ErrLocked) {
		return files, nil, err, nil
	}
	return files, segments, nil, err
}
