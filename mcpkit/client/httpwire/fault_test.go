package httpwire_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/faultproxy"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/request"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// asJSON answers with single bodies, where the others answer with streams.
func asJSON(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true})
}

const page = "<!DOCTYPE html><html><head><style>p {color: red}</style><title>502 Bad\x07 Gateway</title></head>\n<body><p>nginx \u202e says &lt;no&gt;</p></body></html>"

// callFaults are what happens to a single call, and what its caller sees.
var callFaults = []struct {
	name    string
	fault   faultproxy.Fault
	code    string
	outcome fault.Outcome
	words   string
	ran     int // how often the tool ran
}{
	{"cut before the server", faultproxy.CutRequest, fault.ConnectionLost, fault.OutcomeUnknown, "broke before tools/call was answered", 0},
	{"cut after the server", faultproxy.CutAnswer(0), fault.ConnectionLost, fault.OutcomeUnknown, "broke before tools/call was answered", 1},
	{"cut in the answer", faultproxy.CutAnswer(20), fault.ConnectionLost, fault.OutcomeUnknown, "in the answer to tools/call", 1},
	{"an empty answer", faultproxy.Answer(200, "", "Content-Type: application/json"), fault.Protocol, fault.OutcomeUnknown, "nothing else", 0},
	{"accepted and no answer", faultproxy.Answer(202, ""), fault.Protocol, fault.OutcomeUnknown, "202", 0},
	{"another answer", faultproxy.Answer(200, `{"jsonrpc":"2.0","id":12345,"result":{}}`, "Content-Type: application/json"), fault.Protocol, fault.OutcomeUnknown, "something else", 0},
	{"an answer that is cut off and looks whole", faultproxy.Answer(200, `{"jsonrpc":"2.0","id":1,"resu`, "Content-Type: application/json"), fault.Protocol, fault.OutcomeUnknown, "something else", 0},
	{"HTML with 200", faultproxy.Answer(200, page, "Content-Type: text/html; charset=utf-8"), fault.NotMCP, fault.OutcomeUnknown, "502 Bad Gateway nginx says &lt;no&gt;", 0},
	{"HTML with 502", faultproxy.Answer(502, page, "Content-Type: text/html"), fault.Unavailable, fault.OutcomeUnknown, "502 Bad Gateway: 502 Bad Gateway nginx", 0},
	{"HTML with 410", faultproxy.Answer(410, page, "Content-Type: text/html"), fault.NotMCP, fault.OutcomeFailed, "410", 0},
	{"500", faultproxy.Answer(500, "boom"), fault.Unavailable, fault.OutcomeUnknown, "500 Internal Server Error: boom", 0},
	{"503 with an error of nobody", faultproxy.Answer(503, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"overloaded"}}`, "Content-Type: application/json"), fault.Unavailable, fault.OutcomeUnknown, "overloaded", 0},
	{"403", faultproxy.Answer(403, "not you", "WWW-Authenticate: Bearer"), fault.NeedsAuth, fault.OutcomeFailed, "403 Forbidden: not you", 0},
	{"429", faultproxy.Answer(429, "slowly", "Retry-After: 7"), fault.RateLimited, fault.OutcomeFailed, "wait for 7s", 0},
	{"413", faultproxy.Answer(413, "too much"), fault.HTTPStatus, fault.OutcomeFailed, "413", 0},
	{"a JSON-RPC error with status 400", faultproxy.Answer(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such thing"}}`, "Content-Type: application/json"), fault.Protocol, fault.OutcomeFailed, "no such thing", 0},
	{"sent elsewhere", faultproxy.Answer(307, "", "Location: https://example.com/other?token=hidden"), fault.HTTPStatus, fault.OutcomeFailed, "https://example.com/other, which is not followed", 0},
}

func TestWhatHappensToACallIsSaidOfItAloneAndItIsNotRepeated(t *testing.T) {
	for _, era := range []struct {
		name    string
		handler func(*mcp.Server) http.Handler
	}{{"streams", stateful}, {"single bodies", asJSON}, {"stateless", stateless}} {
		for _, c := range callFaults {
			t.Run(era.name+"/"+c.name, func(t *testing.T) {
				server, counts := newServer(t)
				p := faultproxy.New(t, serve(t, era.handler(server)))
				s := newKit(t).mustOpen(t, p.URL)
				p.Once(faultproxy.Method("tools/call"), c.fault)
				_, err := call(t, s, "echo", "a text that is long enough to be cut in the middle")
				f := wantFault(t, err, c.code, c.outcome, c.words)
				if strings.Contains(f.Message, "hidden") || strings.ContainsAny(f.Message, "\x07\u202e") {
					t.Errorf("the message is not clean: %q", f.Message)
				}
				if c.code == fault.RateLimited && (!f.Retryable || string(f.Data) != `{"retry_after_ms":7000}`) {
					t.Errorf("retryable %v, data %s", f.Retryable, f.Data)
				}
				if n := counts.of("echo"); n != c.ran {
					t.Errorf("the tool ran %d times, want %d", n, c.ran)
				}
				if n := len(p.Seen(faultproxy.Method("tools/call"))); n != 1 {
					t.Errorf("the call was sent %d times", n)
				}
				mustEcho(t, s, "the next one is well")
			})
		}
	}
}

