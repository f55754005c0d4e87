package gateway_test

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// open opens a session and says which.
func open(t *testing.T, url string, headers ...string) string {
	t.Helper()
	res, body := post(t, url, hello, headers...)
	id := res.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("no session was opened: %s %s", res.Status, body)
	}
	return id
}

// alive is the status of a ping in a session.
func alive(t *testing.T, url, session string, headers ...string) int {
	t.Helper()
	res, _ := post(t, url, `{"jsonrpc":"2.0","id":9,"method":"ping"}`, append(headers, "Mcp-Session-Id", session)...)
	return res.StatusCode
}

// stream opens a stream of events. The channel has its lines and is closed at its end.
func stream(t *testing.T, method, url, body string, headers ...string) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		t.Fatalf("the stream is answered with %s", res.Status)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// wait waits for a line that contains text, or for the end of the stream where text
// is empty.
func wait(t *testing.T, lines <-chan string, text string) {
	t.Helper()
	for {
		select {
		case line, ok := <-lines:
			switch {
			case !ok && text == "", ok && text != "" && strings.Contains(line, text):
				return
			case !ok:
				t.Fatalf("the stream ended without %q", text)
			}
		case <-deadline(t).Done():
			t.Fatalf("waited for %q", text)
		}
	}
}

func TestAServerThatStopsIsGoneForThoseWhoKnowItByItsAlias(t *testing.T) {
	r := front(t, allowAll, nil)
	var gone atomic.Bool
	g := gateway.New(gateway.Options{Host: r.host, Offers: r.offers, Servers: func() []view.Server {
		if gone.Load() {
			return nil
		}
		return []view.Server{{Name: "com.example.weather", Alias: "weather"}}
	}})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Run(ctx) }()
	defer func() { stop(); <-done }()
	url := over(t, streamable.Options{Gateway: g, Rules: access.Rules{Open: &view.View{Servers: []string{"weather"}}}})
	lines := stream(t, http.MethodGet, url, "", "Mcp-Session-Id", open(t, url))
	wait(t, lines, ":") // the stream is open
	g.Observe(t.Context(), signal.Signal{Kind: signal.ServerStarted, Server: "com.example.weather"})
	for _, list := range []string{"tools", "resources", "prompts"} {
		wait(t, lines, list+"/list_changed")
	}
	gone.Store(true)
	g.Observe(t.Context(), signal.Signal{Kind: signal.ServerStopped, Server: "com.example.weather"})
	wait(t, lines, "tools/list_changed")
}

func TestATokenThatIsTakenBackEndsWhatGoesOnWithIt(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "hang-call"})
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	ada, adaSum := access.NewToken()
	bob, bobSum := access.NewToken()
	eve, eveSum := access.NewToken()
	write := func(entries string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(entries), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("- {name: ada, sha256: " + adaSum + "}\n- {name: bob, sha256: " + bobSum + "}\n- {name: eve, sha256: " + eveSum + "}\n")
	tokens, err := access.OpenTokens(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	url := over(t, streamable.Options{Gateway: r.Gateway, Rules: access.Rules{Tokens: tokens.View}})
	session := map[string]string{}
	lines := map[string]<-chan string{}
	for _, token := range []string{ada, bob, eve} {
		session[token] = open(t, url, "Authorization", "Bearer "+token)
		lines[token] = stream(t, http.MethodGet, url, "", "Authorization", "Bearer "+token, "Mcp-Session-Id", session[token])
		wait(t, lines[token], ":")
	}
	listen := stream(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Authorization", "Bearer "+ada, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	wait(t, listen, "acknowledged")

	write("- {name: bob, sha256: " + bobSum + "}\n- {name: eve, sha256: " + eveSum + ", servers: [nothing]}\n")
	wait(t, lines[ada], "")
	wait(t, listen, "")
	wait(t, lines[eve], "")
	if got := alive(t, url, session[ada], "Authorization", "Bearer "+ada); got != 401 {
		t.Errorf("a token that is gone: %d", got)
	}
	if got := alive(t, url, session[eve], "Authorization", "Bearer "+eve); got != 404 {
		t.Errorf("a session from before the view changed: %d", got)
	}
	if got := alive(t, url, session[bob], "Authorization", "Bearer "+bob); got != 200 {
		t.Errorf("the session of another: %d", got)
	}
	select {
	case _, ok := <-lines[bob]:
		if !ok {
			t.Error("the stream of another ended")
		}
	default:
	}
}

func TestSessionsThatWereDroppedMakeRoom(t *testing.T) {
	r := front(t, allowAll, nil)
	ada, bob := &view.View{Client: "ada"}, &view.View{Client: "bob"}
	url := over(t, streamable.Options{Gateway: r.Gateway, Limits: streamable.Limits{Sessions: 4}, Rules: access.Rules{Tokens: func(token string) *view.View {
		return map[string]*view.View{"ada": ada, "bob": bob}[token]
	}}})
	as := func(who string) []string { return []string{"Authorization", "Bearer " + who} }
	bobs := open(t, url, as("bob")...)
	var adas []string
	for range 3 {
		adas = append(adas, open(t, url, as("ada")...))
	}
	lines := stream(t, http.MethodGet, url, "", append(as("ada"), "Mcp-Session-Id", adas[0])...)
	wait(t, lines, ":")
	for range 20 { // dropped, one after the other
		adas = append(adas, open(t, url, as("ada")...))
	}
	if got := alive(t, url, bobs, as("bob")...); got != 200 {
		t.Errorf("the session of another: %d", got)
	}
	if got := alive(t, url, adas[0], as("ada")...); got != 200 {
		t.Errorf("a session with an open stream: %d", got)
	}
	if got := alive(t, url, adas[len(adas)-1], as("ada")...); got != 200 {
		t.Errorf("the newest session: %d", got)
	}
	if got := alive(t, url, adas[1], as("ada")...); got != 404 {
		t.Errorf("the oldest idle session: %d", got)
	}
	open(t, url, as("bob")...) // there is room for others, too
}
