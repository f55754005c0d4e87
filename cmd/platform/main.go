// Command platform stands between a bot's Brain and its MCP servers: it runs
// the servers, offers their tools to a model, carries every call, and turns
// what happens into event files for the Brain. See "platform --help".
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/about"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/approvals"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/ask"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/auth"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/calls"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/gateway"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/history"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/inbox"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/manifests"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/offers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/policy"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/run"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/verbs/servers"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

func main() {
	serverkit.RunGuardIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, line []string, in io.Reader, out, errOut io.Writer) int {
	c := cli.New(in, out, errOut)
	return c.Execute(ctx, root(c), line)
}

// root is the command with all its verbs.
func root(c *cli.Env) *cobra.Command {
	return c.Root(
		run.NewCommand(c), gateway.NewCommand(c), ask.NewCommand(c),
		servers.NewCommand(c), servers.NewLogsCommand(c), servers.NewMetricsCommand(c),
		calls.NewCallCommand(c), calls.NewCommand(c),
		offers.NewToolsCommand(c), offers.NewResourcesCommand(c), offers.NewPromptsCommand(c),
		approvals.NewCommand(c), policy.NewCommand(c), policy.NewCatalogCommand(c), auth.NewCommand(c),
		history.NewCommand(c), inbox.NewCommand(c), manifests.NewCheckCommand(c), manifests.NewImportCommand(c),
		about.NewVersionCommand(c), about.NewSchemaCommand(c),
	)
}
