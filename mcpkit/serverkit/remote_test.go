//go:build linux

package serverkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// far is a server that somebody else runs: it says what becomes of each attempt
// to connect to it, the last answer again and again.
type far struct {
	mu       sync.Mutex
	answers  []error // nil: a session; errSilent: none until the attempt is given up
	attempts int
	sessions []*farSession
	released int
}

var errSilent = errors.New("silent")

func (f *far) attach(ctx context.Context, in Instance, p Pipes) (Session, error) {
	if p.Stdin != nil || p.Stdout != nil || in.PID != 0 {
		return nil, errors.New("there is no process")
	}
	f.mu.Lock()
	err := f.answers[min(f.attempts, len(f.answers)-1)]
	f.attempts++
	f.mu.Unlock()
	switch {
	case errors.Is(err, errSilent):
		<-ctx.Done()
		return nil, fmt.Errorf("no answer to the greeting: %w", ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("connecting to server %s: %w", in.Name, err)
	}
	s := &farSession{f: f, done: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions = append(f.sessions, s)
	return s, nil
}

func (f *far) tried() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attempts
}

func (f *far) answer(answers ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers, f.attempts = answers, 0
}

// last is the newest session.
func (f *far) last() *farSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[len(f.sessions)-1]
}

type farSession struct {
	f     *far
	once  sync.Once
	done  chan struct{}
	err   error
	cause error
}

func (s *farSession) end(err error) {
	s.once.Do(func() { s.err = err; close(s.done) })
}
func (s *farSession) Done() <-chan struct{} { return s.done }
func (s *farSession) Err() error            { return s.err }
func (s *farSession) Close(cause error)     { s.cause = cause; s.end(io.EOF) }
func (s *farSession) Info() SessionInfo     { return SessionInfo{ProtocolVersion: "2026-07-28"} }
func (s *farSession) Release() {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.released++
}

func farSpec() Spec {
	return Spec{
		Name: "far", Endpoint: "https://user:pass@example.com/mcp?key=hidden", StartTimeout: 20 * time.Second,
		Restart: RestartPolicy{Base: time.Millisecond, Cap: 5 * time.Millisecond},
	}
}

func newFar(t *testing.T, answers ...error) (*rig, *far) {
	f := &far{answers: answers}
	return newRig(t, func(o *rigOptions) { o.Connect = f.attach }), f
}

var (
	errRefused = fault.New(fault.Unreachable, "connection refused").Retry()
	errPage    = fault.New(fault.NotMCP, "it says: It works!")
	errAuth    = fault.New(fault.NeedsAuth, "401 Unauthorized")
	errExpired = fault.New(fault.SessionExpired, "the session is forgotten").Retry()
)

func TestARemoteServerIsConnectedStoppedAndStarted(t *testing.T) {
	r, f := newFar(t, nil)
	r.apply(farSpec())
	st := r.stat("far")
	if st.Phase != Ready || st.PID != 0 || st.Endpoint != "https://example.com/mcp" || st.Session.ProtocolVersion != "2026-07-28" || st.Dir != "" {
		t.Errorf("%+v", st)
	}
	ctx := t.Context()
	if err := r.Stop(ctx, "far"); err != nil {
		t.Fatal(err)
	}
	var told *fault.Error
	if !errors.As(f.last().cause, &told) || told.Code != fault.ServerStopped {
		t.Errorf("the session was closed for %v", f.last().cause)
	}
	if st := r.stat("far"); st.Phase != Stopped {
		t.Errorf("%+v", st)
	}
	if err := r.Start(ctx, "far"); err != nil {
		t.Fatal(err)
	}
	if err := r.Restart(ctx, "far"); err != nil {
		t.Fatal(err)
	}
	r.untilTold("far", "started", "stopping", "stopped", "started", "stopping", "stopped", "restarting", "started")
	eventually(t, "all three sessions are released", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.released == 3
	})
}

func TestARemoteServerWithOtherSettingsIsConnectedAnew(t *testing.T) {
	r, f := newFar(t, nil)
	r.apply(farSpec())
	r.apply(farSpec())
	if f.tried() != 1 {
		t.Errorf("%d connections for the same spec", f.tried())
	}
	changed := farSpec()
	changed.Revision = "another token"
	r.apply(changed)
	if f.tried() != 2 {
		t.Errorf("%d connections after a change, want 2", f.tried())
	}
	r.Apply(nil)
	r.untilTold("far", "started", "stopping", "stopped", "restarting", "started", "stopping", "stopped")
}

