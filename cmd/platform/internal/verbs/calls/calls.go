// Package calls is the verbs that make calls, show those that run, and answer what
// their servers ask in the middle.
package calls

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// NewCommand makes the verb "calls".
func NewCommand(c *cli.Env) *cobra.Command {
	return cli.Group("calls", "See calls and answer what their servers ask", `A server may want to know something in the middle of a call, if its manifest lets it
ask. The call waits for the answer.`,
		newListCommand(c), newShowCommand(c), newAnswerCommand(c))
}

// waiting is the state of calls that wait for an answer.
const waiting = "input_required"

// pick is the id of the call that a person means: of the only one that waits for an
// answer where none is named, and else of the one whose id begins so.
func pick(ctx context.Context, client *control.Client, a []string) (string, error) {
	given, state := "", waiting
	if len(a) > 0 {
		given, state = a[0], ""
	}
	list, err := client.Calls(ctx, state)
	if err != nil {
		return "", err
	}
	ids := make([]string, len(list))
	for i, v := range list {
		ids[i] = v.CallID
	}
	return cli.Pick("call", given, ids)
}
