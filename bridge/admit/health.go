package admit

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/bridge/journal"
)

// State is whether events get through.
type State struct {
	Err   error     // why not; nil when all is well
	Since time.Time // of the last change
}

// Explain adds to the error of a call that gave up waiting why nothing moves.
// What the journal says when it is closed becomes closed.
func (s State) Explain(err error, bus string, closed error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrClosed):
		return fmt.Errorf("%w: %w", closed, err)
	case s.Err != nil && !errors.Is(err, journal.ErrDegraded):
		return fmt.Errorf("%w: %s is degraded: %w", err, bus, s.Err)
	}
	return err
}

// Health is how a bus does: its state, and what was found wrong. It is safe for
// concurrent use.
type Health struct {
	mu       sync.Mutex
	state    State
	problems []string
}

// NewHealth is the health of a bus that begins in the state err, with problems.
func NewHealth(err error, problems ...string) *Health {
	return &Health{state: State{err, time.Now()}, problems: problems}
}

// State is that of the journal where it cannot write, else what was set last.
func (h *Health) State(j *journal.Journal) State {
	if s := j.State(); s.Err != nil {
		return State{fmt.Errorf("journal: %w", s.Err), s.Since}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// Set sets why events do not get through, or nil, and returns what it was.
func (h *Health) Set(err error) (was error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was = h.state.Err
	if (was == nil) != (err == nil) {
		h.state.Since = time.Now()
	}
	h.state.Err = err
	return was
}

// maxProblems bounds what is kept of what was found wrong; more is not.
const maxProblems = 100

// Note keeps a problem for people.
func (h *Health) Note(problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.problems) < maxProblems {
		h.problems = append(h.problems, problem)
	}
}

// Problems are the first that were noted.
func (h *Health) Problems() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.problems)
}
