//go:build linux

package serverkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestAServerStartsInItsGroupFolderAndEnvironmentAndStopsCleanly(t *testing.T) {
	t.Setenv("PLATFORM_SECRET", "do-not-tell")
	r := newRig(t)
	spec := fake(t, "env", "A=1", "A=2")
	r.apply(spec)
	s := r.session(0)
	var got []string
	for line := range s.lines {
		if line == "end" {
			break
		}
		got = append(got, line)
	}
	if want := spec.Dir + " true"; got[0] != want {
		t.Errorf("folder and own group: %q, want %q", got[0], want)
	}
	if !slices.Contains(got, "A=2") || slices.Contains(got, "A=1") {
		t.Errorf("the last of repeated keys must win: %v", got)
	}
	if strings.Contains(strings.Join(got, "\n"), "do-not-tell") {
		t.Error("the platform's own environment reached the child")
	}
	st := r.stat("env")
	if st.Phase != Ready || st.PID != s.in.PID || st.Session.ServerName != "fake" || st.Starts != 1 || st.Uptime <= 0 {
		t.Errorf("status %+v", st)
	}
	if err := r.Stop(t.Context(), "env"); err != nil {
		t.Fatal(err)
	}
	if st := r.stat("env"); st.Phase != Stopped || st.PID != 0 || st.LastExit.Cause != "requested" || *st.LastExit.Code != 0 {
		t.Errorf("status after stop %+v %+v", st, st.LastExit)
	}
	r.untilTold("env", "started", "stopping", "stopped")
	if !gone(s.in.PID) {
		t.Error("the process is still there")
	}
}

func TestAHungOrFailingServerDelaysNoOther(t *testing.T) {
	r := newRig(t)
	missing := fake(t, "missing")
	missing.Command = []string{"no-such-program"}
	r.Apply([]Spec{fake(t, "mute"), missing, fake(t, "crash-start"), fake(t, "good")})
	r.untilTold("good", "started")
	if st := r.stat("mute"); st.Phase != Starting {
		t.Errorf("the mute server is %s", st.Phase)
	}
}

func TestTheFourthCrashInARowIsFinalUntilAPersonRestartsIt(t *testing.T) {
	r := newRig(t)
	r.apply(fake(t, "crash-start"))
	r.untilTold("crash-start", "crashed", "restarting", "crashed", "restarting", "crashed", "restarting",
		"crashed", "permanently_failed")
	last := r.told("crash-start", signal.ServerPermanentlyFailed, 0)
	if last.Attempt != 4 || last.Cause != "exit" || *last.ExitCode != 1 ||
		!strings.Contains(last.Reason, "fatal: no configuration") || !slices.Equal(last.Stderr, []string{"fatal: no configuration"}) {
		t.Errorf("permanent failure says %+v", last)
	}
	eventually(t, "failed", func() bool { return r.stat("crash-start").Phase == Failed })
	if st := r.stat("crash-start"); st.Starts != 4 || st.Crashes != 4 || st.Restarts != 3 {
		t.Errorf("status %+v", st)
	}
	if err := r.Restart(t.Context(), "crash-start"); err == nil || !strings.Contains(err.Error(), "no configuration") {
		t.Errorf("restarting says %v", err)
	}
	if l := r.told("crash-start", signal.ServerCrashed, 4); l.Attempt != 1 {
		t.Errorf("after a restart by a person the count is %d, want 1", l.Attempt)
	}
}

func TestACrashWhileReadyTellsItsSignal(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "killed")
	spec.Restart.Never = true
	r.apply(spec)
	r.untilTold("killed", "started", "crashed", "permanently_failed")
	if l := r.told("killed", signal.ServerCrashed, 0); l.Cause != "signal" || l.ExitSignal != "SIGKILL" || l.ExitCode != nil {
		t.Errorf("crash says %+v", l)
	}
}

func TestAServerThatIsNotReadyInTimeIsEndedAndItsStderrQuoted(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "mute")
	spec.StartTimeout = 300 * time.Millisecond
	spec.Restart.Never = true
	r.apply(spec)
	l := r.told("mute", signal.ServerCrashed, 0)
	if l.Cause != "start_timeout" || !strings.Contains(l.Reason, "not ready within 300ms") || !strings.Contains(l.Reason, "waiting for the database") {
		t.Errorf("crash says %+v", l)
	}
}

