package server

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

var (
	idForm       = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_~:-][A-Za-z0-9._~:-]{0,127}$`) })
	entranceForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`) })
)

const (
	maxTimeout = 24 * time.Hour
	maxName    = 1024 // bytes of a tool's name, in any form, and of a person's
)

// check says what is wrong with a request for a call, and completes it.
func check(r *control.CallRequest) error {
	switch {
	case r.Name == "":
		return bad("name, the tool to call, is missing")
	case len(r.Name) > maxName:
		return bad("name has at most %d bytes", maxName)
	case r.ID != "" && !idForm().MatchString(r.ID):
		return bad("id has 1 to 128 of A-Z a-z 0-9 . _ ~ : - and begins with no dot")
	case r.Entrance != "" && !entranceForm().MatchString(r.Entrance):
		return bad("entrance has 1 to 32 of a-z 0-9 _ - and begins with a letter")
	case r.TimeoutMS < 0 || r.TimeoutMS > maxTimeout.Milliseconds():
		return bad("timeout_ms is from 0 to %d", maxTimeout.Milliseconds())
	case len(r.ApprovedBy) > maxName:
		return bad("approved_by has at most %d bytes", maxName)
	case r.ApprovedBy != "" && (r.Wait || r.Approval != ""):
		return bad("approved_by is the answer: there is no other to wait for or to use")
	}
	if r.ID == "" {
		r.ID = ulid.Make().String()
	}
	if r.Entrance == "" {
		r.Entrance = "api"
	}
	return nil
}

// call answers POST /v1/calls. A synchronous call ends with its request.
func (a *api) call(w http.ResponseWriter, r *http.Request) {
	var req control.CallRequest
	err := a.decode(w, r, &req)
	if err == nil {
		err = check(&req)
	}
	if err != nil {
		fail(w, err)
		return
	}
	ctx := r.Context()
	req.Trace = trace(r)
	if req.Async {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, e, err := a.calls.begin(ctx, req)
	if err != nil {
		fail(w, err)
		return
	}
	if !req.Async {
		a.calls.run(ctx, e)
		if e.err != nil {
			fail(w, e.err)
			return
		}
		reply(w, e.res)
		return
	}
	a.work.wg.Go(func() { a.calls.run(ctx, e) }) // the request is counted, so nothing waits for zero yet
	w.Header().Set("Location", "/v1/calls/"+req.ID)
	replyStatus(w, http.StatusAccepted, e.state())
}

// callState answers GET /v1/calls/{id}. With wait=true it waits for the end of
// the call or of the API; then the state is still running.
func (a *api) callState(w http.ResponseWriter, r *http.Request) {
	wait, err := flag(r.URL.Query(), "wait")
	if err != nil {
		fail(w, err)
		return
	}
	e, err := a.calls.find(r.PathValue("id"))
	if err != nil {
		if in, ok := a.b.Input(r.PathValue("id")); ok { // it came in another way
			reply(w, waiting(in))
			return
		}
		fail(w, err)
		return
	}
	if wait {
		ctx, end, err := a.streams.begin(r.Context())
		if err != nil {
			fail(w, err)
			return
		}
		defer end()
		select {
		case <-e.done:
		case <-ctx.Done():
		}
	}
	s := e.state()
	a.addInput(&s)
	reply(w, s)
}

// cancelCall answers DELETE /v1/calls/{id}: unless the call was over, its server
// is told and it ends as cancelled.
func (a *api) cancelCall(w http.ResponseWriter, r *http.Request) {
	e, err := a.calls.find(r.PathValue("id"))
	if err != nil {
		fail(w, err)
		return
	}
	e.cancel(fault.New(fault.Cancelled, "the call was cancelled"))
	select {
	case <-e.done:
	case <-r.Context().Done():
	}
	reply(w, e.state())
}

// calls are the calls under way, and the finished ones that somebody may ask for.
type calls struct {
	b   Backend
	log *slog.Logger
	lim limits
	now func() time.Time

	mu       sync.Mutex
	closed   bool
	running  int
	byID     map[string]*entry
	finished []*entry // the oldest first
	bytes    int      // of the results in finished
}

type entry struct {
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

func newCalls(b Backend, log *slog.Logger, lim limits) *calls {
	return &calls{b: b, log: log, lim: lim, now: time.Now, byID: make(map[string]*entry)}
}

// begin makes an entry for a call, or says why there can be none.
func (c *calls) begin(ctx context.Context, r control.CallRequest) (context.Context, *entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	switch {
	case c.closed:
		return nil, nil, refuse(http.StatusServiceUnavailable, control.ShuttingDown, "the platform is shutting down")
	case c.byID[r.ID] != nil:
		return nil, nil, refuse(http.StatusConflict, control.CallIDInUse, "there is a call with the id %q already", r.ID)
	case c.running >= c.lim.calls:
		return nil, nil, fault.New(fault.Busy, "%d calls are running already", c.lim.calls).Retry()
	}
	e := &entry{req: r, start: c.now(), done: make(chan struct{})}
	ctx, e.cancel = context.WithCancelCause(ctx)
	c.byID[r.ID] = e
	c.running++
	return ctx, e, nil
}

// run makes the call. A synchronous one is forgotten at once.
func (c *calls) run(ctx context.Context, e *entry) {
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

// carry gives the call to the backend. A defect there fails this call alone.
func (c *calls) carry(ctx context.Context, e *entry) (res *control.CallResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("a call met a defect", "call", e.req.ID, "tool", e.req.Name, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, fault.New(fault.Internal, "%s", errDefect.Message).Unknown()
		}
	}()
	r := e.req
	r.Progress = func(params json.RawMessage) { e.progress.Store(&params) }
	return c.b.Call(ctx, r)
}

// states are all calls, the oldest first.
func (c *calls) states() []control.CallState {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	out := make([]control.CallState, 0, len(c.byID))
	for _, e := range c.byID {
		out = append(out, e.state())
	}
	slices.SortFunc(out, func(a, b control.CallState) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.CallID, b.CallID))
	})
	return out
}

// forget drops finished calls that are too many, too large together or too old.
func (c *calls) forget() {
	for len(c.finished) > 0 {
		e := c.finished[0]
		if len(c.finished) <= c.lim.kept && (c.bytes <= c.lim.keptBytes || len(c.finished) == 1) && c.now().Sub(e.end) <= c.lim.keep {
			return
		}
		delete(c.byID, e.req.ID)
		c.bytes -= e.size()
		c.finished[0] = nil
		c.finished = c.finished[1:]
	}
}

func (c *calls) find(id string) (*entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	if e := c.byID[id]; e != nil {
		return e, nil
	}
	return nil, refuse(http.StatusNotFound, control.CallNotFound, "there is no call with the id %q; finished asynchronous ones are kept for %s", id, c.lim.keep)
}

// close cancels all calls and refuses new ones.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, e := range c.byID {
		e.cancel(fault.New(fault.Interrupted, "the platform shut down while %s was called", e.req.Name))
	}
}

// size is about what a finished call holds, in bytes.
func (e *entry) size() int {
	n := 512 + len(e.req.Name)
	if e.res != nil {
		n += len(e.res.Result)
	}
	return n
}

func (e *entry) state() control.CallState {
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
		p := problem(e.err)
		s.State, s.Problem = "failed", &p
		return s
	}
	s.State, s.Response = "completed", e.res
	return s
}
