package main

import (
	"bytes"

	"github.com/spf13/cobra"
)

func (c *cli) metricsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "metrics",
		Short: "Print the metrics of the running platform, as Prometheus reads them",
		Long: `Print the metrics of the running platform in the text format of Prometheus.
A Prometheus server reads them at /metrics of the API over TCP ("api" in
platform.yaml), with the token of DATA/state/token.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := c.dial()
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := client.Metrics(cmd.Context(), &text); err != nil {
				return err
			}
			c.out.Printf("%s", text.Bytes())
			return nil
		},
	}
}
