package main

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
)

func (c *cli) versionCommand() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "version",
		Short: "Say which version this is and which MCP revisions it speaks",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := daemon.BuildVersion()
			if c.json {
				return c.printJSON(v)
			}
			c.out.Printf("platform %s (%s)\nMCP      ", v.Version, v.Go)
			for i, p := range v.Protocols {
				if i > 0 {
					c.out.Printf(", ")
				}
				c.out.Printf("%s", p)
			}
			c.out.Printf("\n")
			return nil
		},
	})
}
