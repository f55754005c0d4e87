package calls

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func newShowCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "show [ID]",
		Short: "Show a call and what it waits for",
		Long: `Show a call and what it waits for. Without ID the only call that waits for an answer is
meant; the beginning of an id is enough.`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runShow(ctx, c, client, a)
		}),
	})
}

func runShow(ctx context.Context, c *cli.Env, client *control.Client, a []string) error {
	id, err := pick(ctx, client, a)
	if err != nil {
		return err
	}
	s, err := client.CallState(ctx, id, false)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(s)
	}
	c.Out.Printf("%s  %s  %s\n", console.Safe(s.CallID), s.State, console.Safe(s.Name))
	if s.Input != nil {
		for _, q := range s.Input.Questions {
			showQuestion(c, c.Out, *s.Input, q)
			if len(q.Schema) > 0 {
				c.Out.Printf("  %s\n", console.Safe(string(q.Schema)))
			}
		}
	}
	if s.Response != nil {
		showResult(c, s.Response.Result)
	}
	if s.Problem != nil {
		c.Out.Printf("%s: %s\n", s.Problem.Code, console.Safe(s.Problem.Message))
	}
	return nil
}
