package session

import "context"

// Drain has the owner take the server's tools out of the catalogue, so that no new
// call reaches it, and waits until no tool call is in flight, the session has ended,
// or ctx is done.
func (s *Session) Drain(ctx context.Context) {
	s.owner.Over(nil)
	s.Client.Drain(ctx)
}
