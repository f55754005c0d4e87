// Command platform stands between a bot's Brain and its MCP servers: it runs
// the servers, offers their tools to a model, carries every call, and turns
// what happens into event files for the Brain. See "platform --help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

func main() {
	serverkit.RunGuardIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
