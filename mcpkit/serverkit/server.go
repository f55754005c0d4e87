package serverkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/child"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/stderrlog"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// connectGrace is how long Connect may take to return once its context is done;
// then its pipes are closed under it.
const connectGrace = time.Second

// exitGrace is how long a process whose session ended first may take to end by
// itself, so that its exit code is known and not ours.
const exitGrace = time.Second

// server is one name's life: a goroutine, run, owns its processes one after the
// other and looks at what is wanted of it between and during them.
type server struct {
	kit    *Kit
	name   string
	log    *slog.Logger
	stderr *stderrlog.Log

	mu      sync.Mutex
	want    want
	st      Status        // all but what status adds
	sess    Session       // nil unless ready
	up      time.Time     // when the running process was spawned
	gen     int           // the latest generation whose outcome is known
	outcome error         // of that generation
	moved   chan struct{} // closed and replaced whenever a field above changes
}

// want is what was last asked of a server. A new request replaces it whole.
type want struct {
	spec  Spec
	up    bool
	gone  bool          // to be forgotten once down
	cause string        // why the one before had to end
	gen   int           // counts the requests
	over  chan struct{} // closed when this want is replaced
}

func (k *Kit) newServer(spec Spec) *server {
	log := k.log.With("server", spec.Name)
	path := ""
	if k.opt.LogDir != "" {
		path = stderrlog.Path(k.opt.LogDir, spec.Name)
	}
	s := &server{
		kit: k, name: spec.Name, log: log,
		stderr: stderrlog.New(stderrlog.Options{
			Path: path, Size: k.opt.LogSize, Backups: k.opt.LogBackups, Logger: log, Redact: k.opt.Redact, Now: k.now,
		}),
		want:  want{spec: spec, up: !spec.Disabled, cause: causeDisabled, gen: 1, over: make(chan struct{})},
		st:    Status{Name: spec.Name, Phase: Starting, Since: k.now(), LogPath: path},
		moved: make(chan struct{}),
	}
	if spec.Endpoint != "" {
		s.st.Phase = Connecting
	}
	s.describe(spec)
	return s
}

// describe takes over into the status what it shows of spec.
func (s *server) describe(spec Spec) {
	s.stderr.Forget(spec.Secrets)
	s.st.Dir, s.st.Command, s.st.Endpoint = spec.Dir, s.presentable(spec.Command), s.address(spec.Endpoint)
}

func (s *server) presentable(argv []string) []string {
	out := make([]string, len(argv))
	for i, arg := range argv {
		out[i] = s.stderr.Clean(arg)
	}
	return out
}

// ---- what is wanted

func (s *server) wanted() want {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want
}

func (s *server) generation() int { return s.wanted().gen }

// replace makes w, edited from the present want, the present want. The caller
// holds mu.
func (s *server) replace(w want) {
	close(s.want.over)
	w.gen, w.over = w.gen+1, make(chan struct{})
	s.want = w
}

// apply takes over a spec. What is not already wanted, and cannot take effect on the
// process or connection as it is, becomes a new want.
func (s *server) apply(spec Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.want
	if !w.gone && w.spec.Equal(spec) {
		running := s.st.Phase == Starting || s.st.Phase == Connecting || s.st.Phase == Ready || s.st.Phase == Stopping
		if same := w.spec.same(spec); same || running {
			s.want.spec = spec
			if !same {
				s.log.Info("settings of the server took effect in place")
				s.describe(spec)
			}
			return
		}
	}
	w.spec, w.up, w.gone, w.cause = spec, !spec.Disabled, false, causeChanged
	if spec.Disabled {
		w.cause = causeDisabled
	}
	s.replace(w)
}

// remove takes the server down for good.
func (s *server) remove(cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.want
	if w.gone {
		return
	}
	w.up, w.gone, w.cause = false, true, cause
	s.replace(w)
}

// change lets edit change the want, unless it returns false. It returns the
// generation whose outcome tells how it went.
func (s *server) change(edit func(*want, Phase) bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.want
	if w.gone {
		return 0, ErrUnknownServer
	}
	if changed := edit(&w, s.st.Phase); w.up && w.spec.Disabled {
		return 0, ErrDisabled
	} else if changed {
		s.replace(w)
	}
	return s.want.gen, nil
}

