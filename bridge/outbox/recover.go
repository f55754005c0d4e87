package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
)

// leftover is what an earlier run left in a folder.
type leftover struct {
	folder string
	names  []string // still to be done; nil before the folder was read
	do     func(name, id string, req *Request)
}

// leftovers are the requests that were under way when the platform ended, which
// are answered, and those that waited for a person, which go on.
func (x *Outbox) leftovers(ctx context.Context) []*leftover {
	answer := func(name, id string, req *Request) {
		f := fault.New(fault.Interrupted, "the platform ended while %s was called; whether it ran is not known", req.Name).Unknown()
		recorded := make(chan struct{})
		err := x.o.Sink.Observe(ctx, signal.Signal{
			Kind: signal.ToolFailed, Time: time.Now(), CallID: id, ID: answerID(id), Summary: f.Message,
			Data: &signal.Step{
				CallID: id, Tool: req.Name, Entrance: "outbox",
				ErrorCode: f.Code, Reason: f.Message, Outcome: string(f.Outcome),
			},
			Ack: func(signal.Ack) { close(recorded) },
		})
		if err != nil {
			x.o.Logger.Error("answering an interrupted request failed", "request", id, "error", err)
			return
		}
		x.busy.Go(func() { x.finish(name, recorded) })
	}
	goOn := func(name, id string, req *Request) {
		if !x.begin(name) {
			return
		}
		x.busy.Go(func() {
			defer x.end(name)
			select {
			case x.waiting <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-x.waiting }()
			if x.o.Ready(ctx, req.Name); ctx.Err() == nil {
				req.Wait = true // as it was when it came here
				x.carry(ctx, name, id, req)
			}
		})
	}
	return []*leftover{{folder: Processing, do: answer}, {folder: Waiting, do: goOn}}
}

// recover does what is left of an earlier run, as far as it can be read just now,
// and reports whether it is known what there is: only then may there be more.
func (x *Outbox) recover(left []*leftover) bool {
	for _, l := range left {
		if l.names == nil {
			entries, err := os.ReadDir(filepath.Join(x.o.Dir, l.folder))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // a folder that was removed has nothing
				x.o.Logger.Error("reading the outbox failed", "error", err)
				return false
			}
			l.names = make([]string, 0, len(entries))
			for _, e := range entries {
				if fileForm().MatchString(e.Name()) {
					l.names = append(l.names, e.Name())
				}
			}
		}
		l.names = slices.DeleteFunc(l.names, func(name string) bool { return x.due(l.folder, name) && x.resume(l, name) })
	}
	return true
}

// resume does one request that was left, and reports whether it is not left any more.
func (x *Outbox) resume(l *leftover, name string) bool {
	id := fileForm().FindStringSubmatch(name)[1]
	req, err := readRequest(x.path(l.folder, name), id)
	switch {
	case errors.Is(err, errLater):
		x.later(l.folder, name, err)
		return false
	case err == nil:
		l.do(name, id, req)
	case !errors.Is(err, fs.ErrNotExist):
		x.refuse(l.folder, name, err.Error())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.paused, x.path(l.folder, name))
	return true
}

// errLater is wrapped where a file cannot be read for a reason that may pass, such as
// too many open files or permissions that somebody sets right.
var errLater = errors.New("it cannot be read just now")

// readFile reads a file of the Brain's. Neither a link nor a pipe is followed or
// waited for.
func readFile(path string, limit int64) ([]byte, error) {
	data, err := smallfile.Read(path, limit, smallfile.NoLink)
	var at *fs.PathError
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return data, err
	case errors.As(err, &at):
		err = at.Err // where it is says its name
	}
	if !errors.Is(err, smallfile.ErrNotRegular) && !errors.Is(err, smallfile.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", errLater, err)
	}
	return nil, err
}

// maxPause is how long a file is left alone that cannot be read again and again.
const maxPause = time.Minute

// pause is what is known of a file that could not be read.
type pause struct {
	next  time.Time     // when it is tried again
	delay time.Duration // until then
	stamp time.Time     // of the file; a change ends the pause
}

// due reports whether a file is to be looked at now.
func (x *Outbox) due(folder, name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.paused[x.path(folder, name)]
	return p == nil || !time.Now().Before(p.next) || !p.stamp.Equal(x.stamp(folder, name))
}

// stamp is when a file last changed, in any way that is seen.
func (x *Outbox) stamp(folder, name string) time.Time {
	info, err := os.Lstat(x.path(folder, name))
	if err != nil {
		return time.Time{}
	}
	return lastMoved(info)
}

// later leaves a file where it is and has it tried again after a pause, twice as long
// each time. When that has failed twice somebody should know.
func (x *Outbox) later(folder, name string, why error) {
	x.mu.Lock()
	p := x.paused[x.path(folder, name)]
	if p == nil {
		p = &pause{delay: x.o.rescan / 2}
		x.paused[x.path(folder, name)] = p
	}
	p.delay = min(2*p.delay, maxPause)
	p.next, p.stamp = time.Now().Add(p.delay), x.stamp(folder, name)
	again := p.delay
	x.mu.Unlock()
	x.o.Logger.Warn("a request is tried again later", "folder", folder, "file", redact.Show(name), "error", why, "after", again)
	if again == 2*x.o.rescan {
		x.announce("request_unreadable", name, "waits", why.Error())
	}
}

// hold leaves a request where it is for a while: as many wait for a person as may.
func (x *Outbox) hold(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.paused[x.path(Pending, name)] = &pause{next: time.Now().Add(x.o.rescan), delay: x.o.rescan / 2, stamp: x.stamp(Pending, name)}
}

// forget drops what is known of files in pending/ that are gone.
func (x *Outbox) forget(entries []fs.DirEntry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.paused) == 0 {
		return
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[x.path(Pending, e.Name())] = true
	}
	for path := range x.paused {
		if filepath.Dir(path) == filepath.Join(x.o.Dir, Pending) && !there[path] {
			delete(x.paused, path)
		}
	}
}
