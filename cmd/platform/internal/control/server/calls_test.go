package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestACallIsAnsweredWithItsResultAsItsServerWroteIt(t *testing.T) {
	s := start(t, nil)
	res, body := s.do("POST", "/v1/calls", `{"id":"c:1~2.3","name":"big","entrance":"cli","timeout_ms":7,"arguments":{"n":9007199254740993}}`)
	if res.StatusCode != 200 || !strings.Contains(body, `"call_id":"c:1~2.3"`) || strings.Count(body, "<x>") != 1<<20 {
		t.Errorf("got %s %.200s", res.Status, body)
	}
	if r := <-s.seen; string(r.Arguments) != `{"n":9007199254740993}` || r.TimeoutMS != 7 || r.Entrance != "cli" {
		t.Errorf("the backend got %+v", r)
	}
	s.do("POST", "/v1/calls", `{"name":"echo"}`)
	if r := <-s.seen; r.Entrance != "api" || len(r.ID) != 26 {
		t.Errorf("the backend got %+v", r)
	}
	s.refused(404, control.CallNotFound, "GET", "/v1/calls/c:1~2.3", "")
}

func TestAnAsynchronousCallIsAskedForWaitedForAndKept(t *testing.T) {
	s := start(t, nil)
	res, body := s.do("POST", "/v1/calls", `{"name":"hold","id":"a","async":true}`)
	if res.StatusCode != http.StatusAccepted || res.Header.Get("Location") != "/v1/calls/a" || !strings.Contains(body, `"state":"running"`) {
		t.Fatalf("got %s %v %s", res.Status, res.Header, body)
	}
	receive(t, "the call", s.held)
	if st := s.state("GET", "/v1/calls/a"); st.State != "running" || st.Response != nil {
		t.Errorf("the state is %+v", st)
	}
	waited := make(chan control.CallState, 1)
	go func() { waited <- s.state("GET", "/v1/calls/a?wait=true") }()
	s.release <- struct{}{}
	for _, st := range []control.CallState{receive(t, "the end", waited), s.state("GET", "/v1/calls/a"), s.state("DELETE", "/v1/calls/a")} {
		if st.State != "completed" || st.Response == nil || st.Response.CallID != "a" || st.Problem != nil {
			t.Errorf("the state is %+v", st)
		}
	}
	s.do("POST", "/v1/calls", `{"name":"fail","id":"b","async":true,"arguments":{"c":"server_crashed"}}`)
	if st := s.state("GET", "/v1/calls/b?wait=true"); st.State != "failed" || st.Problem.Code != "server_crashed" || st.Problem.Status != 502 || st.Problem.Outcome != "unknown" {
		t.Errorf("the state is %+v", st)
	}
}

func TestACallThatIsDeletedEndsAsCancelled(t *testing.T) {
	s := start(t, nil)
	s.do("POST", "/v1/calls", `{"name":"hold","id":"async","async":true}`)
	receive(t, "the call", s.held)
	if st := s.state("DELETE", "/v1/calls/async"); st.State != "failed" || st.Problem.Code != fault.Cancelled {
		t.Errorf("the state is %+v", st)
	}
	var sync sync.WaitGroup
	sync.Go(func() { s.refused(409, fault.Cancelled, "POST", "/v1/calls", `{"name":"hold","id":"sync"}`) })
	receive(t, "the call", s.held)
	if st := s.state("DELETE", "/v1/calls/sync"); st.State != "failed" {
		t.Errorf("the state is %+v", st)
	}
	sync.Wait()
	s.refused(404, control.CallNotFound, "DELETE", "/v1/calls/sync", "")
}

func TestAClientThatLeavesCancelsTheCallThatItWaitsForAndNoOther(t *testing.T) {
	s := start(t, nil)
	s.do("POST", "/v1/calls", `{"name":"hold","id":"async","async":true}`)
	receive(t, "the call", s.held)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.http.Do(s.request(ctx, "POST", "/v1/calls", `{"name":"hold","id":"sync"}`))
		left <- err
	}()
	receive(t, "the call", s.held)
	leave()
	if err := <-left; err == nil {
		t.Error("the client did not leave")
	}
	until(t, "the end of the call", func() bool {
		res, _ := s.do("GET", "/v1/calls/sync", "")
		return res.StatusCode == 404
	})
	if st := s.state("GET", "/v1/calls/async"); st.State != "running" {
		t.Errorf("the state is %+v", st)
	}
	s.release <- struct{}{}
}

func TestAnIDThatIsInUseIsRefused(t *testing.T) {
	s := start(t, nil)
	s.do("POST", "/v1/calls", `{"name":"hold","id":"a","async":true}`)
	s.refused(409, control.CallIDInUse, "POST", "/v1/calls", `{"name":"echo","id":"a"}`)
	s.release <- struct{}{}
	s.state("GET", "/v1/calls/a?wait=true")
	s.refused(409, control.CallIDInUse, "POST", "/v1/calls", `{"name":"echo","id":"a","async":true}`)
}

func TestMoreCallsThanTheLimitAreBusy(t *testing.T) {
	s := start(t, func(l *limits, _ *Options) { l.calls = 2 })
	for _, id := range []string{"a", "b"} {
		s.do("POST", "/v1/calls", `{"name":"hold","async":true,"id":"`+id+`"}`)
	}
	s.refused(429, fault.Busy, "POST", "/v1/calls", `{"name":"echo"}`)
	s.release <- struct{}{}
	until(t, "room for a call", func() bool {
		res, _ := s.do("POST", "/v1/calls", `{"name":"echo"}`)
		return res.StatusCode == 200
	})
	s.release <- struct{}{}
}

