// Package outbox carries out tool calls that a Brain asks for with files.
//
// A Brain writes a request into kernel/outbox/pending/ under the name
// call_{id}.json (under another name first, then renamed):
//
//	{"name":"mcp__weather__get_weather", "arguments":{"city":"Oslo"}, "timeout_ms":30000}
//
// with the members of [Request], and finds the answer in its inbox: the event tool.completed or tool.failed
// whose header.correlation_id is the id, with the whole result in payload.data.
//
//	pending ─▶ processing ─▶ done     when the answer is durable
//	   │  └──▶ waiting ──┘            with "wait", until something comes of it
//	   └─────▶ failed                 what is no request, with the reason beside it
//
// A file that cannot be read just now, as with too many open files or the wrong
// permissions, stays where it is and is tried again, at last once a minute or when it
// changes.
//
// The file is in processing/ before anything is sent. One that is there when the
// platform starts is answered with the outcome unknown: it may have run. One that
// was in waiting/ goes on to wait: nothing had been sent. So a request never runs
// twice; finished ones are remembered for seven days. The answer's message id
// follows from the request's id, so the answer is one event, too.
//
// Where a server wants to know something in the middle of a call, the event
// tool.input_required has its questions, and the file answer_{id}.json in pending/
// answers them, whichever way the call came in: see [Answer].
package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// The folders of an outbox.
const (
	Pending    = "pending"
	Waiting    = "waiting"
	Processing = "processing"
	Done       = "done"
	Failed     = "failed"
)

const (
	maxAtOnce  = 16                 // requests carried out at the same time,
	maxWaiting = 256                // and beside them those that may wait for a person; more stay in pending/
	keep       = 7 * 24 * time.Hour // how long a finished request is remembered, so that it does not run again
	maxFile    = 255                // bytes of a file's name
	maxWait    = 15 * time.Second   // for an answer to become durable before its request is looked at again
)

// Caller carries a call through the gate; *host.Host is one.
type Caller interface {
	Call(ctx context.Context, c host.Call) (*host.Result, error)
}

// Options say how an Outbox works. Dir, Caller and Sink are required.
type Options struct {
	Dir    string // the folder of folders
	Caller Caller
	Sink   signal.Sink
	Logger *slog.Logger // nil discards
	// Ready returns once a tool can be called, or is not to be waited for, or ctx
	// has ended: requests may be older than the platform. nil waits for none.
	Ready func(ctx context.Context, tool string)
	// Answer answers a call that waits; see [host.Host.AnswerInput]. nil refuses.
	Answer func(callID string, r ask.Replies, actor string) error

	// rescan is how often the folder is looked at, as notifications of the file
	// system are only hints; 0 means 2 s. Tests look more often.
	rescan time.Duration
	// looked is called after a look for a request in a folder; tests move files then.
	looked func(folder string)
}

// Outbox watches one outbox folder. Make it with New and let one goroutine call
// Run.
type Outbox struct {
	o       Options
	slots   chan struct{}
	waiting chan struct{}
	freed   chan struct{} // capacity 1: there is a slot for what was left
	starved atomic.Bool   // something was left in pending/ for want of a slot
	busy    sync.WaitGroup

	mu     sync.Mutex
	active map[string]bool   // names of files that are being carried out
	paused map[string]*pause // by path: files that are left alone for a while
}

// New makes the folders that are missing.
func New(o Options) (*Outbox, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ready == nil {
		o.Ready = func(context.Context, string) {}
	}
	o.rescan = cmp.Or(o.rescan, 2*time.Second)
	if o.looked == nil {
		o.looked = func(string) {}
	}
	for _, dir := range []string{Pending, Waiting, Processing, Done, Failed} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("making the outbox: %w", err)
		}
	}
	return &Outbox{
		o: o, freed: make(chan struct{}, 1), slots: make(chan struct{}, maxAtOnce), waiting: make(chan struct{}, maxWaiting),
		active: make(map[string]bool), paused: make(map[string]*pause),
	}, nil
}