func TestASpawnErrorNamesTheCommandAndWhatWasSearched(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "missing")
	spec.Command = []string{"no-such-program"}
	spec.Env = []string{"PATH=/usr/bin:/bin"}
	spec.Restart.Never = true
	r.apply(spec)
	l := r.told("missing", signal.ServerCrashed, 0)
	if l.Cause != "spawn_failed" || !strings.Contains(l.Reason, "no-such-program") || !strings.Contains(l.Reason, "/usr/bin:/bin") {
		t.Errorf("crash says %+v", l)
	}
}

func TestAHungServerIsKilledAndCountsAsACrash(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "immortal", "RECORD="+t.TempDir()+"/record")
	spec.Stop = StopPolicy{CloseWait: time.Hour, TermWait: time.Hour} // it must not wait for these
	r.apply(spec)
	r.session(0).hang()
	r.untilTold("immortal", "started", "crashed", "restarting", "started")
	if l := r.told("immortal", signal.ServerCrashed, 0); l.Cause != "hung" || l.ExitSignal != "SIGKILL" || l.Attempt != 1 {
		t.Errorf("crash says %+v", l)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	r.Shutdown(now) // kills, as there is no time
}

func TestAServerThatClosesItsStdoutButLivesIsEndedAndCountsAsACrash(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "close-stdout")
	spec.Stop = StopPolicy{CloseWait: time.Millisecond, TermWait: 10 * time.Second}
	spec.Restart.Never = true
	r.apply(spec)
	if l := r.told("close-stdout", signal.ServerCrashed, 0); l.Cause != "protocol" || l.ExitSignal != "SIGTERM" {
		t.Errorf("crash says %+v", l)
	}
}

func TestAnswersWrittenJustBeforeTheExitAreDelivered(t *testing.T) {
	for _, name := range []string{"exit-after", "leave-grandchild"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			record := t.TempDir() + "/record"
			spec := fake(t, name, "RECORD="+record)
			spec.Restart.Never = true
			spec.Stop.TermWait = 2 * time.Second // which its grandchild ignores
			r.apply(spec)
			s := r.session(0)
			if name == "leave-grandchild" {
				eventually(t, "the grandchild", func() bool { return len(recordedPIDs(t, record)) == 1 })
			}
			s.pipes.Stdin.WriteString("hello\n")
			if name == "leave-grandchild" {
				eventually(t, "the session is closed", func() bool { return s.closeCause() != nil })
				if over(recordedPIDs(t, record)[0]) {
					t.Error("calls in flight waited for the end of the grandchild")
				}
			}
			var got []string
			for line := range s.lines {
				got = append(got, line)
			}
			if want := []string{"hello", "last words"}; !slices.Equal(got, want) {
				t.Errorf("read %q, want %q", got, want)
			}
			if l := r.told(name, signal.ServerCrashed, 0); l.Cause != "exit" || *l.ExitCode != 0 {
				t.Errorf("crash says %+v", l)
			}
		})
	}
}

