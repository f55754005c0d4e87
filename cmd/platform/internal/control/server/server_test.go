package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/stream"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestEveryOtherAnswerIsAsDescribed(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{
		"/v1/version", "/v1/status", "/v1/servers", "/v1/openapi.json", "/v1/tools", "/v1/tools?server=a&format=records",
		"/v1/tools?format=openai&profile=gemini", "/v1/approvals?state=pending", "/v1/catalog/review", "/v1/catalog/diff?server=s",
		"/v1/history?kind=call&type=tool.*&since=2026-06-17T14:30:00%2b08:00&until=2026-06-17T14:30:00Z&limit=3&before=7", "/v1/history/stats?by=hour",
	} {
		if res, body := s.do("GET", path, ""); res.StatusCode != 200 {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
	}
	for path, body := range map[string]string{"/v1/servers/s/start": "", "/v1/catalog/approve": `{"server":"s"}`} {
		if res, raw := s.do("POST", path, body); res.StatusCode != 200 {
			t.Errorf("%s: %s %s", path, res.Status, raw)
		}
	}
	s.refused(404, control.ServerNotFound, "GET", "/v1/tools?server=nobody", "")
	s.refused(404, control.ServerNotFound, "GET", "/v1/tools?server=nobody&format=openai", "")
	s.refused(400, control.InvalidRequest, "GET", "/v1/tools?format=xml", "")
	s.refused(400, control.UnknownProfile, "GET", "/v1/tools?format=openai&profile=none", "")
	s.refused(404, control.ServerNotFound, "POST", "/v1/servers/nobody/stop", "")
	s.refused(404, control.NotFound, "POST", "/v1/servers/s/dance", "")
	for _, body := range []string{
		`{"name":"s.echo","name":"s.other"}`, `{"Name":"s.echo"}`, `[]`, `null`, ``, `{"name":7}`, `{"name":"s.echo"}{}`,
		`{"name":"` + strings.Repeat("n", 2000) + `"}`, `{"name":"s.echo","timeout_ms":1e30}`, `{"name":"s.echo","arguments":` + strings.Repeat("[", 20_000),
	} {
		s.refused(400, control.InvalidRequest, "POST", "/v1/calls", body)
	}
	s.refused(400, control.InvalidRequest, "GET", "/v1/approvals?state=open", "")
	s.refused(400, control.InvalidRequest, "GET", "/v1/policy/explain", "")
	s.refused(404, control.ApprovalNotFound, "GET", "/v1/approvals/x", "")
	s.refused(409, control.ApprovalDecided, "POST", "/v1/approvals/x/approve", "{}")
	s.refused(409, control.ApprovalDecided, "POST", "/v1/approvals/x/deny", "{}")
	s.refused(409, control.ApprovalDecided, "POST", "/v1/approvals/x/revoke", "{}")
	s.refused(400, control.InvalidRequest, "POST", "/v1/approvals/x/revoke", `{"who":"Ada"}`)
	s.refused(404, fault.ToolNotFound, "GET", "/v1/policy/explain?tool=x", "")
	s.refused(400, control.InvalidRequest, "POST", "/v1/catalog/approve", "{}")
	for _, q := range []string{"kind=x", "outcome=good", "type=t*", "type=*", "limit=1001", "before=-1", "after=x", "since=1h"} {
		s.refused(400, control.InvalidRequest, "GET", "/v1/history?"+q, "")
	}
	s.refused(400, control.InvalidRequest, "GET", "/v1/history/stats", "")
	s.refused(404, history.CallNotFound, "GET", "/v1/history/calls/x", "")
}

func TestPathsAndMethodsThatDoNotExistAreProblems(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v2/version", "/v1/versions", "/v1//version", "/v1/../v1/version", "/v1/./version",
		"/v1/version/", "/v1/servers/s", "/v1/servers//logs", "/v1/calls/", "/v1/calls/a/b", "/v1/calls/%2e%2e", "/favicon.ico",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if path != "/v1/calls/a/b" || method != "POST" {
				s.refused(404, control.NotFound, method, path, "")
			}
		}
	}
	for path, allowed := range map[string]string{
		"/v1/version": "GET, HEAD", "/v1/calls": "GET, HEAD, POST", "/v1/catalog/approve": "POST", "/v1/calls/x": "DELETE, GET, HEAD", "/v1/servers/s/stop": "POST",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
			if strings.Contains(allowed, method) {
				continue
			}
			if res := s.refused(405, control.MethodNotAllowed, method, path, ""); res.Header.Get("Allow") != allowed {
				t.Errorf("%s %s: Allow is %q, want %q", method, path, res.Header.Get("Allow"), allowed)
			}
		}
	}
}