// Run answers what an earlier run left under way and goes on with what waited,
// then carries out requests until ctx ends and those under way are over. Calls
// under way end with ctx; what waits for a person does so again in the next run.
func (x *Outbox) Run(ctx context.Context) {
	defer x.busy.Wait()
	left := x.leftovers(ctx)
	x.prune(time.Now())
	var events chan fsnotify.Event
	if w, err := fsnotify.NewWatcher(); err != nil {
		x.o.Logger.Warn("the outbox is only looked at from time to time", "every", x.o.rescan, "error", err)
	} else {
		defer w.Close()
		if err := w.Add(filepath.Join(x.o.Dir, Pending)); err != nil {
			x.o.Logger.Warn("the outbox is only looked at from time to time", "every", x.o.rescan, "error", err)
		}
		events = w.Events
	}
	tick := time.NewTicker(x.o.rescan)
	defer tick.Stop()
	old := time.NewTicker(time.Hour)
	defer old.Stop()
	for {
		if x.recover(left) {
			x.scan(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-tick.C:
		case <-x.freed:
		case now := <-old.C:
			x.prune(now)
		}
	}
}

var fileForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^call_([A-Za-z0-9][A-Za-z0-9._-]{0,127})\.json$`)
})

// scan claims every request in pending/ and starts it.
func (x *Outbox) scan(ctx context.Context) {
	entries, err := os.ReadDir(filepath.Join(x.o.Dir, Pending))
	if err != nil {
		x.o.Logger.Error("reading the outbox failed", "error", err)
		return
	}
	x.forget(entries)
	for _, e := range entries {
		if !x.due(Pending, e.Name()) {
			continue
		}
		m := fileForm().FindStringSubmatch(e.Name())
		if a := answerForm().FindStringSubmatch(e.Name()); a != nil {
			x.answer(e.Name(), a[1])
			continue
		}
		if m == nil {
			if filepath.Ext(e.Name()) == ".json" && e.Name()[0] != '.' {
				x.refuse(Pending, e.Name(), "the file's name is not call_{id}.json or answer_{id}.json with an id of letters, digits and . _ -")
			}
			continue
		}
		if !x.begin(e.Name()) {
			continue // seen by an earlier scan
		}
		select {
		case x.slots <- struct{}{}:
		default: // not waited for here: a call under way may wait for an answer that comes by file
			x.end(e.Name())
			x.starved.Store(true)
			return
		}
		x.busy.Go(func() {
			defer x.free()
			defer x.end(e.Name())
			x.take(ctx, e.Name(), m[1])
		})
	}
}

// free has the outbox looked at again where that can help.
func (x *Outbox) free() {
	if !x.starved.Swap(false) {
		return
	}
	select {
	case x.freed <- struct{}{}:
	default:
	}
}

// begin reports whether nobody carries out the request yet.
func (x *Outbox) begin(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.active[name] {
		return false
	}
	x.active[name] = true
	return true
}

func (x *Outbox) end(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.active, name)
}

// take claims one request and carries it out. It gives back a slot.
func (x *Outbox) take(ctx context.Context, name, id string) {
	slot := x.slots
	defer func() { <-slot }()
	for _, folder := range []string{Waiting, Processing, Done} { // in the order in which a request moves, so that none is missed
		_, err := os.Lstat(x.path(folder, name))
		x.o.looked(folder)
		switch {
		case err == nil:
			x.refuse(Pending, name, "there was a request with this id before; it is in "+folder+"/")
			return
		case !errors.Is(err, fs.ErrNotExist):
			x.later(Pending, name, err)
			return
		}
	}
	req, err := readRequest(x.path(Pending, name), id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return // done between the scan's listing and now, or taken back
	case errors.Is(err, strict.ErrShort) && x.young(name):
		return // written under its last name; the next look may find it whole
	case errors.Is(err, errLater):
		x.later(Pending, name, err)
		return
	case err != nil:
		x.refuse(Pending, name, err.Error())
		return
	}
	claimed := Processing
	if req.Wait { // who waits for a person is in nobody's way
		select {
		case x.waiting <- struct{}{}:
		default:
			x.hold(name)
			return
		}
		claimed = Waiting
		<-slot
		x.free()
		slot = x.waiting
	}
	if x.o.Ready(ctx, req.Name); ctx.Err() != nil {
		return
	}
	switch err := x.claim(name, claimed); {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		x.later(Pending, name, fmt.Errorf("claiming it: %w", err))
		return
	}
	x.carry(ctx, name, id, req)
}

// young reports whether a request was written to just now.
func (x *Outbox) young(name string) bool {
	info, err := os.Lstat(x.path(Pending, name))
	return err == nil && time.Since(info.ModTime()) < x.o.rescan
}

// carry makes the call of a request that is claimed, and finishes it.
func (x *Outbox) carry(ctx context.Context, name, id string, req *Request) {
	recorded := make(chan struct{})
	call, settled := req.call(id), !req.Wait
	call.Answer = &host.Answer{ID: answerID(id), Recorded: func() { close(recorded) }}
	if req.Wait {
		call.Answer.Settle = func() error {
			settled = true
			return x.move(Waiting, Processing, name)
		}
	}
	_, err := x.o.Caller.Call(ctx, call)
	if err != nil {
		x.o.Logger.Debug("a request failed", "request", id, "error", err)
	}
	if settled {
		x.finish(name, recorded)
	}
}

// finish moves a request to done/ once its answer is durable. When that takes
// too long, the file stays in processing/ and the next start answers again
// under the same id.
func (x *Outbox) finish(name string, recorded <-chan struct{}) {
	select {
	case <-recorded:
	case <-time.After(maxWait):
		x.o.Logger.Warn("an answer is not durable yet", "request", name)
		return
	}
	if err := x.move(Processing, Done, name); err != nil {
		x.o.Logger.Error("finishing a request failed", "request", name, "error", err)
	}
}

func (x *Outbox) path(folder, name string) string { return filepath.Join(x.o.Dir, folder, name) }

// answerID is the message id of the answer to a request.
func answerID(id string) string { return amp.Remint("aurora.platform/outbox", id) }

// refuse moves a file to failed/, writes the reason beside it and announces it.
func (x *Outbox) refuse(from, name, reason string) {
	if _, err := os.Lstat(x.path(from, name)); errors.Is(err, fs.ErrNotExist) {
		return // carried out between a listing and now, or taken back
	}
	x.o.Logger.Warn("a request was refused", "file", redact.Show(name), "reason", reason)
	kept := name
	err := x.move(from, Failed, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // such as a folder, where one is already
		kept += "." + ulid.Make().String()
		err = os.Rename(x.path(from, name), x.path(Failed, kept))
	}
	if err != nil {
		x.o.Logger.Error("putting a refused request aside failed", "file", redact.Show(name), "error", err)
		return
	}
	if err := writeReason(x.path(Failed, kept[:min(len(kept), maxFile-len(".reason"))]+".reason"), reason); err != nil {
		x.o.Logger.Error("writing the reason of a refusal failed", "file", redact.Show(name), "error", err)
	}
	x.announce("request_refused", name, "was refused", reason)
}

// announce tells what became of a file, and why.
func (x *Outbox) announce(code, name, became, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	id := ""
	if m := fileForm().FindStringSubmatch(name); m != nil {
		id = m[1]
	}
	err := x.o.Sink.Observe(ctx, signal.Signal{
		Kind: signal.Problem, Time: time.Now(), CallID: id, Summary: "the request " + redact.Show(name) + " " + became + ": " + why,
		Data: &signal.Fault{Code: code, Detail: why, Sample: redact.Show(name)},
	})
	if err != nil {
		x.o.Logger.Error("announcing what became of a request failed", "file", redact.Show(name), "error", err)
	}
}

// writeReason writes a new file in place of any that is there, and through no link.
func writeReason(path, reason string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(reason + "\n")
	return errors.Join(err, f.Close())
}

// claim moves a request to another folder, durably and never over another one. A
// crash between its steps leaves the request in both folders: its second name is
// refused then. Where it fails the request is where it was.
func (x *Outbox) claim(name, folder string) error {
	if err := x.into(folder, func() error { return os.Link(x.path(Pending, name), x.path(folder, name)) }); err != nil {
		return err
	}
	err := durable.SyncDir(filepath.Join(x.o.Dir, folder))
	if err == nil {
		err = os.Remove(x.path(Pending, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(x.path(folder, name)))
	}
	if err := durable.SyncDir(filepath.Join(x.o.Dir, Pending)); err != nil {
		x.o.Logger.Warn("a request may come back after power loss, and be refused then", "file", name, "error", err)
	}
	return nil
}

// into does step, which gives a file a name in folder. Where the folder was removed,
// it is made anew and step is done again.
func (x *Outbox) into(folder string, step func() error) error {
	err := step()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if made := os.Mkdir(x.path(folder, ""), 0o700); made != nil {
		return err // the folder is there: the file is gone
	}
	x.o.Logger.Warn("a folder of the outbox was removed and is made anew", "folder", folder)
	if err := durable.SyncDir(x.o.Dir); err != nil {
		return err
	}
	return step()
}

// prune forgets finished requests that are older than keep.
func (x *Outbox) prune(now time.Time) {
	for _, dir := range []string{Done, Failed} {
		entries, err := os.ReadDir(filepath.Join(x.o.Dir, dir))
		if err != nil {
			x.o.Logger.Error("reading the outbox failed", "error", err)
			continue
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || now.Sub(lastMoved(info)) < keep {
				continue
			}
			if err := os.RemoveAll(x.path(dir, e.Name())); err != nil {
				x.o.Logger.Error("forgetting an old request failed", "file", e.Name(), "error", err)
			}
		}
	}
}

// lastMoved is when a file came to where it is, or later: its time of modification is
// the Brain's, which may have copied an old file with its times.
func lastMoved(info fs.FileInfo) time.Time {
	at := info.ModTime()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if changed := time.Unix(st.Ctim.Unix()); changed.After(at) {
			return changed
		}
	}
	return at
}

// move renames a file between folders, durably.
func (x *Outbox) move(from, to, name string) error {
	src, dst := filepath.Join(x.o.Dir, from), filepath.Join(x.o.Dir, to)
	if err := x.into(to, func() error { return os.Rename(filepath.Join(src, name), filepath.Join(dst, name)) }); err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(dst), durable.SyncDir(src))
}
