package client

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
)

// server is one connected server: its session, and what is known of its lists. It
// is the session's owner.
type server struct {
	m       *Manager
	log     *slog.Logger
	session *session.Session
	lists   lists
	ready   atomic.Bool // Connect has succeeded, and the end has not come
}

var _ session.Owner = (*server)(nil)

// Opened reads the tools in the first half of what time there is: a list that does
// not come makes a degraded session, not a failed start.
func (s *server) Opened(ctx context.Context) {
	s.lists.keep(s.session.Capabilities())
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	s.readTools(ctx)
}

func (s *server) Tools() (n int, err error) {
	l := s.lists.state()
	return len(l.tools), l.err
}

func (s *server) ListChanged(method string) bool { return s.lists.changed(method) }

func (s *server) ListsStale() {
	s.lists.allDirty()
	s.lists.poke()
}

func (s *server) Watched() []string { return s.m.watches.URIs(s.session.Server()) }

func (s *server) Updated(uri string) (watched, deliver bool) {
	return s.m.watches.Changed(s.session.Server(), uri)
}

// Over takes the tools out of the catalogue.
func (s *server) Over(err error) {
	if s.ready.Swap(false) && err != nil {
		s.log.Info("session over", "reason", err)
	}
	s.m.remove(s)
}

func (s *server) Gone() { s.m.leave(s) }
