// Package queue works on the inbox's folders from the Brain's side, also while
// no platform runs: claim events and acknowledge them, list, show, follow, count
// and prune.
//
//	q := queue.Dir("data/kernel/inbox")
//	c, err := q.Consumer(queue.ConsumerOptions{})
//	events, err := c.Claim(ctx, 10) // waits for the first
//	…                               // act on events[0].Envelope
//	err = c.Ack(events...)
//
// The folders are the whole state:
//
//	pending/     event_{type}_{message_id}.json, whole and durable; the order of
//	             modification times is the order of publication
//	processing/  claimed; leases/ says by whom and until when
//	done/        acknowledged
//	failed/      dead letters; the reason is beside each in a .reason file
//	rejected/    what came and was no envelope
//
// A file's folder changes by rename alone, so an event is in one of them at any
// time. Listing, following and counting never move a file.
//
// The package does not know the journal: what compares both is in bridge/inbox.
package queue

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/amp"
)

// Dir is an inbox: the folder that holds pending/ and the others.
type Dir string

// Entry is one event's file.
type Entry struct {
	Folder string    `json:"folder"` // Pending, Processing, Done or Failed
	Name   string    `json:"name"`
	Type   string    `json:"type"` // as in the name: lower case, perhaps cut
	ID     string    `json:"id"`
	Time   time.Time `json:"time"` // of its record; the order of publication
	Size   int64     `json:"size"` // bytes
}

// Compare orders entries as they were published.
func Compare(a, b Entry) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Name, b.Name))
}

func (d Dir) path(folder, name string) string { return filepath.Join(string(d), folder, name) }

func (d Dir) stat(folder, name string) (Entry, error) {
	typ, id, ok := amp.ParseFileName(name)
	if !ok {
		return Entry{}, fmt.Errorf("%q is not the name of an event: %w", name, os.ErrNotExist)
	}
	info, err := os.Lstat(d.path(folder, name))
	if err != nil {
		return Entry{}, err
	}
	if !info.Mode().IsRegular() {
		return Entry{}, fmt.Errorf("%s is not a file: %w", d.path(folder, name), os.ErrNotExist)
	}
	return Entry{folder, name, typ, id, info.ModTime(), info.Size()}, nil
}

