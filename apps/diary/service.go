package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/apps/diary/changes"
	"github.com/aurorabot-dev/platform/apps/diary/entry"
	"github.com/aurorabot-dev/platform/apps/diary/textsearch"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	maxContent   = 100_000 // characters of an entry
	maxQuery     = 200
	maxTerms     = 16
	maxFirstLine = 120
)

// characters are what limits count: Unicode code points.
func characters(s string) int { return utf8.RuneCountInString(s) }

// Mode says what becomes of an entry that is there already.
type Mode string

const (
	Append  Mode = "append"  // the content is added as a paragraph
	Replace Mode = "replace" // the content takes its place
	Create  Mode = "create"  // it stays, and writing fails
)

// Service keeps a diary in a folder.
type Service struct {
	store   *store
	now     func() time.Time // in the zone whose days the diary has
	writing sync.Mutex       // one change at a time: appending reads before it writes

	changes *changes.Log // nil: nobody is told
}

// Open opens the diary in dir, which is made if need be. The location of what
// now returns decides which day it is.
func Open(dir string, now func() time.Time) (*Service, error) {
	st, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	return &Service{store: st, now: now}, nil
}

// News is what is told of a change: the type, the summary and the data of an event.
type News struct {
	Type    string `json:"type"`
	Summary string `json:"summary"`
	Data    any    `json:"data"`
}

// Tell has tell called with the [News] of each change, and a key that names the change;
// see [changes.Log]. What is not told yet is kept in dir. Tell is called before the
// first change.
func (s *Service) Tell(dir string, tell func(key string, news json.RawMessage) error) error {
	s.changes = changes.New(dir, s.store.sum, tell)
	return s.changes.Recover()
}

// change makes a change of a day's file, by do; after is what it becomes, nil where it
// is removed. The caller holds the lock.
func (s *Service) change(date string, after []byte, n News, do func() error) error {
	if s.changes == nil {
		return do()
	}
	err := s.changes.Do(date, after, n, do)
	if err != nil && code(err) == fault.Internal {
		return storageFault("the entry was not changed", err)
	}
	return err
}

// Draft is what is to be written.
type Draft struct {
	Date    string // empty means today
	Content string
	Mode    Mode
	Tags    []string // nil keeps those of an entry that is there; Append adds them
	Mood    string   // empty keeps it
}

// Written says what an entry has become.
type Written struct {
	Date       string   `json:"date"`
	Mode       Mode     `json:"mode"`
	New        bool     `json:"new"` // there was none
	Characters int      `json:"characters"`
	SizeBytes  int      `json:"size_bytes"` // of the file
	Tags       []string `json:"tags,omitempty"`
	Mood       string   `json:"mood,omitempty"`
}

