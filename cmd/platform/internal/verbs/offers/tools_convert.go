package offers

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/openai"
)

func newToolsConvertCommand(c *cli.Env) *cobra.Command {
	return offline(c, "convert", "Show what becomes of tools under a provider profile", `Read {"tools":[{"server","tool","description","inputSchema"}, …], "reserved":[NAME, …]}
from standard input and print the function tools they become, with a report of
every change. Needs no running platform.`, func(profile string, in []byte) ([]byte, error) {
		out, err := openai.ConvertJSON(profile, in)
		if err != nil {
			return nil, cli.Hint(err, "platform tools convert --help shows the form of the input")
		}
		return out, nil
	})
}
