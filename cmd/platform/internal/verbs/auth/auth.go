// Package auth is the verbs that log in to remote servers and out: the conversation
// with the person, the port that the browser comes back to, and what is shown. The
// protocol is in mcpkit/auth.
package auth

import (
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// NewCommand makes the verb "auth".
func NewCommand(c *cli.Env) *cobra.Command {
	return cli.Group("auth", "Log in to remote servers, and out", `Remote MCP servers may want to know on whose behalf the platform comes. A server
that does waits in the state needs_auth until somebody has logged in with
"platform auth login"; then it is connected by itself.

What is issued is kept in DATA/auth for the platform alone, one file for each
server and issuer. No running platform is needed.`,
		newLoginCommand(c), newStatusCommand(c), newLogoutCommand(c))
}