func TestAnOutageThatPassesIsToldOnceAndTriedWithoutEnd(t *testing.T) {
	answers := slices.Repeat([]error{errRefused}, 20)
	r, f := newFar(t, append(answers, nil)...)
	r.apply(farSpec())
	if l := r.told("far", signal.ServerCrashed, 0); l.Cause != "connect_failed" || l.Reason != "connection refused" {
		t.Errorf("%+v", l)
	}
	r.untilTold("far", "crashed", "restarting", "started")
	if st := r.stat("far"); st.Restarts != 20 || f.tried() != 21 {
		t.Errorf("%d restarts, %d attempts", st.Restarts, f.tried())
	}
	// The next outage is one of its own.
	f.answer(errRefused, errRefused, nil)
	f.last().end(fmt.Errorf("no sign of life: %w", ErrHung))
	r.untilTold("far", "crashed", "restarting", "started", "crashed", "restarting", "started")
	if l := r.told("far", signal.ServerCrashed, 1); l.Cause != "hung" {
		t.Errorf("%+v", l)
	}
}

func TestWhatDoesNotPassIsGivenUp(t *testing.T) {
	r, f := newFar(t, errRefused, errRefused, errRefused, errRefused, errPage)
	r.Apply([]Spec{farSpec()})
	if l := r.told("far", signal.ServerPermanentlyFailed, 0); !strings.Contains(l.Reason, "It works!") {
		t.Errorf("%+v", l)
	}
	if st := r.stat("far"); st.Phase != Failed || f.tried() != 8 {
		t.Errorf("phase %s after %d attempts, want 4 that pass and 4 that do not", st.Phase, f.tried())
	}
	f.answer(nil)
	if err := r.Start(t.Context(), "far"); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatWantsAnAuthorizationIsAskedOnce(t *testing.T) {
	r, f := newFar(t, errAuth)
	r.apply(farSpec())
	eventually(t, "the phase", func() bool { return r.stat("far").Phase == NeedsAuth })
	if l := r.told("far", signal.ServerCrashed, 0); l.Cause != "needs_auth" {
		t.Errorf("%+v", l)
	}
	f.answer(errAuth, nil)
	if err := r.Start(t.Context(), "far"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("started with %v", err)
	}
	if f.tried() != 1 {
		t.Errorf("%d attempts", f.tried())
	}
	if err := r.Start(t.Context(), "far"); err != nil {
		t.Fatal(err)
	}
}

func TestAForgottenSessionIsOpenedAtOnceAndOnce(t *testing.T) {
	r, f := newFar(t, nil)
	r.apply(farSpec())
	f.last().end(errExpired)
	r.untilTold("far", "started", "restarting", "started")
	first := r.told("far", signal.ServerRestarting, 0)
	if first.Cause != "session_expired" || first.BackoffMS != 0 {
		t.Errorf("%+v", first)
	}
	f.last().end(errExpired) // it forgets everything at once: that is no small matter any more
	r.untilTold("far", "started", "restarting", "started", "crashed", "restarting", "started")
}

func TestATokenThatIsNoLongerTakenIsTriedOnceMore(t *testing.T) {
	r, f := newFar(t, nil, errAuth)
	r.apply(farSpec())
	f.last().end(errAuth)
	eventually(t, "the phase", func() bool { return r.stat("far").Phase == NeedsAuth })
	if f.tried() != 2 {
		t.Errorf("%d attempts, want 2", f.tried())
	}
	r.untilTold("far", "started", "restarting", "crashed")
}

func TestAServerThatAsksForAPauseGetsIt(t *testing.T) {
	limited := fault.New(fault.RateLimited, "429").Retry()
	limited.Data = json.RawMessage(`{"retry_after_ms":90000}`)
	r, _ := newFar(t, limited)
	delays := make(chan time.Duration, 1)
	r.after = func(d time.Duration) <-chan time.Time { delays <- d; return nil }
	r.Apply([]Spec{farSpec()})
	if d := <-delays; d != 90*time.Second {
		t.Errorf("the pause is %v", d)
	}
}

func TestAServerThatDoesNotAnswerIsNotWaitedForLongerThanItMay(t *testing.T) {
	r, f := newFar(t, errSilent)
	spec := farSpec()
	spec.StartTimeout = 50 * time.Millisecond
	r.apply(spec)
	if l := r.told("far", signal.ServerCrashed, 0); l.Cause != "start_timeout" {
		t.Errorf("%+v", l)
	}
	spec.StartTimeout = time.Hour
	before := f.tried()
	r.Apply([]Spec{spec})
	eventually(t, "an attempt that hangs", func() bool { return f.tried() > before && r.stat("far").Phase == Connecting })
	if err := r.Stop(t.Context(), "far"); err != nil {
		t.Fatal(err)
	}
}

func TestWithReconnectingOffALostConnectionIsFinal(t *testing.T) {
	r, f := newFar(t, nil)
	spec := farSpec()
	spec.Restart.Never = true
	r.apply(spec)
	f.last().end(fault.New(fault.ConnectionLost, "reset"))
	r.untilTold("far", "started", "crashed", "permanently_failed")
	if l := r.told("far", signal.ServerCrashed, 0); l.Cause != "disconnected" || l.Reason != "reset" {
		t.Errorf("%+v", l)
	}
}