func TestADefectFailsItsOwnCallAlone(t *testing.T) {
	s := start(t, nil)
	s.refused(500, fault.Internal, "POST", "/v1/calls", `{"name":"panic"}`)
	s.do("POST", "/v1/calls", `{"name":"panic","id":"a","async":true}`)
	if st := s.state("GET", "/v1/calls/a?wait=true"); st.State != "failed" || st.Problem.Code != fault.Internal || st.Problem.Outcome != "unknown" {
		t.Errorf("the state is %+v", st)
	}
	s.refused(500, fault.Internal, "POST", "/v1/servers/s/restart", "")
	if n := strings.Count(s.log.String(), "stack="); n != 3 || strings.Contains(s.log.String(), "panic serving") {
		t.Errorf("the log tells %d defects:\n%s", n, s.log)
	}
	if res, _ := s.do("POST", "/v1/calls", `{"name":"echo"}`); res.StatusCode != 200 {
		t.Errorf("after the defects: %s", res.Status)
	}
}

func TestEveryCodeHasItsStatus(t *testing.T) {
	s := start(t, nil)
	for code, status := range map[string]int{
		fault.ToolNotFound: 404, fault.AmbiguousCall: 400, fault.InvalidArguments: 400, fault.InvalidResult: 502,
		fault.Denied: 403, fault.ApprovalRequired: 403, fault.Timeout: 504, fault.Cancelled: 409, fault.ServerCrashed: 502,
		fault.ServerRestarted: 502, fault.ServerUnstable: 502, fault.ServerStopped: 502, fault.ServerNotReady: 503,
		fault.InputRequired: 502, fault.ResultTooLarge: 502, fault.Protocol: 502, fault.Busy: 429, fault.RateLimited: 429,
		fault.DuplicateCall: 409, fault.Interrupted: 503, fault.Internal: 500,
	} {
		s.refused(status, code, "POST", "/v1/calls", fmt.Sprintf(`{"name":"fail","arguments":{"c":%q}}`, code))
	}
}

func TestCallsHaveHalfOfTheGraceAtTheEnd(t *testing.T) {
	s := start(t, func(_ *limits, o *Options) { o.Grace = time.Minute })
	s.do("POST", "/v1/calls", `{"name":"hold","id":"async","async":true}`)
	receive(t, "the call", s.held)
	answered := make(chan int, 1)
	go func() {
		res, _ := s.do("POST", "/v1/calls", `{"name":"hold","id":"sync"}`)
		answered <- res.StatusCode
	}()
	receive(t, "the call", s.held)
	s.stop()
	s.release <- struct{}{}
	s.release <- struct{}{}
	if status := receive(t, "the answer", answered); status != 200 {
		t.Errorf("the call that ended within the grace was answered with %d", status)
	}
}

func TestCallsThatDoNotEndAreCancelledAndToldSo(t *testing.T) {
	s := start(t, nil)
	s.do("POST", "/v1/calls", `{"name":"hold","id":"async","async":true}`)
	receive(t, "the call", s.held)
	var sync sync.WaitGroup
	sync.Go(func() { s.refused(503, fault.Interrupted, "POST", "/v1/calls", `{"name":"hold"}`) })
	receive(t, "the call", s.held)
	sync.Go(func() {
		if st := s.state("GET", "/v1/calls/async?wait=true"); st.State != "running" {
			t.Errorf("who waits is told %+v", st)
		}
	})
	until(t, "the wait", func() bool { return s.api.streams.Len() == 1 })
	if err := s.end(); err != nil {
		t.Error(err)
	}
	sync.Wait()
}

func TestServeReturnsWhenNothingRunsAnyMore(t *testing.T) {
	s := start(t, func(_ *limits, o *Options) { o.Grace = 10 * time.Millisecond })
	s.do("POST", "/v1/calls", `{"name":"linger","async":true}`)
	receive(t, "the call", s.held)
	s.stop()
	select {
	case err := <-s.done:
		t.Fatalf("the API ended before its call did: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	s.release <- struct{}{}
}

func TestAClientThatSaysNothingDoesNotMakeTheEndAFailure(t *testing.T) {
	for what, said := range map[string]string{
		"nothing":       "",
		"half a header": "GET /v1/version HTTP/1.1\r\nHost: pl",
		"half a body":   "POST /v1/calls HTTP/1.1\r\nHost: platform\r\nContent-Length: 100\r\n\r\n{",
	} {
		s := start(t, func(_ *limits, o *Options) { o.Grace = 200 * time.Millisecond })
		path, _, err := endpoint.SocketPath(s.data)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, said); err != nil {
			t.Fatal(err)
		}
		s.do("GET", "/v1/version", "") // on a later connection, so the other is accepted
		if err := s.end(); err != nil {
			t.Errorf("after %s the API ended with %v", what, err)
		}
		if cut := strings.Contains(s.log.String(), "cut off"); said == "" && cut {
			t.Error("a connection without a request was waited for")
		}
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the connection was left open: %v", err)
		}
	}
}
