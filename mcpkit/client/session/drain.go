package session

import "context"

// Drain has the owner take the server's tools out of the catalogue, so that no new
// call reaches it, and waits until no tool call is in flight, the session has ended,
// or ctx is done.
func (s *Session) Drain(ctx context.Context) {
	s.owner.Over(nil)
	for range cap(s.slots) { // who has every slot knows that nobody else has one
		select {
		case s.slots <- struct{}{}:
		case <-s.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
