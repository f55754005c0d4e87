package httpwire_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// eras are the handlers of real servers, and the protocol that comes of them.
var eras = []struct {
	name, version string
	handler       func(*mcp.Server) http.Handler
}{
	{"with sessions", "2025-11-25", stateful},
	{"stateless", "2026-07-28", stateless},
	{"HTTP with SSE", "2025-11-25", oldSSE}, // the SDK speaks later versions over the transport of 2024-11-05
}

func TestServersOfEveryEraAreSpokenTo(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			server, counts := newServer(t)
			k := newKit(t)
			s := k.mustOpen(t, serve(t, era.handler(server)))
			if got := s.Info(); got.ProtocolVersion != era.version || got.ServerName != "real" || got.Tools != 3 {
				t.Errorf("%+v", got)
			}
			mustEcho(t, s, "grüße\u2028 \x00 and \"quotes\"")
			mustEcho(t, s, strings.Repeat("long ", 200_000))
			var calls sync.WaitGroup
			for i := range 40 {
				calls.Go(func() {
					text := strings.Repeat("x", i)
					if got, err := call(t, s, "echo", text); err != nil || got != text {
						t.Errorf("%q, %v", got, err)
					}
				})
			}
			calls.Wait()
			if n := counts.of("echo"); n != 42 {
				t.Errorf("%d calls came, want 42", n)
			}
		})
	}
}

func TestProgressComesBeforeTheAnswer(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			server, _ := newServer(t)
			s := newKit(t).mustOpen(t, serve(t, era.handler(server)))
			var last string
			res, err := s.Call(deadline(t), features.CallRequest{
				Tool: "progress", Arguments: json.RawMessage(`{"message":""}`), OnProgress: func(p json.RawMessage) { last = string(p) },
			})
			if err != nil || textOf(res) != "done" || !strings.Contains(last, `"step"`) {
				t.Errorf("%v, last progress %s", err, last)
			}
		})
	}
}

func TestAChangedListOfToolsIsNoticed(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			server, _ := newServer(t)
			k := newKit(t)
			s := k.mustOpen(t, serve(t, era.handler(server)))
			eventually(t, "the new tool is in the catalogue", func() bool {
				// Again and again: the server may not listen yet.
				mcp.AddTool(server, &mcp.Tool{Name: "new"}, func(context.Context, *mcp.CallToolRequest, message) (*mcp.CallToolResult, any, error) {
					return said("new"), nil, nil
				})
				return s.Info().Tools == 4
			})
			eventually(t, "the change is told", func() bool { return k.find(signal.CapabilityChanged, `"new"`) > 0 })
		})
	}
}

func TestACallThatIsGivenUpEndsAtTheServer(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			server, counts := newServer(t)
			s := newKit(t).mustOpen(t, serve(t, era.handler(server)))
			ctx, cancel := context.WithCancel(deadline(t))
			go func() {
				<-counts.entered
				cancel()
			}()
			_, err := s.Call(ctx, features.CallRequest{Tool: "wait", Arguments: json.RawMessage(`{"message":""}`)})
			wantFault(t, err, fault.Cancelled, fault.OutcomeUnknown)
			select {
			case err := <-counts.left:
				if err == nil {
					t.Error("the tool waited to its end")
				}
			case <-deadline(t).Done():
				t.Error("the tool was not told")
			}
			mustEcho(t, s, "the session goes on")
		})
	}
}
