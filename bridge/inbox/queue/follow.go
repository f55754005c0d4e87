package queue

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue/internal/watch"
)

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
		w := watch.New(slog.New(slog.DiscardHandler), d.path(Pending, ""))
		defer w.Close()
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
				case name := <-w.Names:
					entries, lost := d.appeared(w, name)
					if !give(entries) {
						rescan.Stop()
						return
					}
					again = lost
				case <-w.Missed:
					again = true
				case <-rescan.C:
					w.Renew()
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
func (d Dir) appeared(w *watch.Watch, name string) (entries []Entry, lost bool) {
	names := []string{name}
	for more := true; more && len(names) < cap(w.Names); {
		select {
		case name := <-w.Names:
			names = append(names, name)
		default:
			more = false
		}
	}
	select {
	case <-w.Missed: // names are missing before some of these: they must not be given yet
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