func TestInFlightCallsLearnWhyTheServerWent(t *testing.T) {
	code := func(s *session) string {
		<-s.done
		eventually(t, "close", func() bool { return s.closeCause() != nil })
		return fault.From(s.closeCause()).Code
	}
	r := newRig(t)
	spec := fake(t, "good")
	r.apply(spec)
	if err := r.Restart(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	if got := code(r.session(0)); got != fault.ServerRestarted {
		t.Errorf("restart: %s", got)
	}
	spec.Env = append(spec.Env, "NEW=1")
	r.apply(spec)
	if got := code(r.session(1)); got != fault.ServerRestarted {
		t.Errorf("changed: %s", got)
	}
	spec.Disabled = true
	r.apply(spec)
	if got := code(r.session(2)); got != fault.ServerStopped {
		t.Errorf("disabled: %s", got)
	}
	if st := r.stat("good"); st.Phase != Disabled || st.LastExit.Cause != "disabled" {
		t.Errorf("status %+v", st)
	}
	if err := r.Start(t.Context(), "good"); !errors.Is(err, ErrDisabled) {
		t.Errorf("starting a disabled server: %v", err)
	}
	spec.Disabled = false
	r.apply(spec)
	r.Apply(nil)
	if got := code(r.session(3)); got != fault.ServerStopped {
		t.Errorf("removed: %s", got)
	}
	r.untilTold("good", "started", "stopping", "stopped", "restarting", "started", "stopping", "stopped", "restarting",
		"started", "stopping", "stopped", "started", "stopping", "stopped")
	if l := r.told("good", signal.ServerStopped, 3); l.Cause != "removed" {
		t.Errorf("removal says %+v", l)
	}
	eventually(t, "forgotten", func() bool { return len(r.Status()) == 0 })
}

func TestApplyLeavesEqualServersAndStoppedOnesAlone(t *testing.T) {
	r := newRig(t)
	a, b := fake(t, "good"), fake(t, "good")
	a.Name, b.Name = "a", "b"
	r.apply(a, b)
	if err := r.Stop(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	pid := r.stat("a").PID
	c := fake(t, "good")
	c.Name = "c"
	r.apply(a, b, c)
	if st := r.stat("a"); st.PID != pid || st.Starts != 1 {
		t.Errorf("a was touched: %+v", st)
	}
	if st := r.stat("b"); st.Phase != Stopped {
		t.Errorf("b is %s though a person stopped it", st.Phase)
	}
	if st := r.stat("c"); st.Phase != Ready {
		t.Errorf("c is %s", st.Phase)
	}
	if err := r.Start(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if st := r.stat("b"); st.Phase != Ready {
		t.Errorf("b is %s after Start", st.Phase)
	}
	if err := r.Start(t.Context(), "nobody"); !errors.Is(err, ErrUnknownServer) {
		t.Errorf("starting an unknown server: %v", err)
	}
}

func TestAServerStoppedWhileItWaitsForARestartStaysDown(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "crash-start")
	spec.Restart = RestartPolicy{Base: time.Hour, Cap: time.Hour}
	r.apply(spec)
	r.untilTold("crash-start", "crashed", "restarting")
	if err := r.Stop(t.Context(), "crash-start"); err != nil {
		t.Fatal(err)
	}
	r.untilTold("crash-start", "crashed", "restarting", "stopped")
	if st := r.stat("crash-start"); st.Phase != Stopped || st.Starts != 1 {
		t.Errorf("status %+v", st)
	}
}

func TestARespawnIsAskedForOnceAndNotCounted(t *testing.T) {
	var got []Instance
	r := newRig(t, func(o *rigOptions) {
		inner := o.Connect
		o.Connect = func(ctx context.Context, in Instance, p Pipes) (Session, error) {
			got = append(got, in) // one server: Connect is never called twice at a time
			if in.Number <= 2 {
				return nil, errors.Join(errors.New("the probe ended it"), ErrRespawn)
			}
			return inner(ctx, in, p)
		}
	})
	r.Apply([]Spec{fake(t, "good")})
	r.untilTold("good", "crashed", "restarting", "started")
	if len(got) != 3 || !got[0].Probe || got[1].Probe || got[2].Probe || got[1].Crashes != 0 || got[2].Crashes != 1 {
		t.Errorf("instances %+v", got)
	}
	if st := r.stat("good"); st.Starts != 3 || st.Restarts != 1 {
		t.Errorf("%d starts and %d restarts; the respawn is none", st.Starts, st.Restarts)
	}
	if err := r.Restart(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	if st := r.stat("good"); st.Starts != 4 || st.Restarts != 1 {
		t.Errorf("%d starts and %d restarts; a person's is none", st.Starts, st.Restarts)
	}
}

func TestACrashAfterStableHealthIsTheFirstAgain(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "good")
	spec.Restart.StableAfter = time.Nanosecond
	r.apply(spec)
	for n := range 6 { // more than the policy would forgive in a row
		s := r.session(n)
		r.told("good", signal.ServerStarted, n)
		s.hang()
		if l := r.told("good", signal.ServerCrashed, n); l.Attempt != 1 {
			t.Fatalf("crash %d counts as %d", n, l.Attempt)
		}
	}
}

func TestTheBreakerDelaysAllSpawnsButTheFirstOfEachServerAndLosesNone(t *testing.T) {
	release := make(chan time.Time)
	var waits atomic.Int32
	r := newRig(t, func(o *rigOptions) { o.SpawnsPerMinute, o.SpawnBurst = 1, 2 })
	r.after = func(d time.Duration) <-chan time.Time {
		waits.Add(1)
		if d < 10*time.Second {
			t.Errorf("a spawn waits %v", d)
		}
		return release
	}
	var specs []Spec
	for _, name := range []string{"a", "b", "c", "d"} {
		s := fake(t, "good")
		s.Name = name
		specs = append(specs, s)
	}
	r.Apply(specs)
	r.until("four servers", func() bool { return len(r.sessions) == 4 })
	if n := waits.Load(); n != 0 {
		t.Errorf("%d first starts waited", n)
	}
	for i := range specs {
		specs[i].Revision = "2"
	}
	r.Apply(specs)
	r.until("two more", func() bool { return len(r.sessions) == 6 })
	for range 2 {
		release <- time.Time{}
	}
	r.until("all four", func() bool { return len(r.sessions) == 8 })
	if n := waits.Load(); n != 2 {
		t.Errorf("%d starts waited, want 2", n)
	}
}

func TestShutdownIsParallelAndForbidsFurtherStarts(t *testing.T) {
	r := newRig(t)
	family := fake(t, "grandchild-session", "RECORD="+t.TempDir()+"/r")
	family.Stop.TermWait = 100 * time.Millisecond // what the grandchild ignores
	r.apply(fake(t, "good"), family)
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), "good"); !errors.Is(err, ErrClosed) {
		t.Errorf("starting after shutdown: %v", err)
	}
	r.Apply([]Spec{fake(t, "good")})
	if left := r.Status(); len(left) != 0 {
		t.Errorf("servers after shutdown: %+v", left)
	}
	if l := r.told("good", signal.ServerStopped, 0); l.Cause != "shutdown" {
		t.Errorf("shutdown says %+v", l)
	}
}

