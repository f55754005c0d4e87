// Package calls is the verbs that make calls, show those that run, and answer what
// their servers ask in the middle.
package calls

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// NewCommand makes the verb "calls".
func NewCommand(c *cli.Env) *cobra.Command {
	return cli.Group("calls", "See calls and answer what their servers ask", `A server may want to know something in the middle of a call, if its manifest lets it
ask. The call waits for the answer.`,
		newListCommand(c), newShowCommand(c), newAnswerCommand(c))
}
