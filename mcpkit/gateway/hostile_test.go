package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/stdio"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`

// post sends a message; headers come in pairs.
func post(t *testing.T, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return send(t, http.MethodPost, url, body, headers...)
}

func send(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(deadline(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(answer)
}

// over serves a rig over HTTP in another way.
func over(t *testing.T, o streamable.Options) string {
	t.Helper()
	h := streamable.New(o)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(h.Close)
	return srv.URL + streamable.Path
}

func TestPagesInBrowsersAndForeignHostsAreKeptOut(t *testing.T) {
	r := front(t, allowAll, nil)
	for name, c := range map[string]struct {
		status  int
		headers []string
	}{
		"plain":             {200, nil},
		"rebound name":      {421, []string{"Host", "evil.example"}},
		"foreign origin":    {403, []string{"Origin", "http://evil.example"}},
		"another port":      {403, []string{"Origin", "http://127.0.0.1:1"}},
		"null origin":       {403, []string{"Origin", "null"}},
		"same origin":       {200, []string{"Origin", strings.TrimSuffix(r.url, streamable.Path)}},
		"another scheme":    {403, []string{"Origin", "https" + strings.TrimPrefix(strings.TrimSuffix(r.url, streamable.Path), "http")}},
		"cross-site fetch":  {403, []string{"Sec-Fetch-Site", "cross-site"}},
		"form content type": {415, []string{"Content-Type", "text/plain"}},
	} {
		if res, body := post(t, r.url, hello, c.headers...); res.StatusCode != c.status {
			t.Errorf("%s: %s: %s", name, res.Status, body)
		}
	}
}

func TestPagesOfConfiguredOriginsMayAskAndReadAndNoOthers(t *testing.T) {
	r := front(t, allowAll, nil)
	sum := func(token string) *view.View {
		if token == "good" {
			return &view.View{}
		}
		return nil
	}
	url := over(t, streamable.Options{Gateway: r.Gateway, Rules: access.Rules{Tokens: sum, Origins: []string{"https://app.example"}}})
	ask := func(method, origin string, headers ...string) http.Header {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Origin", origin)
		q.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			q.Header.Set(headers[i], headers[i+1])
		}
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		h := res.Header
		h.Set("Status", strconv.Itoa(res.StatusCode))
		return h
	}
	const page = "https://app.example"
	before := ask("OPTIONS", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization, mcp-session-id,Mcp-Param-Region, x-other")
	if before.Get("Status") != "204" || before.Get("Access-Control-Allow-Origin") != page || !strings.Contains(before.Get("Access-Control-Allow-Methods"), "DELETE") {
		t.Errorf("the question before: %v", before)
	}
	for name, want := range map[string]bool{"Authorization": true, "Mcp-Session-Id": true, "Mcp-Protocol-Version": true, "Mcp-Param-Region": true, "x-other": false} {
		if got := strings.Contains(before.Get("Access-Control-Allow-Headers"), name); got != want {
			t.Errorf("%s may be sent: %v", name, got)
		}
	}
	for token, status := range map[string]string{"Bearer good": "200", "Bearer bad": "401"} {
		after := ask("POST", page, "Authorization", token)
		if after.Get("Status") != status || after.Get("Access-Control-Allow-Origin") != page || !strings.Contains(after.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
			t.Errorf("the request with %q: %v", token, after)
		}
	}
	for _, other := range []string{"https://app.example.evil", "http://app.example", "null"} {
		for _, method := range []string{"OPTIONS", "POST"} {
			if got := ask(method, other, "Authorization", "Bearer good", "Access-Control-Request-Method", "POST"); got.Get("Status") != "403" || got.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s of %s: %v", method, other, got)
			}
		}
	}
}

func TestASlashAtTheEndOfAnAddressChangesNothing(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "echo"})
	for path, status := range map[string]int{"": 200, "/": 200, "/s": 200, "/s/": 200, "/absent/": 404, "x": 404} {
		if res, body := post(t, r.url+path, hello); res.StatusCode != status {
			t.Errorf("%s: %s: %s", path, res.Status, body)
		}
	}
}