func TestRequestsForACallThatCannotBeReadAreRefused(t *testing.T) {
	s := start(t, nil)
	for _, body := range []string{
		``, ` `, `null`, `[]`, `"x"`, `1`, `{`, `{"name":}`, `{"name":"echo"`, `{"name":"echo"} {}`, `{"name":"echo"}]`,
		`{"name":1}`, `{}`, `{"name":""}`, `{"name":"echo","nmae":1}`, `{"name":"echo","timeout_ms":-1}`,
		`{"name":"echo","timeout_ms":86400001}`, `{"name":"echo","timeout_ms":9223372036854775808}`, `{"name":"echo","timeout_ms":"1"}`,
		`{"name":"echo","id":"a/b"}`, `{"name":"echo","id":".."}`, `{"name":"echo","id":" "}`, `{"name":"echo","id":"a\nb"}`, `{"name":"echo","id":"ä"}`,
		`{"name":"echo","id":"` + strings.Repeat("x", 129) + `"}`, `{"name":"echo","entrance":"A"}`, `{"name":"echo","entrance":"a b"}`,
		`{"name":"echo","entrance":"` + strings.Repeat("x", 33) + `"}`, `{"name":"echo","async":"yes"}`,
		`{"name":"echo","approved_by":"Ada","wait":true}`, `{"name":"echo","approved_by":"Ada","approval":"A"}`,
		`{"name":"echo","approved_by":"` + strings.Repeat("x", 1025) + `"}`, "\x00\xff", strings.Repeat("[", 20_000),
	} {
		s.refused(400, control.InvalidRequest, "POST", "/v1/calls", body)
	}
	s.refused(400, control.InvalidRequest, "GET", "/v1/calls/x?wait=yes", "")
	if len(s.seen) > 0 {
		t.Errorf("the backend was asked for %+v", <-s.seen)
	}
}

func TestABodyMayHaveSoManyBytesAndNoMore(t *testing.T) {
	s := start(t, func(l *limits, _ *Options) { l.body = 1000 })
	body := `{"name":"echo","arguments":{"x":""}}`
	fits := strings.Replace(body, `""`, `"`+strings.Repeat("x", 1000-len(body))+`"`, 1)
	if res, raw := s.do("POST", "/v1/calls", fits); res.StatusCode != 200 {
		t.Errorf("%d bytes: %s %s", len(fits), res.Status, raw)
	}
	s.refused(413, control.RequestTooLarge, "POST", "/v1/calls", fits+" ")
	s.refused(413, control.RequestTooLarge, "POST", "/v1/approvals/x/deny", fits+" ")
	if defaultLimits.body != 16<<20 {
		t.Errorf("the description says 16 MiB, not %d", defaultLimits.body)
	}
}

// raw sends bytes over the socket and returns what comes back.
func (s *served) raw(text string) (*http.Response, string, error) {
	s.t.Helper()
	c, err := net.Dial("unix", s.data+"/platform.sock")
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

func TestABodyThatDoesNotComeIsNotWaitedForForever(t *testing.T) {
	s := start(t, func(l *limits, _ *Options) { l.stall = 100 * time.Millisecond })
	res, body, err := s.raw("POST /v1/calls HTTP/1.1\r\nHost: platform\r\nContent-Length: 100\r\n\r\n{\"name\":")
	if err != nil || res.StatusCode != 408 {
		t.Fatalf("got %v %s %v", res, body, err)
	}
	if err := s.doc.Answer("POST", "/v1/calls", res, []byte(body)); err != nil {
		t.Error(err)
	}
	// The bound is for the body alone: the call may take longer, and the
	// connection's next request is not hurried either.
	for range 2 {
		go func() {
			receive(t, "the call", s.held)
			time.Sleep(3 * s.api.limits.stall) // longer than a body may take
			s.release <- struct{}{}
		}()
		if res, raw := s.do("POST", "/v1/calls", `{"name":"hold"}`); res.StatusCode != 200 {
			t.Errorf("a call longer than the bound of bodies: %s %s", res.Status, raw)
		}
	}
}

func TestABoundOfOneAnswerIsNotTheNextOnes(t *testing.T) {
	s := start(t, func(l *limits, _ *Options) { l.stall = 50 * time.Millisecond })
	c, err := net.Dial("unix", s.data+"/platform.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	expect := func(status int, request string) {
		t.Helper()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != status {
			t.Fatalf("got %v %v, want %d", res, err, status)
		}
		io.Copy(io.Discard, res.Body)
	}
	expect(200, "GET /v1/version HTTP/1.1\r\nHost: platform\r\n\r\n")
	time.Sleep(2 * s.api.limits.stall) // the bound passes
	expect(100, "POST /v1/calls HTTP/1.1\r\nHost: platform\r\nContent-Length: 15\r\nExpect: 100-continue\r\n\r\n")
	expect(200, `{"name":"echo"}`)
}

func TestWebPagesAreRefused(t *testing.T) {
	s := start(t, nil)
	for _, header := range [][]string{
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", "http://localhost"}, {"Origin", "http://platform"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
	} {
		s.refused(403, control.OriginRefused, "GET", "/v1/tools", "", header...)
		s.refused(403, control.OriginRefused, "GET", "/v1/events", "", header...)
		s.refused(403, control.OriginRefused, "POST", "/v1/calls", `{"name":"echo"}`, header...)
		s.refused(403, control.OriginRefused, "OPTIONS", "/v1/calls", "", header...)
	}
	if len(s.seen) > 0 {
		t.Error("a page called a tool")
	}
}

func TestOtherHostsAreRefused(t *testing.T) {
	s := start(t, nil)
	for host, here := range map[string]bool{
		"platform": true, "localhost": true, "LOCALHOST:80": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]": true, "[::1]:80": true, "x:80": true,
		"evil.example": false, "evil.example:80": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"192.0.2.1": false, "0.0.0.0": false, "[::]:80": false, "10.0.0.1:80": false,
	} {
		if here {
			if res, body := s.do("GET", "/v1/version", "", "Host", host); res.StatusCode != 200 {
				t.Errorf("%s: %s %s", host, res.Status, body)
			}
		} else {
			s.refused(421, control.WrongHost, "GET", "/v1/version", "", "Host", host)
		}
	}
}

