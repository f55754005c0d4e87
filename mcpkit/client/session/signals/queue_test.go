package signals

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestTheQueueIsBoundedByNumberAndBytes(t *testing.T) {
	q := newQueue(3, 10)
	big := signal.Signal{Kind: signal.AppEvent, Params: json.RawMessage(`"larger than the limit"`)}
	if !q.put(big) {
		t.Fatal("one large signal alone has its place")
	}
	q.offer(signal.Signal{Kind: signal.Problem, Params: json.RawMessage(`"x"`)})
	if len(q.items) != 1 {
		t.Fatal("a report was queued beyond the limit")
	}
	put := make(chan bool)
	go func() { put <- q.put(signal.Signal{Params: json.RawMessage(`1`)}) }()
	for !q.held(time.Now()) {
		runtime.Gosched()
	}
	if s, ok := q.take(); !ok || s.Kind != signal.AppEvent || !<-put {
		t.Fatal("room for the next was not given")
	}
	q.put(signal.Signal{})
	q.put(signal.Signal{})
	go func() { put <- q.put(signal.Signal{}) }()
	for !q.held(time.Now()) {
		runtime.Gosched()
	}
	q.hurry()
	if <-put || q.dropped() != 1 {
		t.Error("in a hurry nobody waits")
	}
	q.close()
	for range 3 {
		if _, ok := q.take(); !ok {
			t.Fatal("what was in the queue is lost")
		}
	}
	if _, ok := q.take(); ok || q.put(signal.Signal{}) {
		t.Error("a closed queue is not closed")
	}
}

func TestAHeldQueueYieldsOnlyWhileItMustNotBlock(t *testing.T) {
	taken := make(chan bool)
	take := func(q *queue) {
		go func() { _, ok := q.take(); taken <- ok }()
	}
	q := newQueue(1, 10)
	q.holdBack()
	q.put(signal.Signal{})
	take(q)
	if !q.put(signal.Signal{}) || !<-taken {
		t.Error("a full queue does not give in")
	}

	q = newQueue(1, 10)
	q.holdBack()
	q.insist()
	q.put(signal.Signal{})
	put := make(chan bool)
	go func() { put <- q.put(signal.Signal{}) }()
	for !q.held(time.Now()) {
		runtime.Gosched()
	}
	take(q)
	select {
	case <-taken:
		t.Error("taken from a held queue")
	case <-put:
		t.Error("put into a full queue")
	case <-time.After(20 * time.Millisecond):
	}
	q.release()
	if !<-taken || !<-put {
		t.Error("released, yet nothing moves")
	}

	q = newQueue(1, 10)
	q.holdBack()
	q.close()
	if _, ok := q.take(); ok {
		t.Error("an empty queue that is closed holds up its end")
	}
}
