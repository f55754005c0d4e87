package bridge

import (
	"unsafe"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// keepBuffer bounds in bytes what a writer keeps for its next batch.
const keepBuffer = 256 << 10

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

	cleaned [64]cleaned // by where the text lies in memory
}

// cleaned is a short text without and with its secrets removed.
type cleaned struct{ text, clean string }

// maxCleaned is how many bytes a text has at most that a writer remembers.
const maxCleaned = 256

// clean is text without secrets. The steps of a call, and the calls of a tool,
// repeat one another's words: within a batch they are looked through once.
func (w *writer) clean(text string) string {
	if text == "" || len(text) > maxCleaned {
		return w.o.RedactText(text)
	}
	where := uintptr(unsafe.Pointer(unsafe.StringData(text)))
	known := &w.cleaned[(where>>4+where>>10)%uintptr(len(w.cleaned))]
	if known.text != text {
		known.text, known.clean = text, w.o.RedactText(text)
	}
	return known.clean
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
	clear(w.cleaned[:])
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
