// Package audit looks at an inbox and its journal from outside, also while no
// platform runs: it compares both, repairs files, writes events again elsewhere, and
// removes what is old.
//
//	r, err := audit.Verify(audit.Folders{Inbox: "data/kernel/inbox", Journal: "data/journal"})
//	if !r.OK() { … }
package audit

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/checkpoint"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// Folders are where an inbox and its journal are, and the artifacts that events name;
// without the last these are not looked at.
type Folders struct{ Inbox, Journal, Artifacts string }

// Finding is one difference between the journal and the files.
type Finding struct {
	Fault bool   `json:"fault"` // false: explained by what a Brain or the platform may do
	What  string `json:"what"`  // a stable word, such as changed or lost_record
	Name  string `json:"name,omitempty"`
	Text  string `json:"text"` // the explanation
	// Repaired says that it was put right; it is no fault any more.
	Repaired bool `json:"repaired,omitempty"`
}

// Report is what Verify found.
type Report struct {
	Records   int64     `json:"records"`   // in the journal
	Delivered int64     `json:"delivered"` // of them, for the Brain
	Files     int64     `json:"files"`
	Taken     int64     `json:"taken"`   // delivered and in no folder: the Brain removed them, or they expired in the backlog
	Backlog   int64     `json:"backlog"` // not visible yet
	Projected uint64    `json:"projected"`
	Findings  []Finding `json:"findings"` // at most 1,000
	Faults    int64     `json:"faults"`
	Repaired  int64     `json:"repaired,omitempty"`

	repair bool
}

// OK reports whether there is no fault.
func (r *Report) OK() bool { return r.Faults == 0 }

const maxFindings = 1000

func (r *Report) find(fault bool, what, name, format string, args ...any) {
	r.add(Finding{Fault: fault, What: what, Name: name, Text: fmt.Sprintf(format, args...)})
}

func (r *Report) add(f Finding) {
	if f.Fault {
		r.Faults++
	}
	if f.Repaired {
		r.Repaired++
	}
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, f)
	}
}

// short stands for a name or an id, so that millions need little memory: that
// any two of ten million are alike happens once in four hundred thousand runs.
func short[K comparable](k K) uint64 { return maphash.Comparable(seed, k) }

var seed = maphash.MakeSeed()

// Verify compares the journal, its checkpoint and the files of an inbox with
// each other, and explains each difference. It changes nothing, see [Repair]; what a running
// platform or Brain moves meanwhile may show up as a finding, not as a fault.
func Verify(at Folders) (*Report, error) { return compare(at, false) }

func compare(at Folders, repair bool) (*Report, error) {
	r := &Report{Findings: []Finding{}, repair: repair}
	cp, turn, err := checkpoint.Read(at.Journal)
	if err != nil {
		return nil, err
	}
	r.Projected = cp.Projected
	files, err := r.files(at.Inbox)
	if err != nil {
		return nil, err
	}
	torn, err := segment.Torn(at.Journal)
	if err != nil {
		return nil, err
	}
	end, damage, err := r.journal(at, cp, files)
	if err != nil {
		return nil, err
	}
	for _, d := range damage {
		r.find(true, "lost_record", d.Segment, "%s%s", d, r.kept(at.Journal, &d, &torn))
	}
	if err := journal.CheckSummaries(at.Journal, func(name string, again bool) {
		if again {
			r.find(true, "summary", name, "this summary of ids is not valid; the next start makes it anew from its segment")
		} else {
			r.find(true, "summary", name, "this summary of ids is not valid, and its segment was dropped: the next start puts it aside and forgets these ids")
		}
	}); err != nil {
		return nil, err
	}
	switch {
	case turn == 0 && end > 0:
		r.find(true, "no_checkpoint", "", "the journal has records but no checkpoint: the next start delivers again what is in no folder")
	case cp.Projected > end:
		r.find(true, "journal_short", "", "files were made up to record %d, but the journal ends at %d: parts of it are gone", cp.Projected, end)
	}
	if err := r.artifacts(at); err != nil {
		return nil, err
	}
	for _, name := range torn {
		r.find(false, "torn", name, "this was found damaged, or behind the end of a segment after a crash; it was cut and kept for inspection")
	}
	return r, nil
}

