package offers

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// NewResourcesCommand makes the verb "resources".
func NewResourcesCommand(c *cli.Env) *cobra.Command {
	return cli.Group("resources", "Read what servers let read", `Servers offer resources: texts and files under URIs. Nothing is read unless it is
asked for by name, and the policy says of which servers and how much.`,
		newResourcesListCommand(c), newResourcesReadCommand(c), newResourcesWatchCommand(c))
}
