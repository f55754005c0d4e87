package approvals

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
)

func newShowCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "show ID",
		Short: "Show one call with its arguments and why it waits",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runShow(ctx, c, client, a)
		}),
	})
}

func runShow(ctx context.Context, c *cli.Env, client *control.Client, a []string) error {
	id, err := pick(ctx, client, a)
	if err != nil {
		return err
	}
	v, err := client.Approval(ctx, id)
	if err != nil {
		return err
	}
	return showApproval(c, v)
}

func showApproval(c *cli.Env, v approval.Approval) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	cut, expires := "", ""
	if v.Cut {
		cut = fmt.Sprintf("the arguments have %s; this is their beginning", console.Bytes(v.Size))
	}
	if (v.State == approval.Pending || v.State == approval.Approved) && !v.Expires.IsZero() {
		expires = v.Expires.Local().Format(time.RFC3339)
	}
	for _, row := range [][2]string{
		{"id", v.ID}, {"state", standing(v)}, {"server", v.Server}, {"tool", v.Tool},
		{"arguments", string(v.Arguments)}, {"cut", cut}, {"risk", v.Risk}, {"why", v.Reason}, {"by", v.Actor}, {"note", v.Note},
		{"created", v.Created.Local().Format(time.RFC3339)}, {"expires", expires},
	} {
		if row[1] != "" {
			c.Out.Printf("%s %s\n", c.Out.Paint(console.Dim, fmt.Sprintf("%-9s", row[0])), console.Safe(row[1]))
		}
	}
	return nil
}