// names calls fn with the names in a folder, in no order, without holding them all.
func (d Dir) names(folder string, fn func(name string) error) error {
	f, err := os.Open(d.path(folder, ""))
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			if err := fn(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// walk calls fn with the entries of a folder that is there, in no order. Files
// that are no events, or that go while it walks, are left out.
func (d Dir) walk(folder string, want func(typ, id string) bool, fn func(Entry) error) error {
	return d.scan(folder, func(dir int, batch []found) error {
		if want != nil {
			batch = slices.DeleteFunc(batch, func(f found) bool { return !want(f.typ, f.id) })
		}
		return look(dir, folder, batch, fn)
	})
}

// Filter chooses entries. Zero fields choose all.
type Filter struct {
	Folders []string // Pending when empty
	Type    string   // a type, or the beginning of one followed by *
	Source  string   // header.source.app; this reads files
	Since   time.Time
	Until   time.Time
}

func (f *Filter) matchType(typ string) bool {
	want := strings.ToLower(f.Type)
	if prefix, ok := strings.CutSuffix(want, "*"); ok {
		return strings.HasPrefix(typ, prefix)
	}
	return want == "" || typ == want
}

// MatchName reports whether the type in a file's name is one the filter chooses.
func (f *Filter) MatchName(name string) bool {
	typ, _, ok := amp.ParseFileName(name)
	return ok && f.matchType(typ)
}

func (f *Filter) matchTime(t time.Time) bool {
	return (f.Since.IsZero() || !t.Before(f.Since)) && (f.Until.IsZero() || t.Before(f.Until))
}

// Page is a part of a list.
type Page struct {
	Size   int    // 50 when 0
	After  *Entry // the last entry of the page before
	Newest bool   // newest first
}

// List returns one page of the entries that match, in the order of publication.
// It looks at each file of the folders once and holds one page of them.
//
// The page from an end of a folder of more than 50,000 files is chosen by the
// times in the ids, and only its files are looked at: an event whose id is older
// than its publication by more than some hundred others may be left out. With a
// Source some thousand are read; all are where these do not fill the page.
func (d Dir) List(f Filter, p Page) ([]Entry, error) {
	if p.Size <= 0 {
		p.Size = 50
	}
	if len(f.Folders) == 0 {
		f.Folders = []string{Pending}
	}
	byName := p.After == nil && (p.Newest && f.Until.IsZero() || !p.Newest && f.Since.IsZero())
	page, sure, err := d.page(&f, p, byName)
	if err == nil && !sure {
		page, _, err = d.page(&f, p, false)
	}
	return page, err
}

// page is List; with byName the files of large folders are chosen by their
// names. It is not sure when others might have filled the page.
func (d Dir) page(f *Filter, p Page, byName bool) (page []Entry, sure bool, err error) {
	order := Compare
	if p.Newest {
		order = func(a, b Entry) int { return Compare(b, a) }
	}
	first := smallest{order: order, max: p.Size}
	sure = true
	for _, folder := range f.Folders {
		if !slices.Contains(eventFolders, folder) {
			return nil, true, fmt.Errorf("%q is not a folder of events: %s", folder, strings.Join(eventFolders, ", "))
		}
		all, err := d.list(folder, f, p, byName, func(e Entry) error {
			if !f.matchTime(e.Time) || p.After != nil && order(e, *p.After) <= 0 || !first.wants(e) {
				return nil
			}
			if f.Source != "" {
				envelope, _, err := d.read(e)
				if err != nil || envelope.Header.Source.App != f.Source {
					return nil // gone or not an envelope: not of that source
				}
			}
			first.add(e)
			return nil
		})
		if err != nil {
			return nil, true, fmt.Errorf("listing %s: %w", d.path(folder, ""), err)
		}
		sure = sure && all
	}
	return first.sorted(), sure || len(first.heap) == p.Size, nil
}

// list calls fn with the entries of a folder that may be on a page. With byName,
// those of a large folder are chosen by their names, and all tells whether these
// are all that can be wanted.
func (d Dir) list(folder string, f *Filter, p Page, byName bool, fn func(Entry) error) (all bool, err error) {
	var held []found // until it is known that there are many
	var names *likely
	err = d.scan(folder, func(dir int, batch []found) error {
		batch = slices.DeleteFunc(batch, func(n found) bool { return !f.matchType(n.typ) })
		if !byName {
			return look(dir, folder, batch, fn)
		}
		if held = append(held, batch...); len(held) <= many && names == nil {
			return nil
		}
		if names == nil {
			size := 4*p.Size + 64 // some more, as the order of records is not quite that of ids
			if f.Source != "" {
				size = max(size, some)
			}
			names = newLikely(p.Newest, size)
		}
		err := look(dir, folder, names.note(folder, held), fn)
		held = held[:0]
		return err
	})
	if err != nil {
		return true, err
	}
	var chosen []string
	if names != nil {
		all = f.Source == "" || names.reach(f.Since, f.Until)
		for _, e := range names.heap.heap {
			chosen = append(chosen, e.Name)
		}
	}
	for _, n := range held {
		chosen = append(chosen, n.name)
	}
	for _, name := range chosen {
		e, err := d.stat(folder, name)
		if missing(err) {
			continue
		}
		if err == nil {
			err = fn(e)
		}
		if err != nil {
			return true, err
		}
	}
	return all || names == nil, nil
}

var eventFolders = []string{Pending, Processing, Done, Failed}

// Item is an event with its content.
type Item struct {
	Entry
	Envelope *amp.Envelope // nil where the file holds none
	Raw      []byte
	Problem  error  // why there is no envelope
	Reason   string // why it is in Failed
}

// read reads an entry's file.
func (d Dir) read(e Entry) (*amp.Envelope, []byte, error) {
	raw, err := os.ReadFile(d.path(e.Folder, e.Name))
	if err != nil {
		return nil, nil, err
	}
	envelope, err := amp.Parse(raw)
	if err == nil && envelope.Header.MessageID != e.ID {
		err = fmt.Errorf("message_id is %q, the file's name says %q", envelope.Header.MessageID, e.ID)
	}
	return envelope, raw, err
}

// Load reads an entry, also when it was moved to another folder since.
func (d Dir) Load(e Entry) (*Item, error) {
	for _, folder := range append([]string{e.Folder}, eventFolders...) {
		e.Folder = folder
		envelope, raw, err := d.read(e)
		if missing(err) {
			continue
		}
		if raw == nil {
			return nil, err
		}
		it := &Item{Entry: e, Envelope: envelope, Raw: raw, Problem: err}
		if folder == Failed {
			if r, err := d.readReason(e.Name); err == nil {
				it.Reason = r.Reason
			}
		}
		return it, nil
	}
	return nil, fmt.Errorf("event %s: %w", e.ID, os.ErrNotExist)
}

// Show finds the event whose id begins with prefix, in any folder. The error
// wraps os.ErrNotExist when there is none, and names some when there are several.
func (d Dir) Show(prefix string) (*Item, error) {
	var found []Entry
	enough := errors.New("enough")
	for _, folder := range eventFolders {
		err := d.walk(folder, func(_, id string) bool {
			return len(id) >= len(prefix) && strings.EqualFold(id[:len(prefix)], prefix)
		}, func(e Entry) error {
			if found = append(found, e); len(found) > 5 {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			return nil, err
		}
	}
	found = slices.CompactFunc(found, func(a, b Entry) bool { return a.Name == b.Name }) // moved while we looked
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no event has an id that begins with %q: %w", prefix, os.ErrNotExist)
	case 1:
		return d.Load(found[0])
	}
	var ids []string
	for _, e := range found {
		ids = append(ids, e.ID)
	}
	return nil, fmt.Errorf("several events have an id that begins with %q: %s", prefix, strings.Join(ids, ", "))
}

// Count is what a folder holds.
type Count struct {
	Files  int64            `json:"files"`
	Bytes  int64            `json:"bytes"`
	Oldest time.Time        `json:"oldest,omitzero"`
	Newest time.Time        `json:"newest,omitzero"`
	Types  map[string]int64 `json:"types,omitempty"` // files per type, at most 1,000 types
	// Sampled, if not 0, is how many of the files were looked at, of more than
	// 50,000: bytes, oldest and newest are estimates from these.
	Sampled int64 `json:"sampled,omitempty"`
}

// Stats counts each folder of events and rejected/. Files and types are counted
// by names; beyond 50,000 files of a folder it looks at one in sampleOf for the rest.
func (d Dir) Stats() (map[string]Count, error) {
	stats := map[string]Count{}
	for _, folder := range eventFolders {
		c := Count{Types: map[string]int64{}}
		var files, looked int64
		err := d.scan(folder, func(dir int, batch []found) error {
			for _, f := range batch {
				if _, known := c.Types[f.typ]; known || len(c.Types) < 1000 {
					c.Types[f.typ]++
				}
			}
			weight := int64(1)
			if files += int64(len(batch)); files > int64(many) {
				batch, weight = sample(batch), sampleOf
			}
			return look(dir, folder, batch, func(e Entry) error {
				looked++
				c.add(e.Time, weight*e.Size)
				return nil
			})
		})
		if c.Files = looked; files > int64(many) {
			c.Files, c.Sampled = files, looked
		}
		if err != nil {
			return nil, err
		}
		stats[folder] = c
	}
	c := Count{}
	err := d.names(Rejected, func(name string) error {
		if info, err := os.Lstat(d.path(Rejected, name)); err == nil {
			c.add(info.ModTime(), info.Size())
		}
		return nil
	})
	if err != nil && !missing(err) {
		return nil, err
	}
	stats[Rejected] = c
	return stats, nil
}

// sampleOf is of how many files one is looked at where there are many.
const sampleOf = 64

func sample(batch []found) []found {
	kept := batch[:0]
	for i := 0; i < len(batch); i += sampleOf {
		kept = append(kept, batch[i])
	}
	return kept
}

func (c *Count) add(t time.Time, size int64) {
	c.Files++
	c.Bytes += size
	if c.Oldest.IsZero() || t.Before(c.Oldest) {
		c.Oldest = t
	}
	if t.After(c.Newest) {
		c.Newest = t
	}
}

// smallest keeps the first max entries of an order in a heap, the last of them on top.
type smallest struct {
	order func(a, b Entry) int
	max   int
	heap  []Entry
}

func (s *smallest) wants(e Entry) bool {
	return len(s.heap) < s.max || s.order(e, s.heap[0]) < 0
}

func (s *smallest) add(e Entry) {
	if !s.wants(e) {
		return
	}
	if len(s.heap) < s.max {
		s.heap = append(s.heap, e)
		for i := len(s.heap) - 1; i > 0 && s.order(s.heap[i], s.heap[(i-1)/2]) > 0; i = (i - 1) / 2 {
			s.heap[i], s.heap[(i-1)/2] = s.heap[(i-1)/2], s.heap[i]
		}
		return
	}
	s.heap[0] = e
	for i := 0; ; {
		top := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(s.heap) && s.order(s.heap[child], s.heap[top]) > 0 {
				top = child
			}
		}
		if top == i {
			return
		}
		s.heap[i], s.heap[top] = s.heap[top], s.heap[i]
		i = top
	}
}

func (s *smallest) sorted() []Entry {
	slices.SortFunc(s.heap, s.order)
	return s.heap
}
