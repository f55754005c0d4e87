// Package guard stands in front of the local API's handlers: it takes a bounded
// number of connections, lets in who may use the API, bounds how long a client may
// take to send and to read, contains defects, and knows when nothing runs any more.
// What a request asks for is not its matter. For example:
//
//	g := guard.New(handler, guard.Options{Stall: 30 * time.Second, Log: log})
//	err := (&http.Server{Handler: g}).Serve(guard.Limit(listener, 1024))
//	g.Wait()
package guard

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
)

// Options are what a Guard needs to know.
type Options struct {
	Token string        // which every request over TCP must carry; empty refuses all
	Stall time.Duration // for a body to come, and for each write to be taken
	Log   *slog.Logger  // is told of defects
}

// Guard is the handler that every request passes first.
type Guard struct {
	next http.Handler
	o    Options
	work work // requests, and what they have started
}

// New puts a Guard in front of a handler.
func New(next http.Handler, o Options) *Guard { return &Guard{next: next, o: o} }

// Go runs f, which may last longer than the request that starts it. Only a request
// that is being answered may start something: as the request is counted, nothing
// waits for zero yet.
func (g *Guard) Go(f func()) { g.work.wg.Go(f) }

// Wait refuses what comes from now on, and returns when nothing runs any more.
func (g *Guard) Wait() { g.work.wait() }

// ServeHTTP counts a request, bounds it in time, admits it and has it answered. A
// defect on the way ends that request and nothing else.
func (g *Guard) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &answer{ResponseWriter: rw, control: http.NewResponseController(rw), stall: g.o.Stall}
	if !g.work.begin() {
		httpjson.Fail(w, httpjson.Refuse(http.StatusServiceUnavailable, control.ShuttingDown, "the platform is shutting down"))
		return
	}
	defer g.work.end()
	defer g.contain(w, r)
	if r.ContentLength != 0 {
		w.control.SetReadDeadline(time.Now().Add(g.o.Stall))
	}
	if err := g.admit(w, r); err != nil {
		httpjson.Fail(w, err)
		return
	}
	g.next.ServeHTTP(w, r)
}

// contain makes a panic a failed request. Where the answer has begun the
// connection breaks, so that nobody takes a part for the whole.
func (g *Guard) contain(w *answer, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	g.o.Log.Error("a request met a defect", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	httpjson.Fail(w, httpjson.Defect)
}

// answer is a ResponseWriter on which no write lasts longer than stall.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	begun   bool
}

func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *answer) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *answer) Write(b []byte) (int, error) {
	w.begun = true
	w.control.SetWriteDeadline(time.Now().Add(w.stall))
	return w.ResponseWriter.Write(b)
}

// work counts what [Guard.Wait] waits for.
type work struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// begin reports false when nothing may begin any more.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.wg.Add(1)
	}
	return !w.closed
}

func (w *work) end() { w.wg.Done() }

func (w *work) wait() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wg.Wait()
}
