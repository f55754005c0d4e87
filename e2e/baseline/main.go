// Command baseline is what most people would write with the SDK, and what the
// platform is measured with: a plain gateway, which starts the servers that its
// arguments name and serves their tools over Streamable HTTP, and a plain server
// on stdio with one tool, echo.
//
//	baseline ADDRESS NAME=COMMAND …
//	baseline echo
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == "echo" {
		if err := echo(ctx); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) < 3 {
		log.Fatal("usage: baseline ADDRESS NAME=COMMAND …, or baseline echo")
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "baseline", Version: "1"}, nil)
	for _, arg := range os.Args[2:] {
		name, command, _ := strings.Cut(arg, "=")
		if err := forward(ctx, server, name, strings.Fields(command)); err != nil {
			log.Fatal(name, ": ", err)
		}
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	srv := &http.Server{Addr: os.Args[1], Handler: handler}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}

// forward starts a server and offers its tools under its name.
func forward(ctx context.Context, to *mcp.Server, name string, command []string) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "baseline", Version: "1"}, nil)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return err
	}
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		offered := *tool
		offered.Name = "mcp__" + name + "__" + tool.Name
		own := tool.Name
		to.AddTool(&offered, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return session.CallTool(ctx, &mcp.CallToolParams{Name: own, Arguments: r.Params.Arguments})
		})
	}
	return nil
}

// echo serves one tool that answers what it is told, until stdin ends.
func echo(ctx context.Context) error {
	type said struct {
		Message string `json:"message"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Echo a message."},
		func(_ context.Context, _ *mcp.CallToolRequest, in said) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Message}}}, nil, nil
		})
	return server.Run(ctx, &mcp.StdioTransport{})
}
