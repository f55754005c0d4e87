package queue

import (
	"context"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watch turns the file system's notices into hints. It is never relied on: who
// uses it looks at the folder itself now and then.
type watch struct {
	fs      *fsnotify.Watcher // nil where there is none to be had
	folders []string
	hint    chan struct{}
	names   chan string   // of files that appeared; the oldest are dropped when nobody reads
	missed  chan struct{} // notices were lost
	done    chan struct{}
	logger  *slog.Logger
}

func newWatch(d Dir, logger *slog.Logger, folders ...string) *watch {
	w := &watch{hint: make(chan struct{}, 1), names: make(chan string, 1024), missed: make(chan struct{}, 1), done: make(chan struct{}), logger: logger}
	for _, folder := range folders {
		w.folders = append(w.folders, d.path(folder, ""))
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		logger.Info("inbox: no notices from the file system, looking at it regularly", "error", err)
		close(w.done)
		return w
	}
	w.fs = fs
	w.renew()
	go w.run()
	return w
}

// renew watches folders that were removed and made again.
func (w *watch) renew() {
	if w.fs == nil {
		return
	}
	for _, folder := range w.folders {
		if err := w.fs.Add(folder); err != nil {
			w.logger.Debug("inbox: watching", "folder", folder, "error", err)
		}
	}
}

func (w *watch) run() {
	defer close(w.done)
	for {
		select {
		case ev, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if !ev.Has(fsnotify.Create) {
				continue
			}
			select {
			case w.names <- filepath.Base(ev.Name):
			default:
				poke(w.missed)
			}
			poke(w.hint)
		case err, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			w.logger.Debug("inbox: notices were lost", "error", err) // such as fsnotify.ErrEventOverflow
			poke(w.missed)
			poke(w.hint)
		}
	}
}

func (w *watch) close() error {
	if w.fs == nil {
		return nil
	}
	err := w.fs.Close()
	<-w.done
	return err
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// followPoll is how often a follower looks at the folders whatever the notices say.
const followPoll = 5 * time.Second

// Follow gives each event published after since, in the order of publication,
// first those that are there and then new ones as they become visible, until
// ctx ends or the loop is left. It takes nothing: an event is given also when a
// consumer has moved it meanwhile, unless it was deleted before it was seen.
//
//	for e, err := range q.Follow(ctx, time.Now()) { … }
func (d Dir) Follow(ctx context.Context, since time.Time) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := newWatch(d, slog.New(slog.DiscardHandler), Pending)
		defer w.close()
		last := Entry{Time: since}
		give := func(entries []Entry) bool {
			for _, e := range entries {
				if Compare(e, last) > 0 {
					last = e
					if ctx.Err() != nil || !yield(e, nil) {
						return false
					}
				}
			}
			return true
		}
		for quick := time.Since(since) < time.Second; ; quick = false { // what comes from now on is told of
			start := time.Now()
			for { // page by page, so that a million events are not held at once
				entries, err := d.after(last, quick)
				if err != nil {
					yield(Entry{}, err)
					return
				}
				if !give(entries) {
					return
				}
				if len(entries) < followPage {
					break
				}
			}
			// A look costs time where there are many files: spend a twentieth on it.
			rescan := time.NewTimer(max(followPoll, 20*time.Since(start)))
			again := false
			for !again {
				select {
				case name := <-w.names:
					entries, lost := d.appeared(w, name)
					if !give(entries) {
						rescan.Stop()
						return
					}
					again = lost
				case <-w.missed:
					again = true
				case <-rescan.C:
					w.renew()
					again = true
				case <-ctx.Done():
					rescan.Stop()
					return
				}
			}
			rescan.Stop()
		}
	}
}

// followPage is how many entries a follower holds: a page costs a look at all files.
var followPage = 50_000

// after is the next page of events after last, wherever they are now. Like a
// consumer it does not trust one scan with the order. A quick look ends where
// the newest of a large folder, by its id, is not after last.
func (d Dir) after(last Entry, quick bool) ([]Entry, error) {
	newest, err := d.List(Filter{Folders: eventFolders}, Page{Size: 1, Newest: true})
	if err != nil || len(newest) == 0 || quick && Compare(newest[0], last) <= 0 {
		return nil, err
	}
	entries, err := d.List(Filter{Folders: eventFolders, Until: newest[0].Time.Add(1)}, Page{Size: followPage, After: &last})
	return slices.CompactFunc(entries, func(a, b Entry) bool { return a.Name == b.Name }), err // moved while we looked
}

// appeared looks up files that have just appeared, in order. It reports when
// one cannot be found or more notices were lost.
func (d Dir) appeared(w *watch, name string) (entries []Entry, lost bool) {
	names := []string{name}
	for more := true; more && len(names) < cap(w.names); {
		select {
		case name := <-w.names:
			names = append(names, name)
		default:
			more = false
		}
	}
	select {
	case <-w.missed: // names are missing before some of these: they must not be given yet
		return nil, true
	default:
	}
	for _, name := range names {
		for _, folder := range eventFolders {
			e, err := d.stat(folder, name)
			if err == nil {
				entries = append(entries, e)
				break
			}
			if !missing(err) {
				lost = true
			}
		}
	}
	slices.SortFunc(entries, Compare)
	return entries, lost
}
