package about

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
)

// schemas are the published JSON Schemas by name.
var schemas = map[string][]byte{
	"envelope": amp.Schema,
	"events":   bridge.Schema,
	"manifest": manifest.Schema(),
}

// NewSchemaCommand makes the verb "schema".
func NewSchemaCommand(c *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema NAME",
		Short: "Print a JSON Schema, of events or of manifests",
		Long: `Print a JSON Schema (2020-12):

  envelope   the form of every event file
  events     the same, with what payload.data holds for each type of the platform's
  manifest   manifest.yaml, for editors`,
		Example:   "  platform schema events > events.schema.json",
		ValidArgs: slices.Sorted(maps.Keys(schemas)),
		Args:      cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return runSchema(cmd.Context(), c, a)
		},
	}
}

func runSchema(ctx context.Context, c *cli.Env, a []string) error {
	doc, ok := schemas[a[0]]
	if !ok {
		return cli.Usage(fmt.Errorf("there is no schema %q; there are %s", a[0], strings.Join(slices.Sorted(maps.Keys(schemas)), ", ")))
	}
	c.Out.Printf("%s", doc)
	return nil
}
