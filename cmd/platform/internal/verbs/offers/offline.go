package offers

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/openai"
)

// maxTools bounds what the offline verbs read, in bytes.
const maxTools = 64 << 20

// offline gives a verb that turns standard input into standard output.
func offline(c *cli.Env, use, short, long string, do func(profile string, in []byte) ([]byte, error)) *cobra.Command {
	var profile string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.OneOf("profile", profile, openai.Profiles()...); err != nil {
				return err
			}
			in, err := io.ReadAll(io.LimitReader(c.In, maxTools+1))
			if err == nil && len(in) > maxTools {
				err = fmt.Errorf("more than %d bytes", maxTools)
			}
			if err != nil {
				return fmt.Errorf("reading standard input: %w", err)
			}
			out, err := do(profile, in)
			if len(out) > 0 {
				c.Out.Printf("%s\n", bytes.TrimRight(out, "\n"))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&profile, "profile", openai.DefaultProfile, "one of "+strings.Join(openai.Profiles(), ", "))
	return cmd
}