func TestAnAnswerThatEndsInTheMiddleAsIfItWereWholeIsNone(t *testing.T) {
	for _, handler := range []func(*mcp.Server) http.Handler{stateful, asJSON, stateless} {
		server, counts := newServer(t)
		p := faultproxy.New(t, serve(t, handler(server)))
		s := newKit(t).mustOpen(t, p.URL)
		p.Once(faultproxy.Method("tools/call"), faultproxy.Truncate(40))
		_, err := call(t, s, "echo", "a text that is long enough to be cut in the middle")
		var f *fault.Error
		if !errors.As(err, &f) || f.Outcome != fault.OutcomeUnknown || f.Code != fault.ConnectionLost && f.Code != fault.Protocol {
			t.Errorf("%v", err)
		}
		mustEcho(t, s, "on")
		if n := counts.of("echo"); n != 2 {
			t.Errorf("the tool ran %d times", n)
		}
	}
}

func TestAnAnswerThatComesTwiceCountsOnce(t *testing.T) {
	for _, f := range []faultproxy.Fault{faultproxy.Echoed, faultproxy.Twice, faultproxy.Delay(100 * time.Millisecond)} {
		server, _ := newServer(t)
		p := faultproxy.New(t, serve(t, stateless(server)))
		s := newKit(t).mustOpen(t, p.URL)
		p.Once(faultproxy.Method("tools/call"), f)
		mustEcho(t, s, "once")
		mustEcho(t, s, "and on")
	}
}

func TestACallThatIsNotAnsweredEndsWithItsTimeAndTheServerIsTold(t *testing.T) {
	server, counts := newServer(t)
	p := faultproxy.New(t, serve(t, stateful(server)))
	s := newKit(t).mustOpen(t, p.URL)
	p.Once(faultproxy.Method("tools/call"), faultproxy.Swallow)
	_, err := s.Call(deadline(t), features.CallRequest{Tool: "echo", Arguments: json.RawMessage(`{"message":"x"}`), Timeout: 100 * time.Millisecond})
	wantFault(t, err, fault.Timeout, fault.OutcomeUnknown)
	eventually(t, "the cancellation is sent", func() bool { return len(p.Seen(faultproxy.Method("notifications/cancelled"))) == 1 })
	mustEcho(t, s, "on")
	if n := counts.of("echo"); n != 2 {
		t.Errorf("the tool ran %d times", n)
	}
}

func TestAServerThatCannotBeReachedHasSurelyDoneNothing(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	url := gone.URL
	gone.Close()
	_, err := newKit(t).open(t, url)
	if f := wantFault(t, err, fault.Unreachable, fault.OutcomeFailed, "connection refused"); !f.Retryable {
		t.Error("it may be there later")
	}
}

func TestACertificateThatNobodyKnowsIsNotTriedAgain(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	defer s.Close()
	_, err := newKit(t).open(t, s.URL)
	if f := wantFault(t, err, fault.Unreachable, fault.OutcomeFailed, "certificate"); f.Retryable {
		t.Error("it will be no better later")
	}
}

func TestAnAnswerBeyondTheLimitFailsItsCallAlone(t *testing.T) {
	for _, handler := range []func(*mcp.Server) http.Handler{stateful, asJSON, stateless} {
		server, _ := newServer(t)
		k := newKit(t)
		s := k.mustOpen(t, serve(t, handler(server)), func(o *httpwire.Options, c *session.Config) {
			o.MaxMessage, c.MaxLine = 64<<10, 64<<10
		})
		_, err := call(t, s, "echo", strings.Repeat("x", 100<<10))
		wantFault(t, err, fault.ResultTooLarge, fault.OutcomeUnknown)
		mustEcho(t, s, "on")
	}
}

