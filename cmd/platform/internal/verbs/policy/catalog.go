package policy

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// NewCatalogCommand makes the verb "catalog".
func NewCatalogCommand(c *cli.Env) *cobra.Command {
	return cli.Group("catalog", "Review what servers say of their tools", `What a server says of its tools goes to a model, so it is scanned for what could
mislead one, and what was approved is pinned by its hash. A tool that is new or is
no longer what was approved asks again before it runs.`,
		newReviewCommand(c), newDiffCommand(c), newApproveCommand(c))
}
