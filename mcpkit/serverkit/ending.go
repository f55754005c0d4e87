package serverkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/child"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"golang.org/x/sys/unix"
)

// quoteLines of stderr end the sentence about a failed start whose cause is not clear.
const quoteLines = 3

// ending is how an instance ended.
type ending struct {
	told    bool // it was told to end
	pid     int
	exit    Exit
	ready   bool          // it was; of an Endpoint alone
	healthy time.Duration // for how long it was
	err     error         // of Attach or the session
}

func (e ending) lifecycle(crashes int, reason string) *signal.Lifecycle {
	return &signal.Lifecycle{
		PID: e.pid, Attempt: crashes, Cause: e.exit.Cause, Reason: reason,
		ExitCode: e.exit.Code, ExitSignal: e.exit.Signal, Stderr: e.exit.Stderr,
		UptimeMS: e.exit.Uptime.Milliseconds(),
	}
}

// toldFault is what calls in flight fail with when next replaces a want.
func toldFault(name string, next want) *fault.Error {
	if next.up {
		return fault.New(fault.ServerRestarted, "server %s is being restarted: %s", name, asked[next.cause]).Retry().Unknown()
	}
	return fault.New(fault.ServerStopped, "server %s is being stopped: %s", name, asked[next.cause]).Unknown()
}

// exit says how an instance ended, whose stderr began at mark.
func (s *server) exit(cause string, e ending, state *child.State, spawned time.Time, ready bool, limit time.Duration, mark int) Exit {
	x := Exit{Cause: cause, Stderr: s.stderr.Tail(mark), Time: s.kit.now()}
	x.Uptime = x.Time.Sub(spawned)
	how := "its exit is unknown"
	if state != nil {
		if state.Status.Signaled() {
			x.Signal = unix.SignalName(state.Status.Signal())
			how = "ended by " + x.Signal
		} else {
			code := state.ExitCode()
			x.Code = &code
			how = fmt.Sprintf("exited with code %d", code)
		}
	}
	if cause == causeExit && state != nil && state.Exceeded != "" {
		x.Cause, x.Reason = causeLimit, "ended for exceeding a limit: "+state.Exceeded
		return x
	}
	switch cause {
	case causeExit:
		if x.Signal != "" {
			x.Cause = causeSignal
		}
		x.Reason = how
		if !ready {
			x.Reason += " before it was ready"
			if e.err != nil && !errors.Is(e.err, io.EOF) { // it was let go, and then ended
				x.Cause, x.Reason = causeProtocol, fmt.Sprintf("could not be initialized: %v; it %s", e.err, how)
			}
		}
	case causeStartTimeout:
		x.Reason = fmt.Sprintf("was not ready within %v", limit)
	case causeHung, causeProtocol:
		x.Reason = "the session ended"
		if !ready {
			x.Reason = "could not be initialized"
		}
		if e.err != nil {
			x.Reason += ": " + e.err.Error()
		}
	default:
		x.Reason = asked[cause]
	}
	if !e.told {
		x.Reason += s.words(e.err, ready, mark, x.Stderr)
	}
	return x
}

// words continue the reason of an end that nobody asked for with what the server itself
// says: a clear cause always, and of a start that failed the end of its stderr.
func (s *server) words(err error, ready bool, mark int, tail []string) string {
	said := ""
	switch why := s.stderr.Cause(mark); {
	case why != nil:
		said = "; stderr says: " + strings.Join(why, " | ")
	case ready:
	case len(tail) > 0:
		said = "; stderr ends: " + strings.Join(tail[max(0, len(tail)-quoteLines):], " | ")
	default:
		said = "; it wrote nothing to stderr"
	}
	if says, ok := errors.AsType[evidence](err); ok && !ready {
		said += "; " + s.stderr.Clean(says.Evidence())
	}
	return said
}

// evidence is an error of Spec.Connect that says for a person what the server did wrong.
type evidence interface {
	error
	Evidence() string
}

// levels at which signals are logged; the rest is Info.
var levels = map[signal.Kind]slog.Level{
	signal.ServerCrashed:           slog.LevelWarn,
	signal.ServerPermanentlyFailed: slog.LevelError,
}

// emit tells the sink, and the log, what happened.
func (s *server) emit(kind signal.Kind, l *signal.Lifecycle) { s.emitThen(kind, l, nil) }

// emitThen calls then, if it is not nil, when the sink is through with the signal.
func (s *server) emitThen(kind signal.Kind, l *signal.Lifecycle, then func()) {
	what := strings.ReplaceAll(strings.TrimPrefix(string(kind), "lifecycle."), "_", " ")
	summary := s.name + " " + what
	if l.Reason != "" {
		summary += ": " + l.Reason
	}
	attrs := []any{"pid", l.PID}
	if l.Cause != "" {
		attrs = append(attrs, "cause", l.Cause, "reason", l.Reason)
	}
	s.log.Log(context.Background(), levels[kind], "server "+what, attrs...)
	s.mu.Lock()
	instance := fmt.Sprint(s.st.Starts)
	s.mu.Unlock()
	told := signal.Signal{Kind: kind, Server: s.name, Instance: instance, Time: s.kit.now(), Summary: summary, Data: l}
	if !s.kit.emitter.emit(emission{told, then}, s.kit.hurry) {
		s.log.Error("a lifecycle signal was dropped: the sink takes none and there is no time", "kind", string(kind))
		if then != nil {
			then()
		}
	}
}
