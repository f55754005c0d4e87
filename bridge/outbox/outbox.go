// Package outbox carries out tool calls that a Brain asks for with files.
//
// A Brain writes a request into kernel/outbox/pending/ under the name
// call_{id}.json (under another name first, then renamed):
//
//	{"name":"mcp__weather__get_weather", "arguments":{"city":"Oslo"}, "timeout_ms":30000}
//
// and finds the answer in its inbox: the event tool.completed or tool.failed
// whose header.correlation_id is the id, with the whole result in payload.data.
// The request's file goes from pending/ to processing/ before anything is sent,
// and to done/ when the answer is durable; what is no request goes to failed/
// with the reason beside it.
//
// A request never runs twice; finished ones are remembered for seven days. One that was in processing/ when the platform
// died is answered with the outcome unknown: it may have run. The answer's
// message id follows from the request's id, so the answer is one event, too.
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// The folders of an outbox.
const (
	Pending    = "pending"
	Processing = "processing"
	Done       = "done"
	Failed     = "failed"
)

const (
	maxRequest = 16 << 20           // bytes of a request
	maxAtOnce  = 16                 // requests carried out at the same time
	rescan     = 2 * time.Second    // file system notifications are only hints
	keep       = 7 * 24 * time.Hour // how long a finished request is remembered, so that it does not run again
	maxWait    = 15 * time.Second   // for an answer to become durable before its request is looked at again
)

// Request is the content of a request's file.
type Request struct {
	ID        string          `json:"id,omitempty"` // as in the file's name, where it is given
	Name      string          `json:"name"`         // of the tool, in any full form
	Arguments json.RawMessage `json:"arguments,omitempty"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"`
}

// Caller carries a call through the gate; *host.Host is one.
type Caller interface {
	Call(ctx context.Context, c host.Call) (*host.Result, error)
}

// Options say how an Outbox works. All but Logger are required.
type Options struct {
	Dir    string // the folder of folders
	Caller Caller
	Sink   signal.Sink
	Logger *slog.Logger // nil discards
}

// Outbox watches one outbox folder. Make it with New and let one goroutine call
// Run.
type Outbox struct {
	o     Options
	slots chan struct{}
	busy  sync.WaitGroup

	mu     sync.Mutex
	active map[string]bool // names of files that are being carried out
}

// New makes the folders that are missing.
func New(o Options) (*Outbox, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, dir := range []string{Pending, Processing, Done, Failed} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("making the outbox: %w", err)
		}
	}
	return &Outbox{o: o, slots: make(chan struct{}, maxAtOnce), active: make(map[string]bool)}, nil
}

// Run answers what an earlier run left, then carries out requests until ctx
// ends and those under way are over. Calls under way end with ctx.
func (x *Outbox) Run(ctx context.Context) {
	defer x.busy.Wait()
	x.recover(ctx)
	x.prune(time.Now())
	var events chan fsnotify.Event
	if w, err := fsnotify.NewWatcher(); err != nil {
		x.o.Logger.Warn("the outbox is only looked at from time to time", "every", rescan, "error", err)
	} else {
		defer w.Close()
		if err := w.Add(filepath.Join(x.o.Dir, Pending)); err != nil {
			x.o.Logger.Warn("the outbox is only looked at from time to time", "every", rescan, "error", err)
		}
		events = w.Events
	}
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	old := time.NewTicker(time.Hour)
	defer old.Stop()
	for {
		x.scan(ctx)
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-tick.C:
		case now := <-old.C:
			x.prune(now)
		}
	}
}

var fileForm = regexp.MustCompile(`^call_([A-Za-z0-9][A-Za-z0-9._-]{0,127})\.json$`)

