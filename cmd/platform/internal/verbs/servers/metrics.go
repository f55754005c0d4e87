package servers

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// NewMetricsCommand makes the verb "metrics".
func NewMetricsCommand(c *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "metrics",
		Short: "Print the metrics of the running platform, as Prometheus reads them",
		Long: `Print the metrics of the running platform in the text format of Prometheus.
A Prometheus server reads them at /metrics of the API over TCP ("api" in
platform.yaml), with the token of DATA/state/token.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: c.Online(func(ctx context.Context, client *control.Client, _ []string) error {
			return runMetrics(ctx, c, client)
		}),
	}
}

func runMetrics(ctx context.Context, c *cli.Env, client *control.Client) error {
	var text bytes.Buffer
	if err := client.Metrics(ctx, &text); err != nil {
		return err
	}
	c.Out.Printf("%s", text.Bytes())
	return nil
}
