package inbox

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// replayOptions are the flags of the verb.
type replayOptions struct {
	f         audit.ReplayFilter
	since, to string
}

func newReplayCommand(c *cli.Env) *cobra.Command {
	var o replayOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "replay --to DIR",
		Short: "Write events of the journal into a folder again",
		Long: `Write events of the journal into a folder, under their names and with their times:
to look at what the Brain took, or to feed another one. The inbox itself is never
written to.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runReplay(cmd.Context(), c, o)
		},
	})
	cmd.Flags().StringVar(&o.to, "to", "", "the folder to write to")
	cmd.Flags().StringVar(&o.since, "since", "", "only events since then: 10m, 2h, 7d, or a date with time")
	cmd.Flags().StringVar(&o.f.Type, "type", "", "only this type, or the beginning of one followed by *")
	cmd.Flags().BoolVar(&o.f.All, "all", false, "also what was only recorded, or had expired")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func runReplay(ctx context.Context, c *cli.Env, o replayOptions) error {
	at, err := inboxFolders(c)
	if err != nil {
		return err
	}
	if o.f.Since, err = cli.Time(o.since, time.Now()); err != nil {
		return cli.Usage(err)
	}
	n, err := audit.Replay(at, o.f, o.to)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"written": n, "to": o.to})
	}
	c.Out.Printf("wrote %d events to %s\n", n, o.to)
	return nil
}