func TestShutdownOutOfTimeKills(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "immortal", "RECORD="+t.TempDir()+"/record")
	spec.Stop = StopPolicy{CloseWait: time.Hour, TermWait: time.Hour}
	r.apply(spec)
	pid := r.stat("immortal").PID
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r.Shutdown(ctx)
	if !gone(pid) {
		t.Error("the process is still there")
	}
}

// held is a session whose own signals wait for Release.
type held struct {
	Session
	released chan struct{}
}

func (h held) Release() { close(h.released) }

func TestASessionIsReleasedOnceTheSinkHasTakenThatItStarted(t *testing.T) {
	released := make(chan struct{})
	take, taking := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(o *rigOptions) {
		inner, sink := o.Connect, o.Sink
		o.Connect = func(ctx context.Context, in Instance, p Pipes) (Session, error) {
			s, err := inner(ctx, in, p)
			if err != nil {
				return nil, err
			}
			return held{s, released}, nil
		}
		o.Sink = signal.SinkFunc(func(ctx context.Context, s signal.Signal) error {
			if s.Kind == signal.ServerStarted {
				close(taking)
				<-take
				select {
				case <-released:
					t.Error("released before the sink has taken the start")
				default:
				}
			}
			return sink.Observe(ctx, s)
		})
	})
	r.apply(fake(t, "good"))
	<-taking
	close(take)
	<-released
	r.untilTold("good", "started")
}

func TestASessionThatNeverCountsAsStartedIsReleasedToo(t *testing.T) {
	released := make(chan struct{})
	r := newRig(t, func(o *rigOptions) {
		inner := o.Connect
		o.Connect = func(ctx context.Context, in Instance, p Pipes) (Session, error) {
			s, err := inner(context.WithoutCancel(ctx), in, p)
			if err != nil {
				return nil, err
			}
			<-ctx.Done() // it comes too late
			return held{s, released}, nil
		}
	})
	spec := fake(t, "good")
	spec.StartTimeout, spec.Restart.Never = 300*time.Millisecond, true
	r.apply(spec)
	<-released
	r.untilTold("good", "crashed", "permanently_failed")
}

