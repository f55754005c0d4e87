// Package watch turns the file system's notices of new files into hints. They are
// never relied on: whoever uses them looks at the folders itself now and then.
package watch

import (
	"log/slog"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// Watch tells of files that appear in some folders.
type Watch struct {
	Hint   chan struct{} // something happened
	Names  chan string   // of files that appeared; those that find no room are Missed
	Missed chan struct{} // notices were lost

	fs      *fsnotify.Watcher // nil where there is none to be had
	folders []string
	done    chan struct{}
	logger  *slog.Logger
}

// New watches folders until Close.
func New(logger *slog.Logger, folders ...string) *Watch {
	w := &Watch{
		Hint: make(chan struct{}, 1), Names: make(chan string, 1024), Missed: make(chan struct{}, 1),
		folders: folders, done: make(chan struct{}), logger: logger,
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		logger.Info("inbox: no notices from the file system, looking at it regularly", "error", err)
		close(w.done)
		return w
	}
	w.fs = fs
	w.Renew()
	go w.run()
	return w
}

// Renew watches folders that were removed and made again.
func (w *Watch) Renew() {
	if w.fs == nil {
		return
	}
	for _, folder := range w.folders {
		if err := w.fs.Add(folder); err != nil {
			w.logger.Debug("inbox: watching", "folder", folder, "error", err)
		}
	}
}

func (w *Watch) run() {
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
			case w.Names <- filepath.Base(ev.Name):
			default:
				poke(w.Missed)
			}
			poke(w.Hint)
		case err, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			w.logger.Debug("inbox: notices were lost", "error", err) // such as fsnotify.ErrEventOverflow
			poke(w.Missed)
			poke(w.Hint)
		}
	}
}

// Close ends the watch and waits for its goroutine.
func (w *Watch) Close() error {
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
