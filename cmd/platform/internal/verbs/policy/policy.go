// Package policy is the verbs that explain the policy and review what servers say of
// their tools. What decides is in mcpkit/policy.
package policy

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// NewCommand makes the verb "policy".
func NewCommand(c *cli.Env) *cobra.Command {
	return cli.Group("policy", "Say what the policy does with a tool, and why", `The policy is policy.yaml and, below it, what is built in. Its rules decide which calls
run, which wait for a person and which are refused.`,
		newExplainCommand(c))
}