// Write writes an entry. Once it returns nil the entry survives a power cut;
// until then the one before is whole. Failures are *fault.Error with the codes
// DIARY_INVALID_DATE, DIARY_INVALID_ARGUMENT, DIARY_TOO_LARGE, DIARY_EXISTS,
// DIARY_NOT_TEXT and DIARY_STORAGE.
func (s *Service) Write(d Draft) (Written, error) {
	now := s.now().Truncate(time.Second)
	d.Date = cmp.Or(d.Date, now.Format(entry.DateForm))
	if err := entry.CheckDate(d.Date); err != nil {
		return Written{}, err
	}
	d.Content = strings.ToValidUTF8(d.Content, "\uFFFD")
	if strings.TrimSpace(d.Content) == "" {
		return Written{}, fault.New("DIARY_INVALID_ARGUMENT", "there is nothing to write: the content is blank")
	}
	if d.Mood = textsearch.OneLine(d.Mood); characters(d.Mood) > entry.MaxWord {
		return Written{}, fault.New("DIARY_INVALID_ARGUMENT", "the mood has more than %d characters", entry.MaxWord)
	}

	s.writing.Lock()
	defer s.writing.Unlock()
	old, _, err := s.store.read(d.Date)
	isNew := code(err) == "DIARY_NOT_FOUND"
	if err != nil && !isNew && !(d.Mode == Replace && code(err) == "DIARY_TOO_LARGE") {
		return Written{}, err
	}
	e := &entry.Entry{Date: d.Date, Created: now}
	if err == nil {
		e = old
	}
	switch d.Mode {
	case Create:
		if !isNew {
			return Written{}, fault.New("DIARY_EXISTS", "there is an entry for %s already; use the mode append or replace", d.Date)
		}
		e.Content = d.Content
	case Replace:
		e.Content = d.Content
	case Append:
		if e.Mended {
			return Written{}, fault.New("DIARY_NOT_TEXT", "the entry for %s was changed by somebody else and is not UTF-8 text; repair the file, or use the mode replace", d.Date)
		}
		if e.Content = strings.TrimRight(e.Content, "\r\n"); e.Content != "" {
			e.Content += "\n\n"
		}
		e.Content += d.Content
		d.Tags = slices.Concat(e.Tags, d.Tags)
	default:
		return Written{}, fault.New("DIARY_INVALID_ARGUMENT", "there is no mode %s; use append, replace or create", entry.Quote(string(d.Mode)))
	}
	if n := characters(e.Content); n > maxContent {
		return Written{}, fault.New("DIARY_TOO_LARGE", "the entry would have %d characters; %d are the most. Write less, or under another date", n, maxContent)
	}
	if d.Tags != nil {
		if e.Tags, err = entry.CleanTags(d.Tags); err != nil {
			return Written{}, err
		}
	}
	e.Mood, e.Updated = cmp.Or(d.Mood, e.Mood), now
	file, err := e.Encode()
	if err != nil {
		return Written{}, err
	}
	w := Written{e.Date, d.Mode, isNew, characters(e.Content), len(file), e.Tags, e.Mood}
	if err := s.change(e.Date, file, w.news(), func() error { return s.store.write(e.Date, file) }); err != nil {
		return Written{}, err
	}
	return w, nil
}

// code is err's code, or "".
func code(err error) string {
	if err == nil {
		return ""
	}
	return fault.From(err).Code
}

// Read returns the entry of a day. Failures have the codes DIARY_INVALID_DATE,
// DIARY_NOT_FOUND, DIARY_TOO_LARGE and DIARY_STORAGE.
func (s *Service) Read(date string) (*entry.Entry, error) {
	if err := entry.CheckDate(date); err != nil {
		return nil, err
	}
	e, _, err := s.store.read(date)
	return e, err
}

// Delete removes the entry of a day for good. Failures have the codes of Read.
func (s *Service) Delete(date string) error {
	if err := entry.CheckDate(date); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, _, err := s.store.read(date); err != nil && code(err) != "DIARY_TOO_LARGE" {
		return err
	}
	n := News{"diary.deleted", "diary: " + date + " is deleted", deleted{date}}
	return s.change(date, nil, n, func() error { return s.store.remove(date) })
}

// deleted is the data of diary.deleted, and the result of delete_entry.
type deleted struct {
	Date string `json:"date"`
}

// written is the data of diary.written.
type written struct {
	Date       string `json:"date"`
	Mode       Mode   `json:"mode"`
	New        bool   `json:"new"` // there was no entry for that day
	Characters int    `json:"characters"`
	SizeBytes  int    `json:"size_bytes"`
}

func (w Written) news() News {
	return News{"diary.written", fmt.Sprintf("diary: %s, %d characters", w.Date, w.Characters), written{w.Date, w.Mode, w.New, w.Characters, w.SizeBytes}}
}

// Summary is an entry in a list.
type Summary struct {
	Date       string   `json:"date"`
	SizeBytes  int64    `json:"size_bytes"` // of the file
	Characters int      `json:"characters"`
	FirstLine  string   `json:"first_line"`
	Tags       []string `json:"tags,omitempty"`
	Mood       string   `json:"mood,omitempty"`
	Problem    string   `json:"problem,omitempty"` // why the file cannot be read
}

