package streamable

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/answer"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// session is a conversation of the older revisions.
type session struct {
	h      *Handler
	id     string
	view   *view.View // of the token that opened it: no other one may use it
	conn   *gateway.Conn
	outlet outlet
	ctx    context.Context // of its calls
	cancel context.CancelFunc

	mu     sync.Mutex
	active int       // requests and streams
	since  time.Time // when the last of them ended
	idle   *time.Timer
	leave  func() // ends the watch of the session's token
}

// open makes a session that nobody can find before it is kept.
func (h *Handler) open(view *view.View, who holder) *session {
	s := &session{h: h, id: rand.Text(), view: view, since: time.Now()}
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	s.conn = h.o.Gateway.Conn(view, &s.outlet)
	s.leave = h.during(who, s.dismiss)
	s.idle = time.AfterFunc(h.o.Limits.Idle, s.expire)
	return s
}

// keep lets the session be found. Where there are too many, an idle one ends for
// it; it reports false where there is none.
func (h *Handler) keep(s *session) bool {
	h.mu.Lock()
	var old *session
	full := len(h.sessions) >= h.o.Limits.Sessions
	if full {
		old = h.spare()
	}
	if h.closed || full && old == nil {
		h.mu.Unlock()
		return false
	}
	if old != nil {
		delete(h.sessions, old.id)
	}
	h.sessions[s.id] = s
	h.mu.Unlock()
	if old != nil {
		old.end()
		h.o.Logger.Debug("a session of the gateway ended for a new one", "client", old.view.Client)
	}
	return true
}

// spare is the session that has been idle for longest among those of the client with
// most idle sessions, so that a client that opens many sessions and drops them loses
// its own. It is nil where all sessions are in use.
func (h *Handler) spare() (oldest *session) {
	idle := map[*view.View]int{}
	first := map[*view.View]*session{}
	begun := map[*view.View]time.Time{}
	for _, s := range h.sessions {
		since, unused := s.unused()
		if !unused {
			continue
		}
		idle[s.view]++
		if first[s.view] == nil || since.Before(begun[s.view]) {
			first[s.view], begun[s.view] = s, since
		}
	}
	for view, s := range first {
		if oldest == nil || idle[view] > idle[oldest.view] {
			oldest = s
		}
	}
	return oldest
}

// unused reports whether nobody uses the session, and since when.
func (s *session) unused() (since time.Time, unused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.active == 0
}

// find is the session that a request names, or nil and the status that says why.
func (h *Handler) find(r *http.Request, view *view.View) (*session, int) {
	id := r.Header.Get(headerSession)
	if id == "" {
		return nil, http.StatusBadRequest
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[id]; s != nil && s.view == view {
		return s, 0
	}
	return nil, http.StatusNotFound
}

// begin counts a request or stream in, until done.
func (s *session) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
	s.idle.Stop()
}

func (s *session) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 {
		s.since = time.Now()
		s.idle.Reset(s.h.o.Limits.Idle)
	}
}

// expire ends a session that nobody used.
func (s *session) expire() {
	if _, unused := s.unused(); unused {
		s.dismiss()
		s.h.o.Logger.Debug("a session of the gateway expired", "client", s.view.Client)
	}
}

// dismiss ends a session that is kept.
func (s *session) dismiss() {
	s.h.mu.Lock()
	delete(s.h.sessions, s.id)
	s.h.mu.Unlock()
	s.end()
}

// end gives up what the session still does.
func (s *session) end() {
	s.mu.Lock()
	s.idle.Stop()
	s.mu.Unlock()
	s.leave()
	s.cancel()
	s.conn.Close()
	s.outlet.set(nil)
}

// session answers a message of a session, or opens one.
func (h *Handler) session(w http.ResponseWriter, r *http.Request, view *view.View, who holder, m *rpc.Message) {
	if m.IsRequest() && m.Name() == "initialize" && r.Header.Get(headerSession) == "" {
		h.initialize(w, r, view, who, m)
		return
	}
	s, status := h.find(r, view)
	if s == nil {
		message := "the session is over, or was never open: initialize"
		if status == http.StatusBadRequest {
			message = "a message needs a session, or the header " + headerVersion + " with " + sessionless
		}
		answer.WriteJSON(w, status, (&rpc.Error{Code: -32600, Message: message}).For(m).Reply())
		return
	}
	s.begin()
	defer s.done()
	if !m.IsRequest() {
		s.conn.Notify(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	// The client may lose the connection and the call goes on (2025-11-25,
	// basic/transports: "disconnection should not be interpreted as cancelling").
	out := h.answer(w, r, nil)
	defer out.Close()
	reply, bad := s.conn.Serve(s.ctx, m, out)
	if bad != nil {
		reply = bad.Reply()
	}
	out.Finish(reply, http.StatusOK)
}

// initialize opens a session.
func (h *Handler) initialize(w http.ResponseWriter, r *http.Request, view *view.View, who holder, m *rpc.Message) {
	s := h.open(view, who)
	reply, bad := s.conn.Serve(s.ctx, m, nil)
	if bad == nil && !h.keep(s) {
		bad = (&rpc.Error{Code: -32000, Message: "there are too many sessions; try again later"}).For(m)
	}
	if bad != nil {
		s.end()
		answer.WriteJSON(w, http.StatusOK, bad.Reply())
		return
	}
	w.Header().Set(headerSession, s.id)
	answer.WriteJSON(w, http.StatusOK, reply)
}

// get opens the stream of a session's notifications. A later stream replaces it.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, view *view.View) {
	if r.Header.Get(headerVersion) >= sessionless {
		w.Header().Set("Allow", "POST")
		http.Error(w, "use subscriptions/listen", http.StatusMethodNotAllowed)
		return
	}
	s, status := h.find(r, view)
	switch {
	case s == nil:
		http.Error(w, "there is no such session", status)
		return
	case !answer.Accepts(r, "text/event-stream"):
		http.Error(w, "a stream is text/event-stream", http.StatusNotAcceptable)
		return
	}
	s.begin()
	defer s.done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	out := h.answer(w, r, cancel)
	defer out.Close()
	out.Open()
	s.outlet.set(out)
	defer s.outlet.unset(out)
	<-ctx.Done() // also when the client takes no more, or another stream replaces this one
}

// delete ends a session (2025-11-25, basic/transports: session management).
func (h *Handler) delete(w http.ResponseWriter, r *http.Request, view *view.View) {
	s, status := h.find(r, view)
	if s == nil {
		http.Error(w, "there is no such session", status)
		return
	}
	s.dismiss()
	w.WriteHeader(http.StatusNoContent)
}

// outlet is the stream that a session has open for notifications and for requests to
// its client, if any. Messages are lost while there is none.
type outlet struct {
	mu  sync.Mutex
	now *answer.Stream
}

// Send implements rpc.Stream.
func (o *outlet) Send(msg []byte) bool {
	o.mu.Lock()
	s := o.now
	o.mu.Unlock()
	return s != nil && s.Send(msg)
}

func (o *outlet) set(s *answer.Stream) {
	o.mu.Lock()
	old := o.now
	o.now = s
	o.mu.Unlock()
	if old != nil {
		old.Drop()
	}
}

func (o *outlet) unset(s *answer.Stream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now == s {
		o.now = nil
	}
}