func TestABlockedSinkDoesNotKeepProcessesAlive(t *testing.T) {
	block := make(chan struct{})
	r := newRig(t, func(o *rigOptions) {
		o.Sink = signal.SinkFunc(func(ctx context.Context, _ signal.Signal) error {
			select {
			case <-block:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	r.apply(fake(t, "good"))
	pid := r.stat("good").PID
	if err := r.Stop(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Error("the process is still there")
	}
	close(block)
}

func TestTheLogFileTellsStartsAndEnds(t *testing.T) {
	r := newRig(t)
	r.apply(fake(t, "secret", "TOKEN=harmless"))
	if err := r.Stop(t.Context(), "secret"); err != nil {
		t.Fatal(err)
	}
	path := r.stat("secret").LogPath
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--- start 1\n", "token=harmless", "--- pid "} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q is missing in\n%s", want, b)
		}
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the log's mode is %v", info.Mode())
	}
}

func TestAServerThatDiesOfTheProbeIsSpawnedAgainWhicheverOfItsEndsIsSeenFirst(t *testing.T) {
	for _, name := range []string{
		"held-stdout", // the exit is seen, and the end of stdout never comes
		"early-end",   // the end of stdout is seen, and the exit never comes
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) {
				inner := o.Connect
				o.Connect = func(ctx context.Context, in Instance, p Pipes) (Session, error) {
					s, err := inner(ctx, in, p)
					if err != nil && in.Probe && ctx.Err() == nil { // as a client tells it
						return nil, fmt.Errorf("%w: %w", ErrRespawn, err)
					}
					return s, err
				}
			})
			r.apply(fake(t, name))
			r.untilTold(name, "started")
			if st := r.stat(name); st.Restarts != 0 || st.Crashes != 0 || st.Starts != 2 {
				t.Errorf("status %+v", st)
			}
		})
	}
}

func TestWhatIsTheKitsOwnBusinessTakesEffectInPlace(t *testing.T) {
	r := newRig(t)
	spec := fake(t, "good")
	r.apply(spec)
	pid := r.stat("good").PID
	spec.StartTimeout, spec.Restart.Never, spec.Stop.TermWait, spec.Secrets = time.Hour, true, time.Minute, []string{"secret-value"}
	r.apply(spec)
	if st := r.stat("good"); st.PID != pid || st.Starts != 1 {
		t.Errorf("the server was touched: %+v", st)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.untilTold("good", "started", "crashed", "permanently_failed")
	spec.Restart.Never = false
	r.apply(spec) // a server that has failed is started under another policy
	r.untilTold("good", "started", "crashed", "permanently_failed", "started")
}

// drainingSession is a session with a call in flight until finish is closed.
type drainingSession struct {
	Session
	begun, finish chan struct{}
}

func (s *drainingSession) Drain(ctx context.Context) {
	close(s.begun)
	select {
	case <-s.finish:
	case <-ctx.Done():
	}
}

func TestACallInFlightFinishesBeforeAChangedServerIsReplaced(t *testing.T) {
	setUp := func(t *testing.T, drain time.Duration) (*rig, Spec, *drainingSession) {
		busy := &drainingSession{begun: make(chan struct{}), finish: make(chan struct{})}
		r := newRig(t, func(o *rigOptions) {
			inner := o.Connect
			o.Connect = func(ctx context.Context, in Instance, p Pipes) (Session, error) {
				s, err := inner(ctx, in, p)
				if err == nil && in.Number == 1 {
					busy.Session = s
					return busy, nil
				}
				return s, err
			}
		})
		spec := fake(t, "good")
		spec.Stop.Drain = drain
		r.apply(spec)
		spec.Revision = "2"
		r.Apply([]Spec{spec})
		<-busy.begun
		return r, spec, busy
	}
	t.Run("and a change meanwhile is what runs then", func(t *testing.T) {
		r, spec, busy := setUp(t, time.Hour)
		if st := r.stat("good"); st.Phase != Stopping || st.PID == 0 || !strings.Contains(st.Waiting, "in flight") {
			t.Errorf("status %+v", st)
		}
		spec.Env = append(spec.Env, "SECOND=change")
		r.Apply([]Spec{spec})
		if st := r.stat("good"); st.Phase != Stopping || st.PID != busy.Session.(*session).in.PID {
			t.Errorf("a second change ended the drain: %+v", st)
		}
		close(busy.finish)
		r.untilTold("good", "started", "stopping", "stopped", "restarting", "started")
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", r.stat("good").PID))
		if err != nil || !strings.Contains(string(env), "SECOND=change") {
			t.Errorf("the second change does not run: %v", err)
		}
	})
	t.Run("but not for longer than its bound", func(t *testing.T) {
		r, _, _ := setUp(t, time.Millisecond)
		r.untilTold("good", "started", "stopping", "stopped", "restarting", "started")
	})
	t.Run("nor where a person does not want to wait", func(t *testing.T) {
		r, _, _ := setUp(t, time.Hour)
		if err := r.Stop(t.Context(), "good"); err != nil {
			t.Fatal(err)
		}
	})
}