func TestAnAnswerThatTakesLongBecomesAStreamWithSignsOfLife(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "hang-call"})
	url := over(t, streamable.Options{Gateway: r.Gateway, Rules: access.Rules{Open: &view.View{}}, Limits: streamable.Limits{Alive: 10 * time.Millisecond}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__echo","arguments":{"message":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	q, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "s__echo",
	} {
		q.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	signs := make([]byte, 2*len(": \n\n"))
	if _, err := io.ReadFull(res.Body, signs); err != nil || string(signs) != ": \n\n: \n\n" || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%s: %q, %v", res.Header.Get("Content-Type"), signs, err)
	}
}

func TestTokensAreReadFromAFileForTheirOwnerAndNothingIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	pipe, open := filepath.Join(dir, "pipe"), filepath.Join(dir, "open.yaml")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(open, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{pipe: smallfile.ErrNotRegular, dir: smallfile.ErrNotRegular, open: smallfile.ErrNotPrivate} {
		if _, err := access.OpenTokens(path, slog.New(slog.DiscardHandler)); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestASessionBelongsToItsToken(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "echo"})
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	ada, adaSum := access.NewToken()
	bob, bobSum := access.NewToken()
	if err := os.WriteFile(file, []byte("- {name: ada, sha256: "+adaSum+"}\n- {name: bob, sha256: "+bobSum+", tools: [\"nothing\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.OpenTokens(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	url := over(t, streamable.Options{Gateway: r.Gateway, Rules: access.Rules{Tokens: tokens.View}})
	if res, _ := post(t, url, hello); res.StatusCode != 401 || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
		t.Errorf("without a token: %s", res.Status)
	}
	if res, _ := post(t, url, hello, "Authorization", "Bearer "+ada+"x"); res.StatusCode != 401 {
		t.Errorf("with a wrong token: %s", res.Status)
	}
	res, _ := post(t, url, hello, "Authorization", "Bearer "+ada)
	session := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != 200 || len(session) < 26 {
		t.Fatalf("with a token: %s, session %q", res.Status, session)
	}
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if res, body := post(t, url, list, "Authorization", "Bearer "+bob, "Mcp-Session-Id", session); res.StatusCode != 404 {
		t.Errorf("another's session: %s %s", res.Status, body)
	}
	if res, body := post(t, url, list, "Authorization", "Bearer "+ada, "Mcp-Session-Id", session); !strings.Contains(body, "s__echo") {
		t.Errorf("the own session: %s %s", res.Status, body)
	}
	if res, _ := send(t, http.MethodDelete, url, "", "Authorization", "Bearer "+bob, "Mcp-Session-Id", session); res.StatusCode != 404 {
		t.Errorf("another ends it: %s", res.Status)
	}
	if res, _ := send(t, http.MethodDelete, url, "", "Authorization", "Bearer "+ada, "Mcp-Session-Id", session); res.StatusCode != 204 {
		t.Errorf("its owner ends it: %s", res.Status)
	}
	if res, _ := post(t, url, list, "Authorization", "Bearer "+ada, "Mcp-Session-Id", session); res.StatusCode != 404 {
		t.Errorf("afterwards: %s", res.Status)
	}
	os.Chmod(file, 0o644)
	if _, err := access.OpenTokens(file, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file that others can read was taken")
	}
}

func TestAnIdleSessionExpires(t *testing.T) {
	r := front(t, allowAll, nil)
	url := over(t, streamable.Options{Gateway: r.Gateway, Rules: access.Rules{Open: r.view}, Limits: streamable.Limits{Idle: 20 * time.Millisecond}})
	res, _ := post(t, url, hello)
	session := res.Header.Get("Mcp-Session-Id")
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // longer than idle, so that asking keeps nothing alive
		if res, _ := post(t, url, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", session); res.StatusCode == 404 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it lives for ever")
		}
	}
}

