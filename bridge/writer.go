package bridge

import (
	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// keepBuffer bounds in bytes what a writer keeps for its next batch.
const keepBuffer = 128 << 10

// writer makes the envelopes of one batch after another, all in the same memory:
// to collect the garbage of a call would cost more than to write its record. It
// belongs to one lane.
type writer struct {
	*Bridge
	items   []bus.Item
	origins []origin       // one for each item
	envs    []amp.Envelope // one for each signal
	used    int            // of envs
	buf     []byte         // steps' data, as far as it is written

	last signal.Step // its server, tool, entrance and risk are what same says
	same []byte
}

// origin is who is told of an envelope's fate.
type origin struct {
	ack func(signal.Ack)
	id  string // as the app gave it
}

// begin makes room for the envelopes of n signals and forgets those of before.
func (w *writer) begin(n int) {
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	clear(w.items)
	clear(w.origins)
	clear(w.envs)
	w.items, w.origins, w.used, w.buf, w.same = w.items[:0], w.origins[:0], 0, w.buf[:0], w.same[:0]
	if cap(w.envs) < n {
		w.envs = make([]amp.Envelope, n, n+n/4)
	}
	w.envs = w.envs[:n]
}

// forget leaves all memory to who may still use it.
func (w *writer) forget() { *w = writer{Bridge: w.Bridge} }

// add makes the envelope of a signal.
func (w *writer) add(s *signal.Signal) {
	o := origin{ack: s.Ack}
	env, id, err := w.normalise(s)
	if o.id = id; err != nil {
		env = w.reject(s, id, err)
		o = origin{} // the app has its answer already
	}
	item := bus.Item{Envelope: env, Route: w.route(env, s)}
	if s.ID != "" && s.Kind != signal.AppEvent {
		item.Owner = PlatformApp
	}
	w.items = append(w.items, item)
	w.origins = append(w.origins, o)
}

// next is the next envelope of the batch.
func (w *writer) next() *amp.Envelope {
	w.used++
	return &w.envs[w.used-1]
}

// room is empty memory for n bytes or more. What is written into it is kept by take.
func (w *writer) room(n int) []byte {
	if cap(w.buf)-len(w.buf) < n {
		w.buf = make([]byte, 0, max(n, min(2*cap(w.buf), keepBuffer), 2<<10))
	}
	return w.buf[len(w.buf):]
}

// take returns b, which was begun by room.
func (w *writer) take(b []byte) []byte {
	if len(b) <= cap(w.buf)-len(w.buf) { // else it has moved to memory of its own
		w.buf = w.buf[:len(w.buf)+len(b)]
	}
	return b[:len(b):len(b)]
}
