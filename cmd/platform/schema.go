package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
)

// schemas are the published JSON Schemas by name.
var schemas = map[string][]byte{
	"envelope": amp.Schema,
	"events":   bridge.Schema,
	"manifest": manifest.Schema(),
}

func (c *cli) schemaCommand() *cobra.Command {
	names := slices.Sorted(maps.Keys(schemas))
	return &cobra.Command{
		Use:   "schema NAME",
		Short: "Print a JSON Schema, of events or of manifests",
		Long: `Print a JSON Schema (2020-12):

  envelope   the form of every event file
  events     the same, with what payload.data holds for each type of the platform's
  manifest   manifest.yaml, for editors`,
		Example:   "  platform schema events > events.schema.json",
		ValidArgs: names,
		Args:      args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			doc, ok := schemas[a[0]]
			if !ok {
				return &usageError{fmt.Errorf("there is no schema %q; there are %s", a[0], strings.Join(names, ", ")), cmd}
			}
			c.out.Printf("%s", doc)
			return nil
		},
	}
}
