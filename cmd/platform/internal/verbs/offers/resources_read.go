package offers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// readOptions are the flags of the verb.
type readOptions struct {
	fresh bool
}

func newResourcesReadCommand(c *cli.Env) *cobra.Command {
	var o readOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "read SERVER URI",
		Short: "Read one resource",
		Long: `Read one resource. Its texts are printed, other parts named; with --json the whole
answer. It is recorded that it was read, with its size and hash.`,
		Example: `  platform resources read clock clock://timers`,
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runResourcesRead(ctx, c, client, o, a)
		}),
	})
	cmd.Flags().BoolVar(&o.fresh, "fresh", false, "ask the server also where an earlier answer is still good")
	return cmd
}

func runResourcesRead(ctx context.Context, c *cli.Env, client *control.Client, o readOptions, a []string) error {
	res, err := client.ReadResource(ctx, control.ReadRequest{Server: a[0], URI: a[1], Fresh: o.fresh, Entrance: "cli"})
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(res)
	}
	var body struct {
		Contents []struct {
			URI  string `json:"uri"`
			MIME string `json:"mimeType"`
			Text string `json:"text"`
			Blob string `json:"blob"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(res.Result, &body); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	for _, part := range body.Contents {
		if part.Blob != "" {
			c.Out.Printf("[%s %s, %s]\n", console.Safe(part.URI), console.Safe(part.MIME), console.Bytes(int64(len(part.Blob))*3/4))
			continue
		}
		c.Out.Printf("%s\n", strings.TrimRight(cli.SafeText(part.Text), "\n"))
	}
	c.Flagged(res.Flags)
	return nil
}
