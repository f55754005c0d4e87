// Package stream answers with Server-Sent Events
// (https://html.spec.whatwg.org/#server-sent-events): the events of the journal,
// and the changes of a resource. It counts and ends the answers that last until
// somebody ends them. It stores nothing: each stream reads for itself.
package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Event is one envelope with its position in the journal. Positions rise by one,
// and several events may have the same; those that are missing between two events
// are lost.
type Event struct {
	Position uint64
	Type     string
	Inbox    bool            // delivered to the Brain, not only recorded
	Envelope json.RawMessage // one line

	// Part is 0 for the event that the position is of. Events that are recorded with
	// it, as the steps of a call are with its end, come before it and have the parts
	// from 1.
	Part int
}

// Source is where the events come from.
type Source interface {
	// Position is that of the last event of the journal.
	Position() uint64
	// Events gives emit the events of the journal after a position, as they come,
	// and nil when there was none for as long as alive, until ctx ends or emit
	// returns an error.
	Events(ctx context.Context, after uint64, alive time.Duration, emit func(*Event) error) error
}

// Events of a stream itself. No type of an envelope has a colon.
const (
	gapEvent   = "stream:gap"   // positions {"from","to"} are lost or were pruned
	errorEvent = "stream:error" // a Problem; the stream ends
)

// Events answers GET /v1/events: Server-Sent Events, each an envelope whose id is
// its position in the journal; the first events of the record at 8 have the ids 7.1,
// 7.2 and so on, after which the rest of the record is still to come. The stream goes
// on after Last-Event-ID, or after the position in since; without either it begins
// with what comes. With all=true it has also what is only recorded; each type chooses
// a type, or the beginning of one followed by *. Every stream reads the journal for
// itself, so that a slow one holds nothing up; one whose writes are not taken is ended
// and can be resumed.
func (s *Set) Events(w http.ResponseWriter, r *http.Request, src Source, alive time.Duration) {
	q := r.URL.Query()
	all, err := httpjson.Flag(q, "all")
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	after, part, err := position(r, src.Position())
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	ctx, end, err := s.Begin(r.Context())
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	defer end()

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &writer{w: w, flush: http.NewResponseController(w).Flush, last: after, part: part}
	if err := out.write("retry: 1000\nid: %s\n\n", out.id()); err != nil || r.Method == http.MethodHead {
		return
	}
	types := q["type"]
	err = src.Events(ctx, after, alive, func(e *Event) error {
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
		if time.Since(out.wrote) >= alive {
			return out.alive()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		body, _ := json.Marshal(httpjson.Problem(err))
		out.write("event: %s\ndata: %s\n\n", errorEvent, body)
	}
}

// position is the one after which a stream begins, in a journal with a last
// position, and how many parts of the next position were shown.
func position(r *http.Request, last uint64) (after uint64, part int, err error) {
	since := r.Header.Get("Last-Event-ID")
	if since == "" {
		q := r.URL.Query()
		if !q.Has("since") {
			return last, 0, nil
		}
		since = q.Get("since")
	}
	whole, of, inside := strings.Cut(since, ".")
	after, err = strconv.ParseUint(whole, 10, 64)
	if err == nil && inside {
		part, err = strconv.Atoi(of)
	}
	if err != nil || inside && part < 1 { // no id ends in .0
		return 0, 0, httpjson.Bad("the position %q to go on after is neither a number nor two with a point", since)
	}
	if after > last {
		f := fault.New(control.PositionUnknown, "the journal ends at position %d, before %d", last, after)
		f.Data = fmt.Appendf(nil, `{"last":%d}`, last)
		return 0, 0, httpjson.WithStatus(http.StatusRequestedRangeNotSatisfiable, f)
	}
	return after, part, nil
}