func TestHostileMessagesAreRefusedAndHarmNobody(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "echo"})
	res, _ := post(t, r.url, hello)
	session := res.Header.Get("Mcp-Session-Id")
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, c := range map[string]struct {
		body string
		code string // of the JSON-RPC error
	}{
		"no JSON":         {`{"jsonrpc":`, "-32700"},
		"no UTF-8":        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", "-32700"},
		"deep":            {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":` + deep + `}}`, "-32700"},
		"batch":           {`[` + hello + `]`, "-32600"},
		"version":         {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, "-32600"},
		"object id":       {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "-32600"},
		"fraction id":     {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "-32600"},
		"huge id":         {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`, "-32600"},
		"params list":     {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}`, "-32602"},
		"name is number":  {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}`, "-32602"},
		"second greeting": {hello, "-32600"},
		"unknown method":  {`{"jsonrpc":"2.0","id":1,"method":"a/b"}`, "-32601"},
		"cursor":          {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"-7"}}`, "-32602"},
		"unknown tool":    {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, "-32602"},
	} {
		if _, body := post(t, r.url, c.body, "Mcp-Session-Id", session); !strings.Contains(body, `"code":`+c.code) || !json.Valid([]byte(body)) {
			t.Errorf("%s: %.300s", name, body)
		}
	}
	if res, _ := post(t, r.url, strings.Repeat(" ", 17<<20), "Mcp-Session-Id", session); res.StatusCode != 413 {
		t.Errorf("too large: %s", res.Status)
	}
	if _, body := post(t, r.url, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"s__echo","arguments":{"message":"still here"}}}`, "Mcp-Session-Id", session); !strings.Contains(body, "still here") {
		t.Errorf("afterwards: %s", body)
	}
}

func TestAnIDInFlightCannotBeUsedAgain(t *testing.T) {
	r := front(t, allowAll, map[string]string{"s": "hang-call"})
	in, client := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- stdio.Serve(t.Context(), r.Gateway, r.view, in, in) }()
	lines := bufio.NewScanner(client)
	io.WriteString(client, hello+"\n")
	lines.Scan()
	call := `{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"s__echo","arguments":{"message":"x"}}}` + "\n"
	io.WriteString(client, call)
	io.WriteString(client, call)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"id":"same"`) || !strings.Contains(lines.Text(), "-32600") {
		t.Errorf("the second got %s", lines.Text())
	}
	client.Close()
	select { // the call hangs, and nobody waits for its answer
	case <-done:
	case <-time.After(patience / 4):
		t.Fatal("a client that has left is still served")
	}
}

func TestAClientThatDoesNotReadLosesItsPipeAndNotTheMemory(t *testing.T) {
	r := front(t, allowAll, nil)
	in, client := net.Pipe()
	defer client.Close()
	done := make(chan error, 1)
	go func() { done <- stdio.Serve(t.Context(), r.Gateway, r.view, in, in) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"nothing"}`+"\n"); err != nil {
				return
			}
		}
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "does not read") {
			t.Errorf("it ended with %v", err)
		}
		in.Close()
	case <-ctx.Done():
		t.Fatal("the client is still served")
	}
}

func TestAStateIsGoodForItsClientAndItsRequestAlone(t *testing.T) {
	r := front(t, asking, map[string]string{"s": "echo"})
	call := func(args, more string) string {
		t.Helper()
		_, body := post(t, r.url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__echo","arguments":`+args+more+
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "s__echo")
		return body
	}
	var first struct {
		Result struct {
			State string `json:"requestState"`
		}
	}
	if body := call(`{"message":"a"}`, ""); json.Unmarshal([]byte(body), &first) != nil || first.Result.State == "" {
		t.Fatalf("no question was put: %s", body)
	}
	yes := `,"inputResponses":{"aurora_approval":{"action":"accept","content":{"decision":"once"}}},"requestState":"`
	if body := call(`{"message":"b"}`, yes+first.Result.State+`"`); !strings.Contains(body, "-32602") {
		t.Errorf("for other arguments: %s", body)
	}
	if body := call(`{"message":"a"}`, yes+first.Result.State+`x"`); !strings.Contains(body, "-32602") {
		t.Errorf("changed: %s", body)
	}
	if body := call(`{"message":"a"}`, yes+first.Result.State+`"`); !strings.Contains(body, `"text":"a"`) {
		t.Errorf("for its own request: %s", body)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"name":"\u0000","_meta":{"progressToken":1e9}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, bad := rpc.Parse(raw)
		if bad != nil {
			if !json.Valid(bad.Reply()) {
				t.Fatalf("the refusal of %q is no JSON: %q", raw, bad.Reply())
			}
			return
		}
		if m.IsRequest() && !json.Valid((&rpc.Error{Code: 1}).For(m).Reply()) {
			t.Fatalf("the answer to %q is no JSON", raw)
		}
	})
}
