package appkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/appkittest"
)

// unfit are handlers of which the SDK cannot encode what they return.
var unfit = map[string]mcp.ToolHandler{
	"a_result": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"height": math.Inf(1)}}, nil
	},
	"an_error": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: 1, Message: "no", Data: json.RawMessage("{")}
	},
}

func addUnfit(s *mcp.Server) {
	for name, handler := range unfit {
		s.AddTool(&mcp.Tool{Name: name, Description: "Fail.", InputSchema: map[string]any{"type": "object"}}, handler)
	}
}

func TestACallWhoseAnswerCannotBeEncodedIsAnsweredWithAnError(t *testing.T) {
	eras(t, func(t *testing.T, era appkittest.Option) {
		synctest.Test(t, func(t *testing.T) { // where nobody works, an hour passes at once
			s := appkittest.Start(t, []byte(manifest), func(app *appkit.App) error {
				addUnfit(app.Server())
				return setup(app)
			}, era)
			for name := range unfit {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				_, err := s.Client.CallTool(ctx, &mcp.CallToolParams{Name: name})
				cancel()
				var wire *jsonrpc.Error
				if !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInternalError {
					t.Errorf("%s: got %v", name, err)
				}
			}
			appkittest.Call[greeting](t, s, "greet", map[string]any{"name": "x"}) // the session goes on
		})
	})
}

// Once this fails, the SDK answers such a call itself: then internal/wire/answers.go can go.
func TestTheSDKLeavesACallUnansweredWhoseResultCannotBeEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, &mcp.ServerOptions{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		addUnfit(server)
		serverSide, clientSide := mcp.NewInMemoryTransports()
		if _, err := server.Connect(t.Context(), serverSide, nil); err != nil {
			t.Fatal(err)
		}
		session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), clientSide, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "a_result"})
			returned <- err
		}()
		synctest.Wait() // until nothing moves any more, on either side
		select {
		case err := <-returned:
			t.Errorf("the call was answered: %v", err)
		default:
		}
		cancel()
		if err := <-returned; !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
		session.Close()
	})
}
