// Package answer writes the answer to one HTTP request of an MCP client: one JSON
// body where nothing is to be said before the answer and the answer comes soon, else a
// stream of events (2025-11-25, basic/transports: sending messages).
//
//	s := answer.New(w, r, answer.Limits{Stall: 30 * time.Second, Alive: 15 * time.Second}, cancel)
//	defer s.Close()
//	s.Finish(reply, http.StatusOK)
//
// Which answer a request gets is decided elsewhere. Streams are not resumed.
package answer

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

// Bounds of what waits on one stream for a client that reads slowly. Past them
// the stream is dropped.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 16 << 20
)

// Limits bound how long a client is waited for.
type Limits struct {
	Stall time.Duration // for an event to be taken
	Alive time.Duration // of silence before a sign of life
}

// Stream is the answer to one HTTP request: JSON, or events as soon as something
// is to be said before the end. Events are written by a goroutine of its own, so
// that nobody waits for a slow client.
type Stream struct {
	w      http.ResponseWriter
	events bool // the client takes them
	limits Limits
	cancel context.CancelFunc // of what the stream is for; may be nil

	mu      sync.Mutex
	queue   [][]byte
	size    int
	begun   bool // the writer runs
	shut    bool // nothing more comes
	lost    bool
	late    *time.Timer   // begins the events of an answer that does not come
	wake    chan struct{} // capacity 1
	written chan struct{} // closed when the writer has ended
}

// New begins the answer to r. cancel, if set, is called when the client takes no
// more. Whoever calls New calls Close.
func New(w http.ResponseWriter, r *http.Request, l Limits, cancel context.CancelFunc) *Stream {
	s := &Stream{w: w, events: Accepts(r, "text/event-stream"), limits: l, cancel: cancel}
	if s.events { // proxies give up a connection on which nothing comes
		s.late = time.AfterFunc(l.Alive, s.Open)
	}
	return s
}

// Send implements rpc.Stream.
func (s *Stream) Send(msg []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.events || s.shut || s.lost {
		return false
	}
	if len(s.queue) >= maxWaiting || len(s.queue) > 0 && s.size+len(msg) > maxWaitingBytes {
		s.lose()
		return false
	}
	s.queue, s.size = append(s.queue, msg), s.size+len(msg)
	s.start()
	return true
}

// start has the writer run, or look again.
func (s *Stream) start() {
	if !s.begun {
		s.begun = true
		s.wake, s.written = make(chan struct{}, 1), make(chan struct{})
		go s.write()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// lose gives the client up.
func (s *Stream) lose() {
	if s.lost {
		return
	}
	s.lost, s.queue = true, nil
	if s.cancel != nil {
		s.cancel()
	}
	if s.begun {
		s.start()
	}
}

// Open begins the events before there is one, unless the answer is given.
func (s *Stream) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut {
		s.start()
	}
}

// Drop ends the stream for one that replaces it.
func (s *Stream) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose()
}

// Finish sends the answer, as the last event where there were others. Without one
// it only ends the stream.
func (s *Stream) Finish(reply []byte, status int) {
	s.mu.Lock()
	begun := s.begun
	if begun && reply != nil && !s.lost {
		s.queue = append(s.queue, reply)
	}
	s.shut = true
	s.mu.Unlock()
	switch {
	case begun:
	case reply == nil:
		s.w.WriteHeader(http.StatusAccepted)
	default:
		http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(s.limits.Stall))
		WriteJSON(s.w, status, reply)
	}
}

// Close waits until what was sent is written. It comes last.
func (s *Stream) Close() {
	if s.late != nil {
		s.late.Stop()
	}
	s.mu.Lock()
	s.shut = true
	if !s.begun {
		s.mu.Unlock()
		return
	}
	s.start()
	s.mu.Unlock()
	<-s.written
}

// write writes events until the stream is shut or the client takes no more.
func (s *Stream) write() {
	defer close(s.written)
	control := http.NewResponseController(s.w)
	header := s.w.Header()
	header["Content-Type"] = eventType
	header["Cache-Control"] = []string{"no-cache, no-transform"}
	header["X-Accel-Buffering"] = []string{"no"} // proxies that buffer would hold events back
	s.w.WriteHeader(http.StatusOK)
	alive := time.NewTicker(s.limits.Alive)
	defer alive.Stop()
	var buf []byte
	for silent := true; ; {
		s.mu.Lock()
		queue, shut, lost := s.queue, s.shut, s.lost
		s.queue, s.size = nil, 0
		s.mu.Unlock()
		if lost {
			return
		}
		buf = buf[:0]
		for _, msg := range queue {
			buf = append(append(append(buf, "event: message\ndata: "...), rpc.OneLine(msg)...), "\n\n"...)
		}
		if silent && len(queue) == 0 {
			buf = append(buf, ": \n\n"...)
		}
		if len(buf) > 0 {
			control.SetWriteDeadline(time.Now().Add(s.limits.Stall))
			_, err := s.w.Write(buf)
			if err == nil {
				err = control.Flush()
			}
			if err != nil {
				s.Drop()
				return
			}
		}
		if cap(buf) > 64<<10 {
			buf = nil
		}
		if len(queue) > 0 {
			silent = false
			continue
		}
		if shut {
			return
		}
		select {
		case <-s.wake:
			silent = false
		case <-alive.C:
			silent = true
		}
	}
}

var eventType = []string{"text/event-stream"}

// buffered is the length up to which net/http finds out the length of an answer by
// itself.
const buffered = 2048

// WriteJSON writes a whole answer.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = jsonType
	if len(body) > buffered {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	w.Write(body)
}

var jsonType = []string{"application/json"}

// Accepts reports whether a client takes events as an answer.
func Accepts(r *http.Request, mediaType string) bool {
	return slices.ContainsFunc(r.Header["Accept"], func(v string) bool {
		return strings.Contains(v, mediaType) || strings.Contains(v, "*/*")
	})
}
