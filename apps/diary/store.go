package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aurorabot-dev/platform/apps/diary/changes"
	"github.com/aurorabot-dev/platform/apps/diary/entry"
	"github.com/aurorabot-dev/platform/apps/diary/textsearch"
	"github.com/aurorabot-dev/platform/mcpkit/appkit"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	maxFile   = 2 << 20  // bytes of a file; none of ours comes near
	maxFolded = 64 << 20 // bytes of folded text that are kept; a diary of 20 years has less
	unsettled = 2 * time.Second
)

// store is a folder with one file per day:
//
//	2026-11-28.md
//	2026-11-29.md
//
// The folder is the truth; people may edit it while the program runs. What the
// store remembers of a file it believes only while the file's size and time are
// the same.
type store struct {
	dir string

	mu     sync.Mutex // never held while a file is read
	known  map[string]*digest
	folded int // bytes of text kept in known
}

// digest is what the store remembers of one file.
type digest struct {
	stamp
	chars     int
	firstLine string
	mood      string
	tags      []string
	folded    string // the text to search, or "" where none was kept
	kept      bool   // folded is the text
}

// stamp tells whether a file is the one that was read.
type stamp struct {
	size int64
	time time.Time
	seen time.Time // when it was looked at
}

// same reports whether a file with the stamp now is the one remembered as s. A
// change within the clock's grain of the look would show nowhere, so what was
// young when it was read is read again.
func (s stamp) same(now stamp) bool {
	return s.size == now.size && s.time.Equal(now.time) && s.seen.Sub(s.time) > unsettled
}

// day is one file in the folder.
type day struct {
	date string
	stamp
}

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the diary's folder: %w", err)
	}
	leftovers, err := filepath.Glob(filepath.Join(dir, ".tmp-*")) // of writes that were killed
	if err != nil {
		return nil, err
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("clearing the diary's folder: %w", err)
		}
	}
	return &store{dir: dir, known: map[string]*digest{}}, nil
}

func (s *store) path(date string) string { return filepath.Join(s.dir, date+".md") }

// days are the entries that there are, the newest first.
func (s *store) days() ([]day, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, storageFault("the diary could not be read", err)
	}
	days := make([]day, 0, len(files))
	for _, f := range files {
		date, ok := strings.CutSuffix(f.Name(), ".md")
		if !ok || !f.Type().IsRegular() || entry.CheckDate(date) != nil {
			continue
		}
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		} else if err != nil {
			return nil, storageFault("the diary could not be read", err)
		}
		days = append(days, day{date, stampOf(info)})
	}
	slices.SortFunc(days, func(a, b day) int { return strings.Compare(b.date, a.date) })
	s.forget(days)
	return days, nil
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), time: info.ModTime(), seen: time.Now()}
}

// forget drops what is remembered of files that are gone.
func (s *store) forget(days []day) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) <= len(days) { // the usual case; a stray digest costs little
		return
	}
	there := make(map[string]bool, len(days))
	for _, d := range days {
		there[d.date] = true
	}
	for date, k := range s.known {
		if !there[date] {
			s.folded -= len(k.folded)
			delete(s.known, date)
		}
	}
}

// read reads one entry from its file.
func (s *store) read(date string) (*entry.Entry, stamp, error) {
	// A date may also be the name of somebody's pipe or of a way out of the folder.
	f, err := os.OpenFile(s.path(date), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, stamp{}, fault.New("DIARY_NOT_FOUND", "there is no entry for %s; list_entries shows the dates that have one", date)
	} else if err != nil {
		return nil, stamp{}, storageFault("the entry could not be read", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, storageFault("the entry could not be read", err)
	}
	if !info.Mode().IsRegular() {
		return nil, stamp{}, fault.New("DIARY_STORAGE", "%s.md is not a file", date)
	}
	file, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, stamp{}, storageFault("the entry could not be read", err)
	}
	if len(file) > maxFile {
		return nil, stamp{}, fault.New("DIARY_TOO_LARGE", "the file of %s was made by somebody else and has more than %d bytes", date, maxFile)
	}
	return entry.Decode(date, file), stampOf(info), nil
}

// digest is what is known of d's file, read anew if it changed.
func (s *store) digest(d day, needText bool) (*digest, error) {
	s.mu.Lock()
	k := s.known[d.date]
	s.mu.Unlock()
	if k != nil && k.same(d.stamp) && (k.kept || !needText) {
		return k, nil
	}
	e, at, err := s.read(d.date)
	if err != nil {
		return nil, err
	}
	k = &digest{stamp: at, chars: characters(e.Content), firstLine: textsearch.FirstLine(e.Content, maxFirstLine), mood: e.Mood, tags: e.Tags}
	if needText {
		k.folded, k.kept = textsearch.Fold(e.Content+"\n"+strings.Join(e.Tags, "\n")+"\n"+e.Mood), true
	}
	s.remember(d.date, *k)
	return k, nil
}

// remember keeps k, without its text once enough text is kept. Older text is not
// dropped for it: a search goes through all, so any part is as good as another.
func (s *store) remember(date string, k digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.known[date]; old != nil {
		s.folded -= len(old.folded)
	}
	if s.folded+len(k.folded) > maxFolded {
		k.folded, k.kept = "", false
	}
	s.folded += len(k.folded)
	s.known[date] = &k
}

// write makes an entry's file, or replaces it, as a whole and durably.
func (s *store) write(date string, file []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return storageFault("the entry was not written", err)
	}
	if err := appkit.WriteFile(s.path(date), file); err != nil {
		return storageFault("the entry was not written", err)
	}
	return nil
}

// sum is the sum of an entry's file, empty where there is none.
func (s *store) sum(date string) (string, error) {
	f, err := os.OpenFile(s.path(date), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", storageFault("the entry could not be read", err)
	}
	defer f.Close()
	file, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", storageFault("the entry could not be read", err)
	}
	return changes.Sum(file), nil
}

func (s *store) remove(date string) error {
	if err := appkit.RemoveFile(s.path(date)); err != nil {
		return storageFault("the entry was not deleted", err)
	}
	return nil
}

// storageFault says what the file system refused. It may give in later, so the
// call may be repeated.
func storageFault(what string, err error) error {
	why := err.Error()
	var (
		path *fs.PathError
		link *os.LinkError
	)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		why = "the disk is full"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		why = "the diary's folder is read-only"
	case errors.As(err, &path): // without the path, which is nobody's business
		why = path.Err.Error()
	case errors.As(err, &link):
		why = link.Err.Error()
	}
	return fault.New("DIARY_STORAGE", "%s: %s", what, why).Retry()
}
