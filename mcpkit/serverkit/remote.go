package serverkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// hold keeps one connection after the other to a server at an Endpoint while w is
// wanted. Beside serve, which does the same for processes, three things differ:
//
// What passes, such as a server that cannot be reached, is tried again without
// end; only the pauses grow. Such an outage is told once and not with each
// attempt, as it may last for days.
//
// A server that wants another authorization is not tried again before Start.
//
// A connection whose session the server has forgotten, or whose authorization it
// no longer takes, is opened again at once; only if that fails too it counts.
func (s *server) hold(w want) {
	policy := newRestarts(w.spec.Restart)
	s.move(func() { s.describe(w.spec); s.st.Crashes = 0 })
	told, again := false, false // of this outage; that the present attempt is the one at once
	for {
		s.enter(Connecting)
		end := s.connection(w, Instance{Name: s.name, Crashes: policy.crashes})
		if end.told {
			return
		}
		cause := end.exit.Cause
		if end.ready {
			told = false
		}
		if stale := cause == causeExpired || cause == causeNeedsAuth; end.ready && stale && (!again || end.healthy >= w.spec.Restart.StableAfter) {
			again = true
			s.move(func() { s.st.Restarts++ })
			s.emit(signal.ServerRestarting, end.lifecycle(policy.crashes, end.exit.Reason))
			continue
		}
		again = false
		passes := passes(end.err)
		w = s.latest(w)
		policy.follow(w.spec.Restart)
		delay, more := policy.crashed(end.healthy, passes)
		delay = max(delay, retryAfter(end.err))
		phase := Backoff
		switch {
		case cause == causeNeedsAuth:
			phase = NeedsAuth
		case !more:
			phase = Failed
		}
		s.enter(phase) // before the outcome is known: who hears of it may call Start
		s.lost(w, end, policy.crashes, told && passes)
		switch phase {
		case NeedsAuth:
			<-w.over
			return
		case Failed:
			reason := fmt.Sprintf("failure %d in a row; the last: %s", policy.crashes, end.exit.Reason)
			if w.spec.Restart.Never {
				reason = "reconnecting is off; " + end.exit.Reason
			}
			s.emit(signal.ServerPermanentlyFailed, end.lifecycle(policy.crashes, reason))
			<-w.over
			return
		}
		if !told || !passes {
			l := end.lifecycle(policy.crashes, end.exit.Reason)
			l.BackoffMS = delay.Milliseconds()
			s.emit(signal.ServerRestarting, l)
		}
		told = true
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

// lost records the end of a connection, or of an attempt at one, and tells of it
// unless that was told already.
func (s *server) lost(w want, e ending, crashes int, told bool) {
	if !told {
		s.crashed(w, e, crashes)
		return
	}
	s.move(func() {
		s.st.LastExit, s.st.Crashes = &e.exit, crashes
		s.gen, s.outcome = w.gen, errors.New(e.exit.Reason)
	})
	s.log.Debug("the server still cannot be used", "attempt", crashes, "reason", e.exit.Reason)
}

// connection is one connection from the attempt to its end.
func (s *server) connection(w want, in Instance) ending {
	k, began := s.kit, s.kit.now()
	s.move(func() { s.st.Starts++; in.Number = s.st.Starts; s.up = began })
	sess, cause, err := s.connect(w, in, nil)
	e := ending{err: err, ready: cause == "" && err == nil}
	release := func() {}
	if r, ok := sess.(Releaser); ok {
		release = r.Release
	}
	switch {
	case e.ready:
		since := k.now()
		s.stderr.Note("connection %d is open", in.Number)
		s.ready(w, sess, in, since.Sub(began), release)
		select {
		case <-w.over:
			s.drain(sess)
			cause = causeTold
		case <-sess.Done():
			e.err = sess.Err()
		}
		e.healthy = k.now().Sub(since)
	default:
		release()
	}
	e.told = cause == causeTold
	if e.told {
		next := s.wanted()
		cause = next.cause
		s.emit(signal.ServerStopping, &signal.Lifecycle{Cause: cause, Reason: asked[cause]})
		s.enter(Stopping)
		s.part(sess, toldFault(s.name, next))
	} else {
		s.enter(Stopping)
		s.part(sess, fault.New(fault.ConnectionLost, "the connection to server %s ended", s.name).Unknown())
	}
	e.exit = s.parted(cause, e, began, w.spec.StartTimeout)
	s.stderr.Note("connection %d: %s", in.Number, s.stderr.Clean(e.exit.Reason))
	s.move(func() { s.sess, s.st.LastExit = nil, &e.exit })
	if e.told {
		s.emit(signal.ServerStopped, e.lifecycle(0, e.exit.Reason))
		if next := s.wanted(); next.up {
			s.emit(signal.ServerRestarting, &signal.Lifecycle{Cause: next.cause, Reason: asked[next.cause]})
		}
	}
	return e
}

// partWait is how long a session may take to end.
const partWait = 4 * time.Second

// part ends a session, if there is one, and waits until its signals are taken.
func (s *server) part(sess Session, why *fault.Error) {
	if sess == nil {
		return
	}
	sess.Close(why)
	select {
	case <-sess.Done():
	case <-s.kit.hurry:
	case <-time.After(partWait):
		s.log.Error("a session does not end")
	}
}

// parted says how a connection ended.
func (s *server) parted(cause string, e ending, began time.Time, limit time.Duration) Exit {
	x := Exit{Cause: cause, Time: s.kit.now()}
	x.Uptime = x.Time.Sub(began)
	var f *fault.Error
	switch errors.As(e.err, &f); {
	case cause == causeStartTimeout:
		x.Reason = fmt.Sprintf("was not ready within %v", limit)
		return x
	case cause != "":
		x.Reason = asked[cause]
		return x
	case f != nil && f.Code == fault.NeedsAuth:
		x.Cause = causeNeedsAuth
	case f != nil && f.Code == fault.SessionExpired:
		x.Cause = causeExpired
	case errors.Is(e.err, ErrHung):
		x.Cause = causeHung
	case e.ready:
		x.Cause = causeLost
	case passes(e.err):
		x.Cause = causeConnect
	default:
		x.Cause = causeProtocol
	}
	switch {
	case f != nil:
		x.Reason = f.Message
	case e.ready:
		x.Reason = "the connection ended: " + e.err.Error()
	default:
		x.Reason = e.err.Error()
	}
	x.Reason = s.stderr.Clean(x.Reason)
	return x
}

// passes reports whether what went wrong may be over by itself.
func passes(err error) bool {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err == nil || errors.Is(err, ErrHung) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	}
	switch f.Code {
	case fault.ConnectionLost, fault.Unavailable, fault.Timeout, fault.RateLimited, fault.SessionExpired, fault.Busy:
		return true
	case fault.Unreachable:
		return f.Retryable
	}
	return false
}

// retryAfter is the pause that a server which takes no more requests asks for, or
// 0, and an hour at most.
func retryAfter(err error) time.Duration {
	var f *fault.Error
	var data struct {
		MS int64 `json:"retry_after_ms"`
	}
	if !errors.As(err, &f) || f.Code != fault.RateLimited || json.Unmarshal(f.Data, &data) != nil {
		return 0
	}
	return min(time.Duration(data.MS)*time.Millisecond, time.Hour)
}

// address is an endpoint as it may be shown: the query and a user may hold
// secrets.
func (s *server) address(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return s.stderr.Clean(u.String())
}
