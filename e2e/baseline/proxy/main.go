// Command proxy is the other thing that people put in front of stdio servers: one
// endpoint per server, /NAME/mcp, that passes tool calls on, with the library
// mcp-go on both sides. It checks, records and joins nothing. The platform is
// measured beside it.
//
//	proxy ADDRESS NAME=COMMAND …
//
// It is a module of its own, so that the library is no dependency of the platform.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 3 {
		log.Fatal("usage: proxy ADDRESS NAME=COMMAND …")
	}
	mux := http.NewServeMux()
	for _, arg := range os.Args[2:] {
		name, command, _ := strings.Cut(arg, "=")
		s, err := forward(ctx, name, strings.Fields(command))
		if err != nil {
			log.Fatal(name, ": ", err)
		}
		mux.Handle("/"+name+"/mcp", server.NewStreamableHTTPServer(s))
	}
	srv := &http.Server{Addr: os.Args[1], Handler: mux}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}

// forward starts a server and serves its tools.
func forward(ctx context.Context, name string, command []string) (*server.MCPServer, error) {
	upstream, err := client.NewStdioMCPClient(command[0], os.Environ(), command[1:]...)
	if err != nil {
		return nil, err
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = "2025-11-25"
	hello.Params.ClientInfo = mcp.Implementation{Name: "proxy", Version: "1"}
	if _, err := upstream.Initialize(ctx, hello); err != nil {
		return nil, err
	}
	tools, err := upstream.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	s := server.NewMCPServer(name, "1")
	for _, tool := range tools.Tools {
		s.AddTool(tool, upstream.CallTool)
	}
	return s, nil
}
