// Package signals brings what one session has to tell to its sink: one signal at a
// time, in order, from a bounded queue whose senders wait while it is full. It also
// counts and reports what the server does wrong; such reports alone may be dropped.
// It decides nothing about what is told.
//
//	q := signals.New(options)
//	go q.Deliver(ctx)
//	q.Emit(signal.Signal{Kind: signal.AppEvent, Params: params})
package signals

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Options configure Signals. All fields but Instance and Hold are required.
type Options struct {
	Server, Instance string // of all signals
	Sink             signal.Sink
	Log              *slog.Logger
	Limit            int  // signals that wait
	MaxBytes         int  // bytes of params that wait, or one signal with more
	Hold             bool // nothing reaches the sink before Release
}

// Signals are what one session tells. They are safe for concurrent use.
type Signals struct {
	o       Options
	queue   *queue
	reports reports
	refused atomic.Int64 // by the sink
	drained chan struct{}
}

// New makes Signals, of which nothing is delivered before Deliver.
func New(o Options) *Signals {
	s := &Signals{o: o, queue: newQueue(o.Limit, o.MaxBytes), drained: make(chan struct{})}
	if o.Hold {
		s.queue.holdBack()
	}
	return s
}

// Emit puts a signal into the queue, and waits for room. It reports false, and
// drops the signal, once the queue is closed, or in a hurry and full.
func (s *Signals) Emit(sig signal.Signal) bool {
	sig.Server, sig.Instance = s.o.Server, s.o.Instance
	if sig.Time.IsZero() {
		sig.Time = time.Now()
	}
	return s.queue.put(sig)
}

// Deliver hands signals to the sink until the queue is closed and empty. It is called
// once; ctx is that of the sink.
func (s *Signals) Deliver(ctx context.Context) {
	defer close(s.drained)
	for {
		sig, ok := s.queue.take()
		if !ok {
			return
		}
		if err := s.o.Sink.Observe(ctx, sig); err != nil && s.refused.Add(1) == 1 {
			s.o.Log.Error("the sink did not take a signal", "kind", sig.Kind, "error", err)
		}
	}
}

// Drained is closed when Deliver has returned.
func (s *Signals) Drained() <-chan struct{} { return s.drained }

// Lost is how many signals the sink did not get: those that were dropped, reports
// apart, and those that the sink refused.
func (s *Signals) Lost() int64 { return s.queue.dropped() + s.refused.Load() }

// Insist keeps a hold even where the queue is full, from now on.
func (s *Signals) Insist() { s.queue.insist() }

// Release ends a hold. It may be called more than once.
func (s *Signals) Release() { s.queue.release() }

// Held reports whether a sender waits for room, or has waited since a time.
func (s *Signals) Held(since time.Time) bool { return s.queue.held(since) }

// Close lets nothing more in. What is in the queue is still delivered.
func (s *Signals) Close() { s.queue.close() }

// Hurry ends the waits for room, now and later: what finds none is dropped.
func (s *Signals) Hurry() { s.queue.hurry() }

// Settled waits until the sink has taken what is in the queue now, or ctx is done.
// While signals are held it does not wait.
func (s *Signals) Settled(ctx context.Context) { s.queue.settled(ctx) }
