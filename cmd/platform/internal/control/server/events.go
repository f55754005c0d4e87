package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Event is one envelope with its position in the journal. Positions rise by one,
// and several events may have one; those that are missing between two are lost.
type Event struct {
	Position uint64
	Type     string
	Inbox    bool            // delivered to the Brain, not only recorded
	Envelope json.RawMessage // one line
	Part     int             // from 1 for events that are recorded with the one of the position, as the steps of a call are with its end, and come before it; of that one 0
}

// Events of a stream itself. No type of an envelope has a colon.
const (
	gapEvent   = "stream:gap"   // positions {"from","to"} are lost or were pruned
	errorEvent = "stream:error" // a Problem; the stream ends
)

// events answers GET /v1/events: Server-Sent Events, each an envelope whose id
// is its position in the journal; the first events of the record at 8 have the ids
// 7.1, 7.2 and so on, after which the rest of the record is still to come. It goes on after Last-Event-ID, or after the
// position in since; without either it begins with what comes. all=true has also
// what is only recorded; each type chooses a type, or the beginning of one
// followed by *. Every stream reads the journal for itself, so that a slow one
// holds nothing up; one whose writes are not taken is ended and can be resumed.
func (a *api) events(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	all, err := flag(q, "all")
	if err != nil {
		fail(w, err)
		return
	}
	after, part, err := a.position(r)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, end, err := a.streams.begin(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	defer end()

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &stream{w: w, flush: http.NewResponseController(w).Flush, last: after, part: part}
	if err := out.write("retry: 1000\nid: %s\n\n", out.id()); err != nil || r.Method == http.MethodHead {
		return
	}
	types := q["type"]
	err = a.b.Events(ctx, after, a.limits.alive, func(e *Event) error {
		if e == nil {
			return out.alive()
		}
		if e.Position > out.last+1 {
			if err := out.gap(out.last+1, e.Position-1); err != nil {
				return err
			}
		}
		if e.Part > 0 && e.Position == out.last+1 && e.Part <= out.part {
			return nil // the client has it
		}
		if out.last, out.part = e.Position, 0; e.Part > 0 {
			out.last, out.part = e.Position-1, e.Part
		}
		if (all || e.Inbox) && matches(types, e.Type) {
			return out.event(e)
		}
		if time.Since(out.wrote) >= a.limits.alive {
			return out.alive()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		body, _ := json.Marshal(problem(err))
		out.write("event: %s\ndata: %s\n\n", errorEvent, body)
	}
}

// position is the one after which a stream begins.
func (a *api) position(r *http.Request) (after uint64, part int, err error) {
	end := a.b.Position()
	since := r.Header.Get("Last-Event-ID")
	if since == "" {
		if q := r.URL.Query(); q.Has("since") {
			since = q.Get("since")
		} else {
			return end, 0, nil
		}
	}
	whole, of, inside := strings.Cut(since, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err == nil && inside {
		part, err = strconv.Atoi(of)
	}
	if err != nil || part < 0 {
		return 0, 0, bad("the position %q to go on after is neither a number nor two with a point", since)
	}
	if n > end {
		f := fault.New(control.PositionUnknown, "the journal ends at position %d, before %d", end, n)
		f.Data = fmt.Appendf(nil, `{"last":%d}`, end)
		return 0, 0, &statusError{http.StatusRequestedRangeNotSatisfiable, f}
	}
	return n, part, nil
}

// stream writes Server-Sent Events (https://html.spec.whatwg.org/#server-sent-events).
type stream struct {
	w     io.Writer
	flush func() error
	last  uint64 // position that was reached, whether it was shown or not
	part  int    // of the next position, the part that was
	wrote time.Time
}

func (s *stream) write(format string, args ...any) error {
	s.wrote = time.Now()
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.flush()
}

// alive says that the stream is there, and how far it is: an id without data is
// no event and is still what a client resumes from.
func (s *stream) alive() error { return s.write(": alive\nid: %s\n\n", s.id()) }

// id is what a client resumes after.
func (s *stream) id() string {
	if s.part > 0 {
		return fmt.Sprintf("%d.%d", s.last, s.part)
	}
	return strconv.FormatUint(s.last, 10)
}

func (s *stream) gap(from, to uint64) error {
	return s.write("id: %d\nevent: %s\ndata: {\"from\":%d,\"to\":%d}\n\n", to, gapEvent, from, to)
}

func (s *stream) event(e *Event) error {
	line := []byte(e.Envelope)
	if bytes.ContainsAny(line, "\r\n") { // would end the field
		var one bytes.Buffer
		if err := json.Compact(&one, line); err != nil {
			return fmt.Errorf("event %d is no JSON: %w", e.Position, err)
		}
		line = one.Bytes()
	}
	return s.write("id: %s\nevent: %s\ndata: %s\n\n", s.id(), e.Type, line)
}

// matches reports whether a type is one of those asked for, or begins as one of
// them that ends in *. None asked for are all.
func matches(want []string, typ string) bool {
	for _, t := range want {
		prefix, pattern := strings.CutSuffix(t, "*")
		if t == typ || pattern && strings.HasPrefix(typ, prefix) {
			return true
		}
	}
	return len(want) == 0
}

// streams are the answers that last until somebody ends them.
type streams struct {
	most int

	mu     sync.Mutex
	closed bool
	ends   map[*context.CancelFunc]struct{}
}

// begin returns a context that ends with ctx or with the API. The caller calls
// end when the stream is over.
func (s *streams) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, refuse(http.StatusServiceUnavailable, control.ShuttingDown, "the platform is shutting down")
	}
	if len(s.ends) >= s.most {
		return nil, nil, fault.New(fault.Busy, "%d streams are open already", s.most).Retry()
	}
	ctx, cancel := context.WithCancel(ctx)
	if s.ends == nil {
		s.ends = make(map[*context.CancelFunc]struct{})
	}
	s.ends[&cancel] = struct{}{}
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ends, &cancel)
	}, nil
}

// close ends all.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for cancel := range s.ends {
		(*cancel)()
	}
}