// scan claims every request in pending/ and starts it.
func (x *Outbox) scan(ctx context.Context) {
	entries, err := os.ReadDir(filepath.Join(x.o.Dir, Pending))
	if err != nil {
		x.o.Logger.Error("reading the outbox failed", "error", err)
		return
	}
	for _, e := range entries {
		m := fileForm.FindStringSubmatch(e.Name())
		if m == nil {
			if filepath.Ext(e.Name()) == ".json" && e.Name()[0] != '.' {
				x.refuse(Pending, e.Name(), "the file's name is not call_{id}.json with an id of letters, digits and . _ -")
			}
			continue
		}
		if !x.begin(e.Name()) {
			continue // seen by an earlier scan
		}
		select {
		case x.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		x.busy.Go(func() {
			defer func() { <-x.slots }()
			defer x.end(e.Name())
			x.carry(ctx, e.Name(), m[1])
		})
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

// carry takes one request through claim, call and answer.
func (x *Outbox) carry(ctx context.Context, name, id string) {
	// An id that was answered before is never run again, also when its file
	// comes back: done/ and failed/ remember.
	if _, err := os.Lstat(filepath.Join(x.o.Dir, Done, name)); err == nil {
		x.refuse(Pending, name, "a request with this id was answered before")
		return
	}
	switch err := x.claim(name); {
	case errors.Is(err, fs.ErrNotExist):
		return // done between the scan's listing and now, or taken back
	case errors.Is(err, fs.ErrExist):
		x.refuse(Pending, name, "a request with this id waits for its answer to be recorded")
		return
	case err != nil:
		x.o.Logger.Error("claiming a request failed", "request", id, "error", err)
		return
	}
	req, err := x.read(name, id)
	if err != nil {
		x.refuse(Processing, name, err.Error())
		return
	}
	recorded := make(chan struct{})
	_, err = x.o.Caller.Call(ctx, host.Call{
		ID: id, Name: req.Name, Arguments: req.Arguments, Entrance: "outbox",
		Timeout: time.Duration(req.TimeoutMS) * time.Millisecond,
		Answer:  &host.Answer{ID: answerID(id), Recorded: func() { close(recorded) }},
	})
	if err != nil {
		x.o.Logger.Debug("a request failed", "request", id, "error", err)
	}
	x.finish(name, recorded)
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

// recover answers requests that were under way when the platform ended.
func (x *Outbox) recover(ctx context.Context) {
	entries, err := os.ReadDir(filepath.Join(x.o.Dir, Processing))
	if err != nil {
		x.o.Logger.Error("reading the outbox failed", "error", err)
		return
	}
	for _, e := range entries {
		m := fileForm.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		req, err := x.read(e.Name(), m[1])
		if err != nil {
			x.refuse(Processing, e.Name(), err.Error())
			continue
		}
		f := fault.New(fault.Interrupted, "the platform ended while %s was called; whether it ran is not known", req.Name).Unknown()
		recorded := make(chan struct{})
		err = x.o.Sink.Observe(ctx, signal.Signal{
			Kind: signal.ToolFailed, Time: time.Now(), CallID: m[1], ID: answerID(m[1]), Summary: f.Message,
			Data: &signal.Step{
				CallID: m[1], Tool: req.Name, Entrance: "outbox",
				ErrorCode: f.Code, Reason: f.Message, Outcome: string(f.Outcome),
			},
			Ack: func(signal.Ack) { close(recorded) },
		})
		if err != nil {
			x.o.Logger.Error("answering an interrupted request failed", "request", m[1], "error", err)
			continue
		}
		x.busy.Go(func() { x.finish(e.Name(), recorded) })
	}
}

// answerID is the message id of the answer to a request.
func answerID(id string) string { return amp.Remint("aurora.platform/outbox", id) }

// read reads and checks a claimed request.
func (x *Outbox) read(name, id string) (*Request, error) {
	path := filepath.Join(x.o.Dir, Processing, name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	if info.Size() > maxRequest {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", info.Size(), maxRequest)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, maxRequest))
	dec.DisallowUnknownFields()
	var req Request
	if err := dec.Decode(&req); err != nil {
		return nil, fmt.Errorf("it is no request: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is no request: there is more than one JSON value")
	}
	switch {
	case req.Name == "":
		return nil, errors.New(`"name" is missing`)
	case req.ID != "" && req.ID != id:
		return nil, fmt.Errorf(`"id" is %q, the file's name says %q`, req.ID, id)
	case req.TimeoutMS < 0:
		return nil, errors.New(`"timeout_ms" is negative`)
	}
	return &req, nil
}

// refuse moves a file to failed/, writes the reason beside it and announces it.
func (x *Outbox) refuse(from, name, reason string) {
	x.o.Logger.Warn("a request was refused", "file", name, "reason", reason)
	if err := os.WriteFile(filepath.Join(x.o.Dir, Failed, name+".reason"), []byte(reason+"\n"), 0o600); err != nil {
		x.o.Logger.Error("writing the reason of a refusal failed", "file", name, "error", err)
	}
	if err := x.move(from, Failed, name); err != nil {
		x.o.Logger.Error("putting a refused request aside failed", "file", name, "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	id := ""
	if m := fileForm.FindStringSubmatch(name); m != nil {
		id = m[1]
	}
	err := x.o.Sink.Observe(ctx, signal.Signal{
		Kind: signal.Problem, Time: time.Now(), CallID: id, Summary: "the request " + name + " was refused: " + reason,
		Data: &signal.Fault{Code: "request_refused", Detail: reason, Sample: name},
	})
	if err != nil {
		x.o.Logger.Error("announcing a refused request failed", "file", name, "error", err)
	}
}

// claim moves a request to processing/, durably and never over another one. A
// crash between its steps leaves the request in both folders: it is then
// answered as interrupted, and its second name refused.
func (x *Outbox) claim(name string) error {
	src, dst := filepath.Join(x.o.Dir, Pending), filepath.Join(x.o.Dir, Processing)
	if err := os.Link(filepath.Join(src, name), filepath.Join(dst, name)); err != nil {
		return err
	}
	if err := errors.Join(journal.SyncDir(dst), os.Remove(filepath.Join(src, name))); err != nil {
		return err
	}
	return journal.SyncDir(src)
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
			if err != nil || now.Sub(info.ModTime()) < keep {
				continue
			}
			if err := os.Remove(filepath.Join(x.o.Dir, dir, e.Name())); err != nil {
				x.o.Logger.Error("forgetting an old request failed", "file", e.Name(), "error", err)
			}
		}
	}
}

// move renames a file between folders, durably.
func (x *Outbox) move(from, to, name string) error {
	src, dst := filepath.Join(x.o.Dir, from), filepath.Join(x.o.Dir, to)
	if err := os.Rename(filepath.Join(src, name), filepath.Join(dst, name)); err != nil {
		return err
	}
	return errors.Join(journal.SyncDir(dst), journal.SyncDir(src))
}
