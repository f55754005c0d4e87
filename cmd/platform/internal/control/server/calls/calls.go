// Package calls keeps the calls that were asked for over the local API: those under
// way, and for a while the finished asynchronous ones. How a call is made is the
// [Caller]'s matter. For example:
//
//	r := calls.New(backend, log, calls.Limits{Running: 512, Kept: 1000, KeptBytes: 64 << 20, Keep: 10 * time.Minute})
//	ctx, c, err := r.Begin(ctx, request)
//	r.Run(ctx, c)
//	res, err := c.Result()
package calls

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Limits bound what a registry holds.
type Limits struct {
	Running   int           // calls that run; the next one is refused as busy
	Kept      int           // finished asynchronous calls that can be asked for,
	KeptBytes int           // their results together, though the last one is kept in any case,
	Keep      time.Duration // and for how long
}

// Caller makes calls.
type Caller interface {
	Call(context.Context, control.CallRequest) (*control.CallResponse, error)
}

// Registry are the calls under way, and the finished ones that somebody may ask for.
type Registry struct {
	b   Caller
	log *slog.Logger
	lim Limits
	now func() time.Time

	mu       sync.Mutex
	closed   bool
	running  int
	byID     map[string]*Call
	finished []*Call // the oldest first
	bytes    int     // of the results in finished
}

// Call is a call in the registry.
type Call struct {
	req    control.CallRequest
	cancel context.CancelCauseFunc // with what the call ends with, a [fault.Error]
	start  time.Time
	done   chan struct{}

	progress atomic.Pointer[json.RawMessage]
	// What follows is set before done is closed.
	end time.Time
	res *control.CallResponse
	err error
}

// New is an empty registry, whose calls b makes. The registry tells the log of
// defects there.
func New(b Caller, log *slog.Logger, lim Limits) *Registry {
	return &Registry{b: b, log: log, lim: lim, now: time.Now, byID: make(map[string]*Call)}
}

// Begin makes an entry for a call, or says why there can be none.
func (c *Registry) Begin(ctx context.Context, r control.CallRequest) (context.Context, *Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	switch {
	case c.closed:
		return nil, nil, httpjson.Refuse(http.StatusServiceUnavailable, control.ShuttingDown, "the platform is shutting down")
	case c.byID[r.ID] != nil:
		return nil, nil, httpjson.Refuse(http.StatusConflict, control.CallIDInUse, "there is a call with the id %q already", r.ID)
	case c.running >= c.lim.Running:
		return nil, nil, fault.New(fault.Busy, "%d calls are running already", c.lim.Running).Retry()
	}
	e := &Call{req: r, start: c.now(), done: make(chan struct{})}
	ctx, e.cancel = context.WithCancelCause(ctx)
	c.byID[r.ID] = e
	c.running++
	return ctx, e, nil
}

// Run makes the call. A synchronous one is forgotten at once.
func (c *Registry) Run(ctx context.Context, e *Call) {
	defer e.cancel(nil)
	e.res, e.err = c.carry(ctx, e)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.end, e.req.Arguments = c.now(), nil
	c.running--
	if e.req.Async {
		c.finished = append(c.finished, e)
		c.bytes += e.size()
		c.forget()
	} else {
		delete(c.byID, e.req.ID)
	}
	close(e.done)
}

// carry makes the call. A defect there fails this call alone.
func (c *Registry) carry(ctx context.Context, e *Call) (res *control.CallResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("a call met a defect", "call", e.req.ID, "tool", e.req.Name, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, fault.New(fault.Internal, "%s", httpjson.Defect.Message).Unknown()
		}
	}()
	r := e.req
	r.Progress = func(params json.RawMessage) { e.progress.Store(&params) }
	return c.b.Call(ctx, r)
}

// States are all calls, the oldest first.
func (c *Registry) States() []control.CallState {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	out := make([]control.CallState, 0, len(c.byID))
	for _, e := range c.byID {
		out = append(out, e.State())
	}
	slices.SortFunc(out, func(a, b control.CallState) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.CallID, b.CallID))
	})
	return out
}

// forget drops finished calls that are too many, too large together or too old.
func (c *Registry) forget() {
	for len(c.finished) > 0 {
		e := c.finished[0]
		if len(c.finished) <= c.lim.Kept && (c.bytes <= c.lim.KeptBytes || len(c.finished) == 1) && c.now().Sub(e.end) <= c.lim.Keep {
			return
		}
		delete(c.byID, e.req.ID)
		c.bytes -= e.size()
		c.finished[0] = nil
		c.finished = c.finished[1:]
	}
}

// Find returns a call by its id.
func (c *Registry) Find(id string) (*Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	if e := c.byID[id]; e != nil {
		return e, nil
	}
	return nil, httpjson.Refuse(http.StatusNotFound, control.CallNotFound, "there is no call with the id %q; finished asynchronous ones are kept for %s", id, c.lim.Keep)
}

// Close cancels all calls and refuses new ones.
func (c *Registry) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, e := range c.byID {
		e.cancel(fault.New(fault.Interrupted, "the platform shut down while %s was called", e.req.Name))
	}
}

// Done is closed when the call has ended.
func (e *Call) Done() <-chan struct{} { return e.done }

// Cancel ends the call with a failure, unless it has ended.
func (e *Call) Cancel(f *fault.Error) { e.cancel(f) }

// Result is what came of the call, once it has ended.
func (e *Call) Result() (*control.CallResponse, error) { return e.res, e.err }

// size is about what a finished call holds, in bytes.
func (e *Call) size() int {
	n := 512 + len(e.req.Name)
	if e.res != nil {
		n += len(e.res.Result)
	}
	return n
}

// State is the call as it stands.
func (e *Call) State() control.CallState {
	s := control.CallState{CallID: e.req.ID, State: "running", Name: e.req.Name, StartedAt: e.start}
	select {
	case <-e.done:
	default:
		if p := e.progress.Load(); p != nil {
			s.Progress = *p
		}
		return s
	}
	if e.err != nil {
		p := httpjson.Problem(e.err)
		s.State, s.Problem = "failed", &p
		return s
	}
	s.State, s.Response = "completed", e.res
	return s
}
