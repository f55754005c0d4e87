// Package watch says when manifests may have changed.
//
// What the file system reports is only a hint: it misses changes behind links,
// on network file systems and after an overflow of its queue. So a hint, after a
// short rest, and a slow tick both lead to the same thing: the content of all
// files that would be loaded is compared with what it was.
//
//	w := watch.New(watch.Options{Manifests: o, Logger: logger})
//	go func() { defer close(stopped); w.Run(ctx) }()
//	for range w.Changed() {
//		list, err := load.Manifests(o)
//		…
//	}
//
// The package loads nothing and decides nothing.
package watch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Options says what is watched.
type Options struct {
	Manifests load.Options  // as for load.Manifests
	Debounce  time.Duration // rest after the last hint; default 200 ms
	Rescan    time.Duration // pause between looks without a hint; default 10 s
	Logger    *slog.Logger  // nil logs nothing
}

// Watcher compares manifests with what they were. Make one with New and let one
// goroutine call Run.
type Watcher struct {
	o       Options
	log     *slog.Logger
	last    [sha256.Size]byte
	changed chan struct{}
}

// New takes the state of the files as it is now: every change after New returns
// is seen, so New comes before the first Load.
func New(o Options) *Watcher {
	if o.Debounce <= 0 {
		o.Debounce = 200 * time.Millisecond
	}
	if o.Rescan <= 0 {
		o.Rescan = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Watcher{o: o, log: o.Logger, last: fingerprint(o.Manifests), changed: make(chan struct{}, 1)}
}

// Changed receives when the content of the files is no longer what it was. It
// holds one value: several changes before it is read are one. Run closes it.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Run watches until ctx ends. Where the system offers no watching it goes on
// with the tick alone.
func (w *Watcher) Run(ctx context.Context) {
	defer close(w.changed)
	var events <-chan fsnotify.Event
	var faults <-chan error
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("manifests are only looked at from time to time", "every", w.o.Rescan, "error", err)
	} else {
		defer fs.Close()
		events, faults = fs.Events, fs.Errors
	}
	watched := w.follow(fs)
	tick := time.NewTicker(w.o.Rescan)
	defer tick.Stop()
	rest := time.NewTimer(0) // what happened between New and here
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				events = nil
			} else if watched[e.Name] || watched[filepath.Dir(e.Name)] {
				rest.Reset(w.o.Debounce)
			}
		case err, ok := <-faults:
			if !ok {
				faults = nil
				continue
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.log.Debug("watching manifests", "error", err)
			}
			rest.Reset(w.o.Debounce)
		case <-tick.C:
			watched = w.follow(fs)
			w.compare()
		case <-rest.C:
			watched = w.follow(fs) // a folder may be new, or here again
			w.compare()
		}
	}
}

func (w *Watcher) compare() {
	now := fingerprint(w.o.Manifests)
	if now == w.last {
		return
	}
	w.last = now
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// follow watches every folder that holds or may come to hold a manifest, and
// the parents of those that were given, whose return would go unseen. The
// folders whose every event counts are returned with the given paths
// themselves. Adding a folder twice does nothing; what is gone left by itself.
func (w *Watcher) follow(fs *fsnotify.Watcher) map[string]bool {
	counts := map[string]bool{}
	parents := map[string]bool{}
	o := w.o.Manifests
	for _, list := range [][]string{o.Dirs, o.Project, o.User} {
		for _, p := range list {
			p = filepath.Clean(p)
			counts[p] = true
			parents[filepath.Dir(p)] = true
			entries, err := os.ReadDir(p)
			if err != nil {
				continue
			}
			for _, e := range entries {
				sub := filepath.Join(p, e.Name())
				if info, err := os.Stat(sub); err == nil && info.IsDir() {
					counts[sub] = true
				}
			}
		}
	}
	for _, file := range load.Files(o) {
		counts[filepath.Dir(file)] = true
	}
	if fs == nil {
		return counts
	}
	for _, set := range []map[string]bool{counts, parents} {
		for dir := range set {
			info, err := os.Stat(dir)
			if err != nil || !info.IsDir() {
				continue
			}
			if err := fs.Add(dir); err != nil {
				w.log.Debug("watching a folder", "dir", dir, "error", err)
			}
		}
	}
	return counts
}

// fingerprint is a hash over the names and contents of all files.
func fingerprint(o load.Options) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, file := range load.Files(o) {
		content := sha256.New()
		err := copyFile(content, file)
		fmt.Fprintf(h, "%q %v %x\n", file, err, content.Sum(nil))
	}
	// A missing folder is not an empty one.
	for _, dir := range o.Dirs {
		_, err := os.Stat(dir)
		fmt.Fprintf(h, "%q %t\n", dir, err == nil)
	}
	h.Sum(sum[:0])
	return sum
}

func copyFile(dst io.Writer, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // a pipe would keep us waiting
		return errors.New("not a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(dst, io.LimitReader(f, strict.MaxSize+1))
	return err
}
