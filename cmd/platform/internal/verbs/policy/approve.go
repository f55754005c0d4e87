package policy

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

// approveOptions are the flags of the verb.
type approveOptions struct {
	hash string
}

func newApproveCommand(c *cli.Env) *cobra.Command {
	var o approveOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "approve SERVER [TOOL]",
		Short: "Approve a server's tools, or one of them, as they are now",
		Long: `Approve a server's tools, or one of them, as they are now, and show them as
"catalog review" does.`,
		Args: cli.Args(cobra.RangeArgs(1, 2)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runApprove(ctx, c, client, o, a)
		}),
	})
	cmd.Flags().StringVar(&o.hash, "hash", "", "approve only if the tools still have this fingerprint, as review showed it")
	return cmd
}

func runApprove(ctx context.Context, c *cli.Env, client *control.Client, o approveOptions, a []string) error {
	r := control.PinRequest{Server: a[0], Hash: o.hash, Actor: cli.Actor()}
	if len(a) == 2 {
		r.Tool = a[1]
	}
	if err := client.Pin(ctx, r); err != nil {
		return err
	}
	report, err := client.Review(ctx, r.Server)
	if err != nil {
		return err
	}
	for i := range report.Servers {
		s := &report.Servers[i]
		s.Tools = slices.DeleteFunc(s.Tools, func(t review.ToolReport) bool { return r.Tool != "" && t.Tool != r.Tool })
	}
	if c.JSON {
		return c.PrintJSON(report)
	}
	showReview(c, report)
	return nil
}
