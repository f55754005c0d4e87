package httpwire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
)

func TestAQuestionGoesToTheCallInWhoseAnswerItCame(t *testing.T) {
	s, _ := newServer(t)
	const callers = 3
	entered, all := make(chan struct{}, callers), make(chan struct{})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.CallToolRequest, in message) (*mcp.CallToolResult, any, error) {
		entered <- struct{}{}
		<-all
		got, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.Message, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return nil, nil, err
		}
		return said(fmt.Sprint(in.Message, " ", got.Content["name"])), nil, nil
	})
	k := newKit(t)
	session := k.mustOpen(t, serve(t, stateful(s)), func(_ *httpwire.Options, cfg *session.Config) { cfg.Elicit = true })
	type outcome struct {
		who, text string
		err       error
	}
	out := make(chan outcome, callers)
	for i := range callers {
		who := fmt.Sprint("caller", i)
		ask := func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			var p struct{ Message string }
			if err := json.Unmarshal(params, &p); err != nil || p.Message != who {
				t.Errorf("%s was asked %s", who, params)
			}
			return json.RawMessage(`{"action":"accept","content":{"name":"` + who + `"}}`), nil
		}
		go func() {
			args, _ := json.Marshal(message{who})
			res, err := session.Call(deadline(t), features.CallRequest{Tool: "ask", Arguments: args, Ask: ask, Asker: who})
			if err != nil {
				out <- outcome{who, "", err}
				return
			}
			out <- outcome{who, textOf(res), nil}
		}()
	}
	for range callers {
		<-entered
	}
	close(all)
	for range callers {
		if o := <-out; o.err != nil || o.text != o.who+" "+o.who {
			t.Errorf("%s got %q, %v", o.who, o.text, o.err)
		}
	}
}