// Page is a part of a list, the newest entries first.
type Page struct {
	Entries    []Summary `json:"entries"`
	Total      int       `json:"total"`                 // in the range, on all pages
	NextCursor string    `json:"next_cursor,omitempty"` // for the next page, if there is one
}

// List returns at most limit entries from a range of days, both ends included;
// an empty end is open. Failures have the codes DIARY_INVALID_DATE and
// DIARY_STORAGE.
func (s *Service) List(ctx context.Context, from, to, cursor string, limit int) (Page, error) {
	for _, date := range []string{from, to, cursor} {
		if date != "" {
			if err := entry.CheckDate(date); err != nil {
				return Page{}, err
			}
		}
	}
	if from != "" && to != "" && from > to {
		return Page{}, fault.New("DIARY_INVALID_DATE", "the range ends before it begins: from %s to %s", from, to)
	}
	days, err := s.store.days()
	if err != nil {
		return Page{}, err
	}
	page := Page{Entries: []Summary{}}
	for _, d := range days {
		if d.date < from || to != "" && d.date > to {
			continue
		}
		page.Total++
		if cursor != "" && d.date >= cursor {
			continue // on an earlier page, whatever was written or deleted since
		}
		if len(page.Entries) == limit {
			page.NextCursor = page.Entries[limit-1].Date
			continue
		}
		if err := ctx.Err(); err != nil {
			return Page{}, err
		}
		item := Summary{Date: d.date, SizeBytes: d.size}
		if k, err := s.store.digest(d, false); err != nil {
			item.Problem = fault.From(err).Message
		} else {
			item.Characters, item.FirstLine, item.Tags, item.Mood = k.chars, k.firstLine, k.tags, k.mood
		}
		page.Entries = append(page.Entries, item)
	}
	return page, nil
}

// Match is an entry that a search found.
type Match struct {
	Date    string   `json:"date"`
	Hits    int      `json:"hits"`
	Snippet string   `json:"snippet"` // the text around the first hit
	Tags    []string `json:"tags,omitempty"`
}

// Found is what a search found, the most hits first, then the newest.
type Found struct {
	Matches []Match `json:"matches"`
	Total   int     `json:"total"`             // also those beyond the limit
	Skipped int     `json:"skipped,omitempty"` // files that cannot be read
}

// Search finds the entries in whose text, tags or mood every term of the query
// occurs, whatever its case or width, also within words. Failures have the codes
// DIARY_INVALID_QUERY and DIARY_STORAGE.
func (s *Service) Search(ctx context.Context, query string, limit int) (Found, error) {
	if characters(query) > maxQuery {
		return Found{}, fault.New("DIARY_INVALID_QUERY", "the query has more than %d characters", maxQuery)
	}
	terms := textsearch.Terms(query)
	if len(terms) == 0 || len(terms) > maxTerms {
		return Found{}, fault.New("DIARY_INVALID_QUERY", "the query has %d terms; give 1 to %d, with blanks between", len(terms), maxTerms)
	}
	days, err := s.store.days()
	if err != nil {
		return Found{}, err
	}
	found := Found{Matches: []Match{}}
	for _, d := range days {
		if err := ctx.Err(); err != nil {
			return Found{}, err
		}
		k, err := s.store.digest(d, true)
		switch {
		case code(err) == "DIARY_NOT_FOUND": // deleted meanwhile
		case err != nil:
			found.Skipped++
		default:
			if hits := textsearch.Count(k.folded, terms); hits > 0 {
				found.Matches = append(found.Matches, Match{Date: d.date, Hits: hits, Tags: k.tags})
			}
		}
	}
	found.Total = len(found.Matches)
	slices.SortStableFunc(found.Matches, func(a, b Match) int { return cmp.Compare(b.Hits, a.Hits) })
	found.Matches = found.Matches[:min(limit, found.Total)]
	for i := range found.Matches {
		m := &found.Matches[i]
		if e, _, err := s.store.read(m.Date); err == nil { // else it is gone by now
			m.Snippet = textsearch.Snippet(e.Content, terms)
		}
	}
	return found, nil
}
