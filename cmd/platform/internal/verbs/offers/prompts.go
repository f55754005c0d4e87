package offers

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// NewPromptsCommand makes the verb "prompts".
func NewPromptsCommand(c *cli.Env) *cobra.Command {
	return cli.Group("prompts", "Expand the prompts of servers", `Servers offer prompts: texts that they make of arguments, for a person to use. An
expansion is a user's text, never an order of the platform.`,
		newPromptsListCommand(c), newPromptsGetCommand(c))
}