func TestAForgottenSessionEndsTheWireAndTheCallIsReported(t *testing.T) {
	for name, f := range map[string]faultproxy.Fault{
		"404":               faultproxy.Answer(404, "session not found"),
		"404 with an error": faultproxy.Answer(404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, "Content-Type: application/json"),
		"400 in words":      faultproxy.Answer(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`, "Content-Type: application/json"),
	} {
		t.Run(name, func(t *testing.T) {
			server, counts := newServer(t)
			p := faultproxy.New(t, serve(t, stateful(server)))
			s := newKit(t).mustOpen(t, p.URL)
			p.Once(faultproxy.Method("tools/call"), f)
			_, err := call(t, s, "echo", "x")
			if f := wantFault(t, err, fault.SessionExpired, fault.OutcomeFailed, "was not carried out"); !f.Retryable {
				t.Error("the call may be made again")
			}
			select {
			case <-s.Done():
			case <-deadline(t).Done():
				t.Fatal("the session goes on")
			}
			var why *fault.Error
			if !errors.As(s.Err(), &why) || why.Code != fault.SessionExpired {
				t.Errorf("the session ended with %v", s.Err())
			}
			if counts.of("echo") != 0 {
				t.Error("the tool ran")
			}
		})
	}
}

func TestABrokenStreamOfEventsIsOpenedAgainAndWhatCameMeanwhileIsSeen(t *testing.T) {
	server, _ := newServer(t)
	p := faultproxy.New(t, serve(t, stateful(server)))
	p.Once(faultproxy.Verb("GET"), faultproxy.CutAnswer(1))
	k := newKit(t)
	s := k.mustOpen(t, p.URL)
	mustEcho(t, s, "calls do not need it")
	eventually(t, "the change is told by the second stream", func() bool {
		mcp.AddTool(server, &mcp.Tool{Name: "new"}, func(context.Context, *mcp.CallToolRequest, message) (*mcp.CallToolResult, any, error) {
			return said("new"), nil, nil
		})
		return k.find(signal.CapabilityChanged, `"new"`) > 0
	})
}

func TestAnAnswerIsResumedWhereItsStreamBroke(t *testing.T) {
	server, counts := newServer(t)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	p := faultproxy.New(t, serve(t, h))
	s := newKit(t).mustOpen(t, p.URL)
	p.Once(faultproxy.Method("tools/call"), faultproxy.CutAnswer(80)) // after the first event, which has an id
	text := strings.Repeat("long ", 100)
	mustEcho(t, s, text)
	resumed := p.Seen(func(r faultproxy.Request) bool { return r.Verb == "GET" && r.Header.Get("Last-Event-Id") != "" })
	if len(resumed) == 0 {
		t.Error("nothing was resumed")
	}
	if n := counts.of("echo"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

func TestAServerThatGivesNoSignOfLifeIsHung(t *testing.T) {
	for _, era := range eras[:2] {
		t.Run(era.name, func(t *testing.T) {
			server, _ := newServer(t)
			p := faultproxy.New(t, serve(t, era.handler(server)))
			s := newKit(t).mustOpen(t, p.URL, func(_ *httpwire.Options, c *session.Config) {
				c.PingInterval, c.PingTimeout = 200*time.Millisecond, 500*time.Millisecond
			})
			mustEcho(t, s, "alive")
			thaw := p.Freeze()
			defer thaw()
			select {
			case <-s.Done():
			case <-deadline(t).Done():
				t.Fatal("it was not noticed")
			}
			if !errors.Is(s.Err(), session.ErrHung) {
				t.Errorf("the session ended with %v", s.Err())
			}
		})
	}
}

func TestAServerThatHasGoneIsNoticedWithoutACall(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(*mcp.Server) http.Handler
		ping    time.Duration
	}{"by its stream": {stateful, time.Hour}, "by a ping": {stateless, 200 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			server, _ := newServer(t)
			h := httptest.NewServer(c.handler(server))
			defer h.Close()
			s := newKit(t).mustOpen(t, h.URL, func(_ *httpwire.Options, cfg *session.Config) { cfg.PingInterval = c.ping })
			h.Listener.Close()
			h.CloseClientConnections()
			select {
			case <-s.Done():
			case <-deadline(t).Done():
				t.Fatal("it was not noticed")
			}
			var f *fault.Error
			if !errors.As(s.Err(), &f) || f.Code != fault.Unreachable {
				t.Errorf("the session ended with %v", s.Err())
			}
		})
	}
}

func TestAServerThatIsSlowOnceIsNotTakenForAnOldOneForEver(t *testing.T) {
	server, _ := newServer(t)
	p := faultproxy.New(t, serve(t, stateless(server)))
	m, err := client.New(client.Options{Name: "test", ProbeTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{Manager: m}
	defer m.Close(deadline(t))
	p.Once(faultproxy.Method("server/discover"), faultproxy.Swallow)
	s := k.mustOpen(t, p.URL)
	if v := s.Info().ProtocolVersion; v != "2025-11-25" {
		t.Errorf("without an answer to the probe it speaks %s", v)
	}
	s.Close(nil)
	<-s.Done()
	eventually(t, "it is asked again, and has the time", func() bool {
		s, err := k.open(t, p.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Close(nil); <-s.Done() }()
		return s.Info().ProtocolVersion == "2026-07-28"
	})
}

// keys is an authorizer whose token can be renewed.
type keys struct {
	token      atomic.Value
	challenges atomic.Int32
	renew      string
}

func (k *keys) Authorize(_ context.Context, r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+k.token.Load().(string))
	return nil
}

func (k *keys) Challenge(_ context.Context, r *http.Response) (bool, error) {
	k.challenges.Add(1)
	if k.renew == "" || r.StatusCode != http.StatusUnauthorized {
		return false, nil
	}
	k.token.Store(k.renew)
	return true, nil
}

// guarded lets only requests with the token through to h.
func guarded(h http.Handler, token *atomic.Value) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token.Load().(string) {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func TestAChallengeIsAnsweredAndTheRequestSentOnceMore(t *testing.T) {
	server, counts := newServer(t)
	var want atomic.Value
	want.Store("first")
	k := &keys{}
	k.token.Store("first")
	s := newKit(t).mustOpen(t, serve(t, guarded(stateful(server), &want)), func(o *httpwire.Options, _ *session.Config) { o.Authorizer = k })
	want.Store("second")
	k.renew = "second"
	mustEcho(t, s, "with the new token")
	if n := counts.of("echo"); n != 1 || k.challenges.Load() != 1 {
		t.Errorf("the tool ran %d times, %d challenges", n, k.challenges.Load())
	}
}

func TestATokenThatIsNoLongerTakenEndsTheSession(t *testing.T) {
	server, _ := newServer(t)
	var want atomic.Value
	want.Store("first")
	url := serve(t, guarded(stateful(server), &want))
	with := func(o *httpwire.Options, _ *session.Config) { o.Authorizer = httpwire.Bearer("first") }
	s := newKit(t).mustOpen(t, url, with)
	want.Store("second")
	_, err := call(t, s, "echo", "x")
	wantFault(t, err, fault.NeedsAuth, fault.OutcomeFailed, "401 Unauthorized: who are you?")
	select {
	case <-s.Done():
	case <-deadline(t).Done():
		t.Fatal("the session goes on")
	}
	_, err = newKit(t).open(t, url, with)
	wantFault(t, err, fault.NeedsAuth, fault.OutcomeFailed, "401")
}

func TestCredentialsDoNotFollowARedirection(t *testing.T) {
	var leaked atomic.Bool
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { leaked.Store(true) }))
	server, _ := newServer(t)
	p := faultproxy.New(t, serve(t, stateful(server)))
	s := newKit(t).mustOpen(t, p.URL, func(o *httpwire.Options, _ *session.Config) { o.Authorizer = httpwire.Bearer("secret-token") })
	p.Once(faultproxy.Method("tools/call"), faultproxy.Answer(308, "", "Location: "+other+"/mcp"))
	_, err := call(t, s, "echo", "x")
	wantFault(t, err, fault.HTTPStatus, fault.OutcomeFailed, "not followed")
	p.Once(faultproxy.Method("tools/call"), faultproxy.Answer(307, "", "Location: "+p.URL+"/elsewhere"))
	mustEcho(t, s, "the same server may move") // the SDK's handler serves every path
	if leaked.Load() {
		t.Error("the other host was asked")
	}
}

func TestAURLThatCouldBeReadOnTheWayIsRefused(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://example.com/mcp": true, "http://127.0.0.1:80/mcp": true, "http://localhost/mcp": true, "http://[::1]:8080/": true, "http://app.localhost/": true,
		"http://example.com/mcp": false, "http://10.0.0.1/": false, "ftp://localhost/": false, "/mcp": false, "http://": false, "http://localhost.example.com/": false,
	} {
		if _, err := request.CheckURL(url); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestTheSessionIsEndedAtTheServer(t *testing.T) {
	server, _ := newServer(t)
	p := faultproxy.New(t, serve(t, stateful(server)))
	s := newKit(t).mustOpen(t, p.URL)
	s.Close(nil)
	<-s.Done()
	if n := len(p.Seen(faultproxy.Verb("DELETE"))); n != 1 {
		t.Errorf("DELETE came %d times", n)
	}
	eventually(t, "no session is left", func() bool {
		for range server.Sessions() {
			return false
		}
		return true
	})
}