func TestTCPNeedsTheTokenAndTheSocketDoesNot(t *testing.T) {
	var l net.Listener
	var token string
	s := start(t, func(_ *limits, o *Options) {
		var err error
		if l, token, err = endpoint.ListenTCP(t.TempDir(), "127.0.0.1:0"); err == nil {
			t.Fatal("a data folder without state/ was taken")
		}
		if l, token, err = endpoint.ListenTCP(dataDir(t), "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		o.TCP, o.Token = l, token
	})
	s.do("GET", "/v1/version", "")
	unix := s.http
	s.http = &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext, Proxy: nil}}
	defer func() { s.http.CloseIdleConnections(); s.http = unix }()
	at := "http://" + l.Addr().String()
	ask := func(method, path string, header ...string) *http.Response {
		t.Helper()
		req := s.request(t.Context(), method, path, `{"name":"echo"}`, header...)
		req.URL.Host = l.Addr().String()
		if req.Host == "platform" {
			req.Host = ""
		}
		res, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err == nil && method != "HEAD" {
			err = s.doc.Answer(method, path, res, body)
		}
		if err != nil {
			t.Error(err)
		}
		return res
	}
	for _, header := range [][]string{
		nil, {"Authorization", token}, {"Authorization", "Basic " + token}, {"Authorization", "Bearer"}, {"Authorization", "Bearer "},
		{"Authorization", "Bearer " + token[:63]}, {"Authorization", "Bearer " + token + "0"}, {"Authorization", "Bearer " + strings.Repeat("0", 64)},
		{"Cookie", "token=" + token},
	} {
		for _, path := range []string{"/v1/calls", "/nothing"} {
			res := ask("POST", path, header...)
			challenge := res.Header.Get("WWW-Authenticate")
			if res.StatusCode != 401 || !strings.HasPrefix(challenge, `Bearer realm="platform"`) {
				t.Errorf("%q %s: %s %q", header, path, res.Status, challenge)
			}
		}
	}
	if len(s.seen) > 0 {
		t.Error("a call was made without the token")
	}
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER   "} {
		if res := ask("POST", "/v1/calls", "Authorization", scheme+token); res.StatusCode != 200 {
			t.Errorf("with the token: %s", res.Status)
		}
	}
	// The token does not make up for a foreign host or a page.
	if res := ask("GET", "/v1/tools", "Authorization", "Bearer "+token, "Host", "rebound.example"); res.StatusCode != 421 {
		t.Errorf("a rebound host: %s", res.Status)
	}
	if res := ask("GET", "/v1/tools", "Authorization", "Bearer "+token, "Origin", at); res.StatusCode != 403 {
		t.Errorf("a page: %s", res.Status)
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log tells the token")
	}
}

func TestConnectionsOverTheLimitWaitForOneToEnd(t *testing.T) {
	s := start(t, func(l *limits, _ *Options) { l.conns = 2 })
	a, b := s.follow("/v1/events"), s.follow("/v1/events")
	answered := make(chan int, 1)
	go func() {
		res, _ := s.do("GET", "/v1/version", "")
		answered <- res.StatusCode
	}()
	select {
	case <-answered:
		t.Error("a third connection was taken")
	case <-time.After(50 * time.Millisecond):
	}
	a.end()
	if status := receive(t, "the answer", answered); status != 200 {
		t.Errorf("got %d", status)
	}
	b.end()
}

func TestManyClientsAtOnceAreAllAnswered(t *testing.T) {
	s := start(t, nil)
	var sync sync.WaitGroup
	for i := range 50 {
		f := s.follow("/v1/events?since=0")
		sync.Go(func() {
			f.want("0")
			for n := range 20 {
				f.want(fmt.Sprintf("%d t", n+1))
			}
		})
		sync.Go(func() {
			id := fmt.Sprint("c", i)
			s.do("POST", "/v1/calls", `{"name":"echo","async":true,"id":"`+id+`"}`)
			if st := s.state("GET", "/v1/calls/"+id+"?wait=true"); st.State != "completed" {
				t.Errorf("%s is %+v", id, st)
			}
		})
	}
	for range 20 {
		s.emit(stream.Event{Type: "t", Inbox: true})
	}
	sync.Wait()
}
