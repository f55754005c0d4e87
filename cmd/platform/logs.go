package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func (c *cli) logsCommand() *cobra.Command {
	var follow bool
	var n int
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "logs SERVER",
		Short: "Show what a server wrote to its standard error; with --json one object for each line",
		Args:  args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			if n < 0 {
				return &usageError{fmt.Errorf("--lines must not be negative, not %d", n), cmd}
			}
			return client.Logs(cmd.Context(), a[0], n, follow, func(line string) error {
				if c.json {
					return c.printLine(map[string]string{"server": a[0], "line": line})
				}
				c.out.Printf("%s\n", console.Safe(line))
				return nil
			})
		}),
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().IntVarP(&n, "lines", "n", 50, "how many of the last lines to show")
	return cmd
}
