package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// distant is a server at a URL that wants a token.
type distant struct {
	url    string
	calls  atomic.Int32
	closed atomic.Bool // it answers nobody
	token  atomic.Value
	server *mcp.Server
}

func newDistant(t *testing.T, stateless bool) *distant {
	d := &distant{server: mcp.NewServer(&mcp.Implementation{Name: "distant", Version: "1"}, nil)}
	d.token.Store("Bearer open-sesame-4711")
	type message struct {
		Message string `json:"message"`
	}
	mcp.AddTool(d.server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in message) (*mcp.CallToolResult, any, error) {
		d.calls.Add(1)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Message}}}, nil, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return d.server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case d.closed.Load():
			http.Error(w, "<html><body><h1>Closed</h1> for repairs</body></html>", http.StatusServiceUnavailable)
		case r.Header.Get("Authorization") != d.token.Load():
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "who are you?", http.StatusUnauthorized)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		for session := range d.server.Sessions() {
			session.Close()
		}
		s.CloseClientConnections()
		s.Close()
	})
	d.url = s.URL
	return d
}

// forget makes the server forget all sessions.
func (d *distant) forget() {
	for session := range d.server.Sessions() {
		session.Close()
	}
}

func (d *distant) manifest(token string) string {
	return fmt.Sprintf("package: far\ntype: mcp-server\nmcp:\n  url: %s/mcp?key=in-the-query\n  headers: {Authorization: \"Bearer %s\"}\n%s", d.url, token, quickRestarts)
}

func TestAServerAtAURLIsUsedLikeAnyOther(t *testing.T) {
	for name, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
		t.Run(name, func(t *testing.T) {
			d := newDistant(t, stateless)
			r := launch(t, map[string]string{"far.yaml": d.manifest("open-sesame-4711"), "near.yaml": fake("near", "echo", "")})
			r.phase("far", "ready")
			r.phase("near", "ready")
			if got, err := r.call("far.echo", "hello"); err != nil || got != "hello" {
				t.Errorf("%q, %v", got, err)
			}
			s := r.server("far")
			if s.URL != d.url+"/mcp" || s.ProtocolVersion != name || s.Tools != 1 || s.PID != 0 {
				t.Errorf("%+v", s)
			}
			e := r.has("far", "lifecycle.started", 1)[0]
			if got := field(t, e, "protocol_version"); got != name {
				t.Errorf("started with protocol %v", got)
			}
		})
	}
}

func TestAServerThatWantsAnotherTokenWaitsForAPerson(t *testing.T) {
	d := newDistant(t, false)
	r := launch(t, map[string]string{"far.yaml": d.manifest("a-wrong-token-0815")})
	r.phase("far", "needs_auth")
	if s := r.server("far"); !strings.Contains(s.Problem, "401") || s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
	_, err := r.call("far.echo", "hello")
	if f := fault.From(err); f == nil || f.Code != fault.NeedsAuth && f.Code != fault.ToolNotFound {
		t.Errorf("a call: %v", err)
	}
	r.write("far.yaml", d.manifest("open-sesame-4711"))
	r.Reload()
	r.phase("far", "ready")
	if got, err := r.call("far.echo", "hello"); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAnExpiredSessionIsOpenedOnceMoreAndTheCallIsNotRepeated(t *testing.T) {
	d := newDistant(t, false)
	r := launch(t, map[string]string{"far.yaml": d.manifest("open-sesame-4711")})
	r.phase("far", "ready")
	d.forget()
	_, err := r.call("far.echo", "lost")
	if f := fault.From(err); f != nil && f.Outcome == fault.OutcomeUnknown {
		t.Errorf("the call: %v, outcome %s", err, f.Outcome)
	}
	r.until("the session is open again", func() (bool, any) {
		got, err := r.call("far.echo", "again")
		return got == "again", err
	})
	if n := d.calls.Load(); n != 1 {
		t.Errorf("the tool ran %d times, want once", n)
	}
}

func TestAnOutageOfARemoteServerIsToldOnceAndEndsByItself(t *testing.T) {
	d := newDistant(t, false)
	d.closed.Store(true)
	r := launch(t, map[string]string{"far.yaml": d.manifest("open-sesame-4711")})
	r.until("five attempts were made", func() (bool, any) {
		s := r.server("far")
		return s.Restarts >= 5, s
	})
	if s := r.server("far"); !strings.Contains(s.Problem+s.LastExit.Reason, "Closed for repairs") {
		t.Errorf("%+v", s)
	}
	d.closed.Store(false)
	r.phase("far", "ready")
	r.has("far", "lifecycle.started", 1)
	if n := len(r.has("far", "lifecycle.crashed", 1)); n != 1 {
		t.Errorf("the outage was told %d times", n)
	}
}