// kept says where the damaged bytes are kept, which it takes from torn, and keeps
// them first if it is to repair.
func (r *Report) kept(dir string, d *segment.Damage, torn *[]string) string {
	i := slices.Index(*torn, d.TornName())
	if i >= 0 {
		*torn = slices.Delete(*torn, i, i+1)
	}
	if r.repair {
		if err := d.Keep(dir); err != nil {
			return fmt.Sprintf("; they could not be copied aside: %v", err)
		}
	}
	if i >= 0 || d.Kept != "" {
		return "; the bytes are kept in " + d.TornName()
	}
	if d.Bytes == 0 {
		return ""
	}
	return "; the bytes are only in the segment, which goes with its age: --repair copies them aside"
}

var eventFolders = []string{queue.Pending, queue.Processing, queue.Done, queue.Failed}

// files looks at all names and returns which are there, as a folder's number.
func (r *Report) files(dir string) (map[uint64]uint8, error) {
	found := map[uint64]uint8{}
	for i, folder := range eventFolders {
		err := folders.Each(filepath.Join(dir, folder), func(name string) {
			if _, _, ok := amp.ParseFileName(name); !ok {
				if folder != queue.Failed || !strings.HasSuffix(name, ".reason") {
					r.find(false, "stray", filepath.Join(folder, name), "not the name of an event; nothing here made it")
				}
				return
			}
			r.Files++
			key := short(name)
			if first, twice := found[key]; twice {
				r.find(true, "twice", name, "the event is in %s and in %s", eventFolders[first], folder)
				return
			}
			found[key] = uint8(i)
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// journal goes through all records and returns the last position, and what is damaged.
func (r *Report) journal(at Folders, cp checkpoint.Checkpoint, files map[uint64]uint8) (end uint64, damage []segment.Damage, err error) {
	reader, err := segment.OpenReader(at.Journal, 1)
	if err != nil {
		return 0, nil, err
	}
	defer reader.Close()
	keys, seqs, suspects := map[uint64]struct{}{}, map[string]uint64{}, map[uint64]suspect{}
	var oldest, last time.Time
	var gaps []gap
	for {
		rec, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, nil, err
		}
		if r.Records++; oldest.IsZero() {
			oldest = rec.Time
		} else if rec.Pos > end+1 && len(gaps) < maxFindings {
			gaps = append(gaps, gap{last, rec.Time})
		}
		end, last = rec.Pos, rec.Time
		if key := short(rec.Key); rec.Key != (segment.Key{}) { // else its id was not to be remembered
			if _, twice := keys[key]; twice {
				r.find(false, "id_again", rec.Name, "record %d has the id of one before that was beyond the memory of ids", rec.Pos)
			}
			keys[key] = struct{}{}
		}
		if before, known := seqs[rec.Source]; known && rec.First() != before+1 {
			r.find(rec.First() <= before, "seq", rec.Name, "record %d has seq %d after %d of %q", rec.Pos, rec.First(), before, rec.Source)
		}
		seqs[rec.Source] = rec.Seq
		r.record(at.Inbox, cp, &rec, files, suspects)
	}
	for key := range suspects {
		delete(files, key)
	}
	if err := r.judge(at, suspects); err != nil {
		return 0, nil, err
	}
	r.foreign(at.Inbox, files, oldest, gaps)
	return end, reader.Damage, nil
}

// suspect is a file that differs from the latest record of its name so far.
type suspect struct {
	pos    uint64
	folder uint8
	counts bool // the record is to be delivered
}

// record compares one record with its file, and takes that from files where they
// agree. Else a later record with the same id may be the one that it is of.
func (r *Report) record(dir string, cp checkpoint.Checkpoint, rec *segment.Record, files map[uint64]uint8, suspects map[uint64]suspect) {
	key := short(rec.Name)
	folder, found := files[key]
	deliver := rec.Kind == segment.Deliver
	if found {
		if suspects[key].counts {
			r.Taken++ // the one before, whose file it would be
		}
		delete(suspects, key)
		if what, _ := differs(dir, eventFolders[folder], rec); what != "" {
			suspects[key] = suspect{rec.Pos, folder, deliver}
		} else {
			delete(files, key)
		}
	}
	if !deliver {
		return
	}
	r.Delivered++
	switch {
	case found:
	case rec.Pos > cp.Projected:
		r.Backlog++ // visible in a moment, or after the next start
	default:
		r.Taken++ // or it expired before its file was made
	}
}

// differs says what is wrong with the file of rec in a folder; a file that was
// moved meanwhile is right.
func differs(dir, folder string, rec *segment.Record) (what, text string) {
	body, err := os.ReadFile(filepath.Join(dir, folder, rec.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", ""
	case rec.Kind != segment.Deliver:
		return "not_for_delivery", fmt.Sprintf("record %d is kept as %q, but there is a file", rec.Pos, rec.Kind)
	case err != nil:
		return "unreadable", err.Error()
	case !bytes.Equal(body, rec.Event()):
		return "changed", fmt.Sprintf("the file in %s differs from record %d: it was changed after it was made", folder, rec.Pos)
	}
	return "", ""
}

// judge reports the suspects, which it finds in the journal again.
func (r *Report) judge(at Folders, suspects map[uint64]suspect) error {
	if len(suspects) == 0 {
		return nil
	}
	from := uint64(math.MaxUint64)
	for _, s := range suspects {
		from = min(from, s.pos)
	}
	reader, err := segment.OpenReader(at.Journal, from)
	if err != nil {
		return err
	}
	defer reader.Close()
	for left := len(suspects); left > 0; {
		rec, err := reader.Next()
		if errors.Is(err, io.EOF) { // retention was quicker
			return nil
		}
		if err != nil {
			return err
		}
		s, is := suspects[short(rec.Name)]
		if !is || s.pos != rec.Pos {
			continue
		}
		left--
		switch what, text := differs(at.Inbox, eventFolders[s.folder], &rec); what {
		case "": // moved since
		case "not_for_delivery":
			r.find(true, what, rec.Name, "%s", text)
		default:
			r.broken(what, at.Inbox, eventFolders[s.folder], &rec, text)
		}
	}
	return nil
}

// broken reports a file that is not what its record says, and mends it if it is to repair.
func (r *Report) broken(what, dir, folder string, rec *segment.Record, text string) {
	f := Finding{Fault: true, What: what, Name: rec.Name, Text: text}
	if r.repair {
		switch kept, err := folders.Exchange(dir, folder, rec.Name, rec.Event(), rec.Time); {
		case errors.Is(err, fs.ErrNotExist):
			f.Text += "; it was moved meanwhile and is left alone"
		case kept == "":
			f.Text += "; it could not be repaired: " + err.Error()
		case err != nil:
			f.Text += fmt.Sprintf("; it was repaired, which a power cut may undo: %v; what was there is kept in %s", err, kept)
		default:
			f.Fault, f.Repaired = false, true
			f.Text += "; it was repaired, what was there is kept in " + kept
		}
	}
	r.add(f)
}

// gap is the time between two records of which those between are lost.
type gap struct{ after, before time.Time }

// foreign explains the files no record is of.
func (r *Report) foreign(dir string, files map[uint64]uint8, oldest time.Time, gaps []gap) {
	if len(files) == 0 {
		return
	}
	for i, folder := range eventFolders {
		// The error was found above already; a folder that has gone since has no files.
		_ = folders.Each(filepath.Join(dir, folder), func(name string) {
			if at, left := files[short(name)]; !left || int(at) != i {
				return
			}
			info, err := os.Lstat(filepath.Join(dir, folder, name))
			switch {
			case err != nil: // moved since
			case oldest.IsZero() || info.ModTime().Before(oldest):
				r.find(false, "older", name, "in %s, and older than the journal, of which old segments are dropped", folder)
			case slices.ContainsFunc(gaps, func(g gap) bool { return info.ModTime().After(g.after) && info.ModTime().Before(g.before) }):
				r.find(false, "unrecorded", name, "in %s, of a time of which records are lost: it is what is left of one of them", folder)
			default:
				r.find(true, "foreign", name, "in %s, but no record of the journal is of it: the platform did not make it", folder)
			}
		})
	}
}
