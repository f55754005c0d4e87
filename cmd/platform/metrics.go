package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func (c *cli) metricsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "metrics",
		Short: "Print the metrics of the running platform, as Prometheus reads them",
		Long: `Print the metrics of the running platform in the text format of Prometheus.
A Prometheus server reads them at /metrics of the API over TCP ("api" in
platform.yaml), with the token of DATA/state/token.`,
		Args: args(cobra.NoArgs),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			var text bytes.Buffer
			if err := client.Metrics(cmd.Context(), &text); err != nil {
				return err
			}
			c.out.Printf("%s", text.Bytes())
			return nil
		}),
	}
}
