// Package approvals is the verbs with which a person answers the calls that wait for
// one.
package approvals

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
)

// NewCommand makes the verb "approvals".
func NewCommand(c *cli.Env) *cobra.Command {
	return cli.Group("approvals", "Answer the calls that wait for a person", `Some calls need a person's approval: those of tools whose risk nobody has stated,
those of high risk, and those of tools that changed. An approval is good for one
server, one tool and one set of arguments.`,
		newListCommand(c), newShowCommand(c), newApproveCommand(c), newDenyCommand(c), newRevokeCommand(c))
}

// pick is the id of the approval that a person means: of the only question that is
// open where none is named, and else of the one whose id begins so.
func pick(ctx context.Context, client *control.Client, a []string) (string, error) {
	given, states := "", []string{string(approval.Pending)}
	if len(a) > 0 {
		given, states = a[0], nil
	}
	list, err := client.Approvals(ctx, states...)
	if err != nil {
		return "", err
	}
	ids := make([]string, len(list))
	for i, v := range list {
		ids[i] = v.ID
	}
	return cli.Pick("question", given, ids)
}

// standing is an approval's state, with what it is good for.
func standing(a approval.Approval) string {
	return strings.TrimSpace(string(a.State) + " " + string(a.Scope))
}

func approvalStyle(s approval.State) console.Style {
	switch s {
	case approval.Pending:
		return console.Yellow
	case approval.Approved:
		return console.Green
	case approval.Denied:
		return console.Red
	}
	return console.Dim
}
