package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// statelessly calls the tool echo of a server as a client that can do caps. Each
// call has a server of its own: over one pipe only one is asked at a time.
func statelessly(t *testing.T, url, server, caps string, headers ...string) string {
	t.Helper()
	_, body := post(t, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s__echo","arguments":{},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`, server, caps),
		append(headers, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", ""+server+"__echo")...)
	return body
}

const inputRequired = `"resultType":"input_required"`

func TestAStatelessClientIsAskedOnlyWhatItOffers(t *testing.T) {
	r := front(t, allowAll, map[string]string{"a": "elicit", "b": "elicit", "c": "elicit", "d": "elicit", "e": "elicit"})
	for server, c := range map[string]struct {
		caps  string
		asked bool
	}{
		"a": {`{"elicitation":{}}`, true},
		"b": {`{"elicitation":{"form":{},"url":{}}}`, true},
		"c": {`{"sampling":{}}`, false},
		"d": {`{"elicitation":{"url":{}},"sampling":{}}`, false},
		"e": {`{}`, false},
	} {
		if body := statelessly(t, r.url, server, c.caps); strings.Contains(body, inputRequired) != c.asked {
			t.Errorf("%s: %s", c.caps, body)
		}
	}
}

func TestOneClientsCallsThatWaitLeaveRoomForAnothers(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	servers := map[string]string{}
	var ready []view.Server
	for _, name := range names {
		servers[name] = "elicit"
		ready = append(ready, view.Server{Name: name, Version: "2025-11-25"})
	}
	r := front(t, allowAll, servers)
	g := gateway.New(gateway.Options{Host: r.host, Offers: r.offers, Limits: gateway.Limits{Parked: 4}, Servers: func() []view.Server { return ready }})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	ada, bob := &view.View{Client: "ada"}, &view.View{Client: "bob"}
	url := over(t, streamable.Options{Gateway: g, Rules: access.Rules{Tokens: func(token string) *view.View {
		return map[string]*view.View{"ada": ada, "bob": bob}[token]
	}}})
	call := func(who, server string) string {
		return statelessly(t, url, server, `{"elicitation":{}}`, "Authorization", "Bearer "+who)
	}
	for _, name := range names[:3] {
		if body := call("ada", name); !strings.Contains(body, inputRequired) {
			t.Fatalf("%s: %s", name, body)
		}
	}
	if body := call("ada", "d"); !strings.Contains(body, `"error_code":"busy"`) {
		t.Errorf("one too many: %s", body)
	}
	if body := call("bob", "e"); !strings.Contains(body, inputRequired) {
		t.Errorf("another client: %s", body)
	}
}
