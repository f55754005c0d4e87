package offers

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/openai"
)

func newToolsDecodeCommand(c *cli.Env) *cobra.Command {
	return offline(c, "decode", "Show what a model's call means to the server", `Read {"tools":[as for convert], "reserved":[…], "name": NAME, "arguments": STRING}
from standard input, with the name and arguments as a model sent them, and print
the server, the tool and the arguments as the server gets them, with what had to
be repaired. An error for the model is printed as {"error":{…}} with exit code 1.`, func(profile string, in []byte) ([]byte, error) {
		out, ok, err := openai.DecodeJSON(profile, in)
		if err != nil {
			return nil, cli.Hint(err, "platform tools decode --help shows the form of the input")
		}
		if !ok {
			return out, cli.ErrShown
		}
		return out, nil
	})
}
