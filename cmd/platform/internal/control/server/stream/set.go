package stream

import (
	"context"
	"net/http"
	"sync"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Set are the answers that last until somebody ends them.
type Set struct {
	most int

	mu     sync.Mutex
	closed bool
	ends   map[*context.CancelFunc]struct{}
}

// NewSet is a set of at most so many streams.
func NewSet(most int) *Set { return &Set{most: most, ends: make(map[*context.CancelFunc]struct{})} }

// Len is how many streams are open.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends)
}

// Begin returns a context that ends with ctx or with the set. The caller calls
// end when the stream is over.
func (s *Set) Begin(ctx context.Context) (_ context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, httpjson.Refuse(http.StatusServiceUnavailable, control.ShuttingDown, "the platform is shutting down")
	}
	if len(s.ends) >= s.most {
		return nil, nil, fault.New(fault.Busy, "%d streams are open already", s.most).Retry()
	}
	ctx, cancel := context.WithCancel(ctx)
	s.ends[&cancel] = struct{}{}
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ends, &cancel)
	}, nil
}

// Close ends all streams, and refuses those that come.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for cancel := range s.ends {
		(*cancel)()
	}
}
