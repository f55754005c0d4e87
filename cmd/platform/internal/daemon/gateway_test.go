package daemon

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
)

// A client that would say yes to everything asks for a call that a person has to allow.
func TestNobodyWithoutATokenForItApprovesOverHTTP(t *testing.T) {
	const asking = "actions: {critical: ask}\nrisk: {s.echo: critical}\nreview: {first: {unknown: pin}}\n"
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	r.end()
	if err := os.WriteFile(r.policy, []byte(asking), 0o600); err != nil {
		t.Fatal(err)
	}
	r.front = "127.0.0.1:0"
	call := func(token string) string {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__echo","arguments":{"message":"x"},"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
		q, err := http.NewRequestWithContext(t.Context(), "POST", r.gatewayURL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "s__echo",
		} {
			q.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.TrimSpace(answer))
	}
	r.start()
	r.phase("s", "ready")
	if got := call("none"); !strings.Contains(got, "approval_required") || strings.Contains(got, "input_required") {
		t.Errorf("without tokens: %s", got)
	}
	r.end()

	yes, yesSum := access.NewToken()
	no, noSum := access.NewToken()
	r.tokens = filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(r.tokens, []byte("- {name: desk, sha256: "+yesSum+", approve: true}\n- {name: bot, sha256: "+noSum+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.phase("s", "ready")
	if got := call(no); !strings.Contains(got, "approval_required") || strings.Contains(got, "input_required") {
		t.Errorf("with a token that may not approve: %s", got)
	}
	if got := call(yes); !strings.Contains(got, "input_required") {
		t.Errorf("with a token that may approve: %s", got)
	}
}
