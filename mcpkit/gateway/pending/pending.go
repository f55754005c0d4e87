// Package pending keeps what is pending between a stateless client's request and its
// repetition with answers: calls that go on without a request, in a [Store], and
// states that the client carries, made by a [Sealer].
//
//	call, ok := store.Start(ctx, v, func(ctx context.Context, ask pending.Ask) (*host.Result, error) { … })
//
// What the client is asked and how its answers are read is decided elsewhere.
package pending

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Call is a call of a stateless client at a server of an older revision, which asks
// in the middle of the call. The call goes on while the client, whose request was
// answered with the question, repeats the request with the answer.
type Call struct {
	view   *view.View
	ctx    context.Context // ends when nobody has answered in time
	cancel context.CancelFunc
	asked  chan signal.Input
	answer chan ask.Replies // capacity 1
	ended  chan Ended       // capacity 1
	open   signal.Input     // what the client was asked last
}

// Ended is how a call ended.
type Ended struct {
	Result *host.Result
	Err    error
}

// Ask waits until the client has been asked and has answered.
type Ask func(ctx context.Context, in signal.Input) (ask.Replies, error)

// ask implements [Ask].
func (c *Call) ask(ctx context.Context, in signal.Input) (ask.Replies, error) {
	select {
	case c.asked <- in:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case a := <-c.answer:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Next waits until the call has ended or asks something. Both are nil where ctx
// ended first; the call is then given up.
func (c *Call) Next(ctx context.Context) (*Ended, *signal.Input) {
	select {
	case e := <-c.ended:
		return &e, nil
	case in := <-c.asked:
		c.open = in
		return nil, &in
	case <-ctx.Done():
		c.cancel()
		return nil, nil
	}
}

// Answer has the call go on with the client's answers to its questions. It is
// called once for each time that [Store.Take] found the call.
func (c *Call) Answer(reply func(q signal.Question) ask.Reply) {
	replies := ask.Replies{}
	for _, q := range c.open.Questions {
		replies[q.ID] = reply(q)
	}
	c.answer <- replies
}

// Store holds the calls that go on without a request. It is safe for concurrent use.
type Store struct {
	limit int
	work  sync.WaitGroup // of alive

	mu     sync.Mutex
	parked map[string]*Call // calls that wait for an answer, by the ids in their states
	alive  map[*Call]bool
	closed bool
}

// NewStore makes a Store in which at most limit calls wait for an answer.
func NewStore(limit int) *Store {
	return &Store{limit: limit, parked: map[string]*Call{}, alive: map[*Call]bool{}}
}

// Start has do make a call for the client of a view in a goroutine of its own, for
// [rpc.AnswerTime] at most. It reports false where the store is closed.
func (s *Store) Start(ctx context.Context, v *view.View, do func(context.Context, Ask) (*host.Result, error)) (*Call, bool) {
	c := &Call{view: v, asked: make(chan signal.Input), answer: make(chan ask.Replies, 1), ended: make(chan Ended, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	c.ctx, c.cancel = context.WithTimeout(context.WithoutCancel(ctx), rpc.AnswerTime)
	s.alive[c] = true
	s.work.Go(func() {
		defer s.end(c)
		res, err := do(c.ctx, c.ask)
		c.ended <- Ended{res, err}
	})
	return c, true
}

func (s *Store) end(c *Call) {
	c.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.alive, c)
}

// Keep lets the client find a call again by the id it returns. Where too many calls
// wait, of all clients or of this one, the call is given up and Keep reports false.
func (s *Store) Keep(c *Call) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := 0 // calls of the same client
	for id, other := range s.parked {
		if other.ctx.Err() != nil { // nobody has answered in time
			delete(s.parked, id)
		} else if other.view == c.view {
			same++
		}
	}
	if len(s.parked) >= s.limit || same >= max(1, s.limit*3/4) { // one client leaves room for others
		c.cancel()
		return "", false
	}
	id = rand.Text()
	s.parked[id] = c
	return id, true
}

// Take is the call that waits under an id, or nil. The call can be found once only.
func (s *Store) Take(id string) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.parked[id]
	delete(s.parked, id)
	return c
}

// Close gives all calls up and waits for their ends. Later ones are not started.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.alive {
		c.cancel()
	}
	s.mu.Unlock()
	s.work.Wait()
}