// settled waits for the outcome of a generation and returns it.
func (s *server) settled(ctx context.Context, gen int) error {
	for {
		s.mu.Lock()
		known, outcome, current, moved := s.gen, s.outcome, s.want.gen, s.moved
		s.mu.Unlock()
		switch {
		case known == gen:
			return outcome
		case known > gen, current > gen:
			return ErrSuperseded
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ---- what is

// move changes the status by edit and wakes who waits for a change.
func (s *server) move(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit()
	close(s.moved)
	s.moved = make(chan struct{})
}

// enter begins a phase.
func (s *server) enter(p Phase) {
	s.move(func() { s.st.Phase, s.st.Since, s.st.Waiting = p, s.kit.now(), "" })
}

// settle notes the outcome of w, so far.
func (s *server) settle(w want, outcome error) {
	s.move(func() { s.gen, s.outcome = w.gen, outcome })
}

func (s *server) status() Status {
	s.mu.Lock()
	st, sess, now := s.st, s.sess, s.kit.now()
	if st.PID != 0 || sess != nil {
		st.Uptime = now.Sub(s.up)
	}
	if st.Phase == Ready && now.Sub(st.Since) >= s.want.spec.Restart.StableAfter {
		st.Crashes = 0
	}
	s.mu.Unlock()
	if sess != nil {
		st.Session = sess.Info()
	}
	return st
}

// ---- its life

// run is the server's life, until it is removed.
func (s *server) run() {
	for {
		w := s.wanted()
		switch {
		case w.gone:
			if s.kit.leave(s) {
				s.stderr.Flush()
				s.settle(w, nil)
				return
			}
		case !w.up:
			s.rest(w)
		case w.spec.Endpoint != "":
			s.hold(w)
		default:
			s.serve(w)
		}
	}
}

// rest keeps the server down while w is wanted.
func (s *server) rest(w want) {
	phase := Stopped
	if w.spec.Disabled {
		phase = Disabled
	}
	s.enter(phase)
	s.move(func() { s.describe(w.spec); s.st.Crashes = 0 })
	s.settle(w, nil)
	<-w.over
}

// serve runs one process after the other while w is wanted, or until it has
// crashed too often; then it waits for another want.
func (s *server) serve(w want) {
	policy := newRestarts(w.spec.Restart)
	probe := true
	s.move(func() { s.describe(w.spec); s.st.Crashes = 0 })
	for {
		s.enter(Starting)
		if !s.kit.admit(s, w.over) {
			s.calledOff()
			return
		}
		end := s.instance(w, Instance{Name: s.name, Crashes: policy.crashes, Probe: probe})
		if end.told {
			return
		}
		if probe && errors.Is(end.err, ErrRespawn) {
			probe = false
			s.log.Info("the server did not survive the first attempt to speak to it; spawning it once more", "err", end.err)
			continue
		}
		w = s.latest(w)
		policy.follow(w.spec.Restart)
		delay, again := policy.crashed(end.healthy, false)
		s.crashed(w, end, policy.crashes)
		absent := errors.Is(end.err, exec.ErrNotFound) || errors.Is(end.err, fs.ErrPermission) // trying again finds no more
		if !again || absent {
			reason := fmt.Sprintf("crash %d in a row; the last: %s", policy.crashes, end.exit.Reason)
			if absent {
				reason = end.exit.Reason
			} else if w.spec.Restart.Never {
				reason = "restarts are off; " + end.exit.Reason
			}
			s.enter(Failed)
			s.emit(signal.ServerPermanentlyFailed, end.lifecycle(policy.crashes, reason))
			<-w.over
			return
		}
		select {
		case <-w.over:
			s.calledOff()
			return
		default:
		}
		s.enter(Backoff)
		l := end.lifecycle(policy.crashes, end.exit.Reason)
		l.BackoffMS = delay.Milliseconds()
		s.emit(signal.ServerRestarting, l)
		select {
		case <-s.kit.after(delay):
			s.move(func() { s.st.Restarts++ })
			w = s.latest(w)
		case <-w.over:
			s.calledOff()
			return
		}
	}
}

// spawned is how many processes were spawned, or tried to.
func (s *server) spawned() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.Starts
}

// latest is w with what has been changed in place since.
func (s *server) latest(w want) want {
	if now := s.wanted(); now.gen == w.gen {
		return now
	}
	return w
}

// calledOff tells that a start that had been announced, or waited for its turn,
// does not come.
func (s *server) calledOff() {
	if w := s.wanted(); !w.up {
		s.emit(signal.ServerStopped, &signal.Lifecycle{Cause: w.cause, Reason: asked[w.cause]})
	}
}

// crashed records an end that nobody asked for.
func (s *server) crashed(w want, e ending, crashes int) {
	s.move(func() {
		s.st.LastExit, s.st.Crashes = &e.exit, crashes
		s.gen, s.outcome = w.gen, errors.New(e.exit.Reason)
	})
	s.emit(signal.ServerCrashed, e.lifecycle(crashes, e.exit.Reason))
}

// causeTold stands for the cause of the want that replaced the present one.
const causeTold = "told"

// instance runs one process from spawn to the end of all its descendants.
func (s *server) instance(w want, in Instance) ending {
	k := s.kit
	s.move(func() { s.st.Starts++; in.Number = s.st.Starts })
	mark := s.stderr.Mark()
	p, argv, err := s.spawn(w, in.Number)
	if errors.Is(err, errCalledOff) {
		s.calledOff()
		return ending{told: true}
	}
	if err != nil {
		s.stderr.Note("start %d failed: %s", in.Number, s.stderr.Clean(err.Error()))
		return ending{exit: Exit{Cause: causeSpawnFailed, Reason: err.Error(), Time: k.now()}, err: err}
	}
	in.PID = p.PID()
	spawned := k.now()
	s.move(func() { s.st.PID, s.up, s.st.Command, s.st.Waiting = in.PID, spawned, s.presentable(argv), "" })
	s.log.Debug("spawned", "pid", in.PID, "start", in.Number)

	sess, cause, err := s.connect(w, in, p)
	e := ending{pid: in.PID, err: err}
	ready := cause == "" && err == nil
	release := func() {}
	if r, ok := sess.(Releaser); ok {
		release = r.Release
	}
	kind := child.Gently
	switch {
	case ready:
		since := k.now()
		s.ready(w, sess, in, since.Sub(spawned), release)
		cause, e.err = s.watch(w, sess, p)
		e.healthy = k.now().Sub(since)
	case cause != "": // given up
		release()
	case errors.Is(err, ErrRespawn):
		cause, kind = causeProtocol, child.Now
	default:
		cause = s.causeOf(w, p, causeProtocol)
	}
	switch cause {
	case causeHung:
		kind = child.Now
	case causeExit:
		kind = child.Dead
	}

	e.told = cause == causeTold
	why := fault.New(fault.ServerCrashed, "server %s ended with the call in flight", s.name).Retry().Unknown()
	if e.told {
		next := s.wanted()
		cause, why = next.cause, toldFault(s.name, next)
		s.emit(signal.ServerStopping, &signal.Lifecycle{PID: e.pid, Cause: cause, Reason: asked[cause]})
	} else if in.Crashes > 0 {
		why.Code = fault.ServerUnstable
	}
	s.enter(Stopping)
	latest := s.wanted().spec
	state := p.End(sess, why, child.Stop{Kind: kind, CloseWait: latest.Stop.CloseWait, TermWait: latest.Stop.TermWait}, k.hurry)

	e.exit = s.exit(cause, e, state, spawned, ready, w.spec.StartTimeout, mark)
	s.stderr.Note("pid %d ended: %s", e.pid, e.exit.Reason)
	s.move(func() { s.st.PID, s.sess, s.st.LastExit = 0, nil, &e.exit })
	if e.told {
		s.emit(signal.ServerStopped, e.lifecycle(0, e.exit.Reason))
		if next := s.wanted(); next.up {
			s.emit(signal.ServerRestarting, &signal.Lifecycle{Cause: next.cause, Reason: asked[next.cause]})
		}
	}
	return e
}

// connect makes the session; of a server at an Endpoint there is no p. It returns
// a cause if it gave up before Connect had returned; a session that comes along
// with a cause came too late.
func (s *server) connect(w want, in Instance, p *child.Child) (sess Session, cause string, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type result struct {
		sess Session
		err  error
	}
	connected := make(chan result, 1)
	var pipes Pipes
	var exited <-chan struct{}
	if p != nil {
		pipes, exited = Pipes{p.Stdin, p.Stdout}, p.Exited()
	}
	go func() {
		sess, err := w.spec.Connect(ctx, in, pipes)
		if sess == nil && err == nil {
			err = errors.New("no session was made")
		}
		connected <- result{sess, err}
	}()
	deadline := time.NewTimer(w.spec.StartTimeout)
	defer deadline.Stop()
	over := w.over
	var drained <-chan struct{}
	var force <-chan time.Time
	giveUp := func(why string) {
		if cause == "" {
			cause = why
			if cancel(); p != nil {
				force = time.After(connectGrace)
			}
		}
	}
	for {
		select {
		case r := <-connected:
			if cause == causeExit && r.err != nil && !errors.Is(r.err, ErrRespawn) {
				r.err = fmt.Errorf("it ended: %w (%w)", io.EOF, r.err) // what Connect says is that the pipes were closed
			}
			return r.sess, cause, r.err
		case <-deadline.C:
			giveUp(causeStartTimeout)
		case <-over:
			over = nil
			giveUp(causeTold)
		case <-exited: // Connect sees the end of stdout, unless a grandchild holds it
			exited, drained = nil, p.Emptied()
		case <-drained:
			// All that the process said has been read, so closing the pipes shows Connect
			// what the end of stdout would: it comes to the same conclusion, whichever of
			// the two is seen first, and although a descendant may hold stdout open.
			drained = nil
			if cause == "" {
				cause, force = causeExit, time.After(connectGrace)
				p.ClosePipes()
			}
		case <-force:
			cancel()
			p.ClosePipes()
		}
	}
}

// watch waits for the end of a ready instance and returns its cause.
func (s *server) watch(w want, sess Session, p *child.Child) (cause string, err error) {
	select {
	case <-w.over:
		s.drain(sess)
		return causeTold, nil
	case <-p.Exited():
		// Answers written just before the exit are still in the pipe.
		select {
		case <-sess.Done():
		case <-p.Emptied():
		}
		return causeExit, nil
	case <-sess.Done():
		if err = sess.Err(); errors.Is(err, ErrHung) {
			return causeHung, err
		}
		return s.causeOf(w, p, causeProtocol), err
	}
}

// drain lets the calls in flight finish where the server is to be replaced because
// its spec has changed. It ends early when something else is asked of the server:
// who stops or restarts a server, or takes it out, does not want to wait. A further
// change of the spec counts once the server is down, and does not prolong the drain.
func (s *server) drain(sess Session) {
	d, ok := sess.(Drainer)
	w := s.wanted()
	if !ok || w.cause != causeChanged || w.spec.Stop.Drain < 0 {
		return
	}
	s.move(func() { s.st.Phase, s.st.Since, s.st.Waiting = Stopping, s.kit.now(), draining })
	ctx, cancel := context.WithTimeout(context.Background(), w.spec.Stop.Drain)
	drained := make(chan struct{})
	go func() { defer close(drained); d.Drain(ctx) }()
	for w.cause == causeChanged {
		select {
		case <-drained:
			cancel()
			return
		case <-w.over:
			w = s.wanted()
		}
	}
	cancel()
	<-drained
}

// draining is Status.Waiting while calls in flight finish.
const draining = "its definition changed; it is replaced once the calls in flight have finished"

// causeOf is exit if the process ends by itself within a grace, told if it is
// told to end meanwhile, and otherwise the given cause.
func (s *server) causeOf(w want, p *child.Child, otherwise string) string {
	if p.Wait(exitGrace, w.over) {
		return causeExit
	}
	select {
	case <-w.over:
		return causeTold
	default:
		return otherwise
	}
}

func (s *server) ready(w want, sess Session, in Instance, took time.Duration, release func()) {
	info := sess.Info()
	s.enter(Ready)
	s.move(func() { s.sess, s.gen, s.outcome = sess, w.gen, nil })
	s.emitThen(signal.ServerStarted, &signal.Lifecycle{
		PID: in.PID, Attempt: in.Crashes, StartMS: took.Milliseconds(),
		ProtocolVersion: info.ProtocolVersion, ServerName: info.ServerName, ServerVersion: info.ServerVersion, Tools: info.Tools,
	}, release)
}
