package serverkit

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// emitQueue bounds the signals that wait for the sink. When it is full,
// servers wait with their next step.
const emitQueue = 1024

// emitter hands signals to the sink, in order, on a goroutine of its own: a slow
// sink must not delay the end of a process.
type emitter struct {
	queue  chan emission
	cancel context.CancelFunc
	done   chan struct{}
	lost   int // signals that the sink did not take; read after done
}

type emission struct {
	signal.Signal
	then func() // called when the sink has taken the signal, or has refused it; may be nil
}

func newEmitter(sink signal.Sink, log *slog.Logger) *emitter {
	ctx, cancel := context.WithCancel(context.Background())
	e := &emitter{queue: make(chan emission, emitQueue), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		for s := range e.queue {
			if err := sink.Observe(ctx, s.Signal); err != nil {
				e.lost++
				log.Error("a lifecycle signal was not taken", "server", s.Server, "kind", string(s.Kind), "err", err)
			}
			if s.then != nil {
				s.then()
			}
		}
	}()
	return e
}

// emit queues s. It waits for room unless hurry is closed; then it drops s and
// returns false.
func (e *emitter) emit(s emission, hurry <-chan struct{}) bool {
	select {
	case e.queue <- s:
		return true
	default:
	}
	select {
	case e.queue <- s:
		return true
	case <-hurry:
		return false
	}
}

// close waits until the sink has taken all that is queued, or ctx is done.
func (e *emitter) close(ctx context.Context) error {
	close(e.queue)
	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	<-e.done
	e.cancel()
	if e.lost > 0 {
		return fmt.Errorf("serverkit: %d lifecycle signals were not taken", e.lost)
	}
	return nil
}
