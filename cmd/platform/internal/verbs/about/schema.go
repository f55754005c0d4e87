package about

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
)

// names are those of the published JSON Schemas.
var names = []string{"envelope", "events", "manifest", "platform", "policy"}

// NewSchemaCommand makes the verb "schema".
func NewSchemaCommand(c *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema NAME",
		Short: "Print a JSON Schema, of events or of a file of settings",
		Long: `Print a JSON Schema (2020-12):

  envelope   the form of every event file
  events     the same, with what payload.data holds for each type of the platform's
  manifest   manifest.yaml, for editors
  platform   platform.yaml
  policy     policy.yaml`,
		Example:   "  platform schema events > events.schema.json",
		ValidArgs: names,
		Args:      cli.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, a []string) error {
			return runSchema(c, a[0])
		},
	}
}

func runSchema(c *cli.Env, name string) error {
	var doc []byte
	switch name {
	case "envelope":
		doc = amp.Schema
	case "events":
		doc = bridge.Schema
	case "manifest":
		doc = manifest.Schema()
	case "platform":
		doc = settings.Schema()
	case "policy":
		doc = policy.Schema()
	default:
		return cli.Usage(fmt.Errorf("there is no schema %q; there are %s", name, strings.Join(names, ", ")))
	}
	c.Out.Printf("%s", doc)
	return nil
}
