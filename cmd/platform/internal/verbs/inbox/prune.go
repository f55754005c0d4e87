package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

// pruneOptions are the flags of the verb.
type pruneOptions struct {
	age   string
	bytes int64
	dry   bool
}

func newPruneCommand(c *cli.Env) *cobra.Command {
	var o pruneOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "prune",
		Short: "Remove old events that nobody waits for",
		Long: `Remove files of done/, failed/ and rejected/ that are older than --older-than, and
the oldest beyond --max-bytes in each folder, and whole old segments of the
journal with what was kept aside of them. Nothing pending, claimed or undelivered is ever removed.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPrune(cmd.Context(), c, o)
		},
	})
	cmd.Flags().StringVar(&o.age, "older-than", "7d", "age such as 12h or 30d")
	cmd.Flags().Int64Var(&o.bytes, "max-bytes", 0, "size that each folder may keep; 0 is no limit")
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "only say what would be removed")
	return cmd
}

func runPrune(ctx context.Context, c *cli.Env, o pruneOptions) error {
	at, err := inboxFolders(c)
	if err != nil {
		return err
	}
	now := time.Now()
	since, err := cli.Time(o.age, now)
	if err != nil || since.IsZero() || since.After(now) {
		return cli.Usage(fmt.Errorf("--older-than needs an age such as 12h or 30d, not %q", o.age))
	}
	if o.bytes < 0 {
		return cli.Usage(fmt.Errorf("--max-bytes must not be negative, not %d", o.bytes))
	}
	p := queue.Policy{Age: now.Sub(since), Bytes: o.bytes}
	files, segments, skipped, err := audit.Prune(at, audit.PrunePolicy{Done: p, Failed: p, Rejected: p, JournalAge: p.Age}, o.dry)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"dry_run": o.dry, "files": files, "segments": segments, "journal_skipped": skipped != nil})
	}
	verb := "removed"
	if o.dry {
		verb = "would remove"
	}
	for _, f := range files {
		c.Out.Printf("%s %d files, %s, from %s\n", verb, f.Files, console.Bytes(f.Bytes), f.Folder)
	}
	c.Out.Printf("%s %d files of the journal\n", verb, len(segments))
	if skipped != nil {
		c.Out.Printf("the journal was left alone: %s\n", console.Safe(skipped.Error()))
	}
	return nil
}
