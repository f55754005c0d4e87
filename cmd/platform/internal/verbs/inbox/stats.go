package inbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

func newStatsCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "stats",
		Short: "Count the events in each folder and of each type",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runStats(cmd.Context(), c)
		},
	})
}

func runStats(ctx context.Context, c *cli.Env) error {
	q, err := openQueue(c)
	if err != nil {
		return err
	}
	stats, err := q.Stats()
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(stats)
	}
	now := time.Now()
	var rows, types [][]console.Cell
	for _, folder := range []string{queue.Pending, queue.Processing, queue.Done, queue.Failed, queue.Rejected} {
		s := stats[folder]
		oldest := ""
		if !s.Oldest.IsZero() {
			oldest = console.Age(now.Sub(s.Oldest))
		}
		rows = append(rows, []console.Cell{{Text: folder}, {Text: fmt.Sprint(s.Files)}, {Text: console.Bytes(s.Bytes)}, {Text: oldest}})
	}
	c.Out.Table([]string{"FOLDER", "EVENTS", "SIZE", "OLDEST"}, rows)
	for _, folder := range []string{queue.Pending, queue.Processing, queue.Done, queue.Failed} {
		if s := stats[folder]; s.Sampled > 0 {
			c.Out.Printf("size and age of %s are estimates from %d of its files\n", folder, s.Sampled)
		}
	}
	pending := stats[queue.Pending].Types
	names := make([]string, 0, len(pending))
	for name := range pending {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if pending[a] != pending[b] {
			return int(pending[b] - pending[a])
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		types = append(types, []console.Cell{{Text: name, Style: typeStyle(name)}, {Text: fmt.Sprint(pending[name])}})
	}
	if len(types) > 0 {
		c.Out.Printf("\n")
		c.Out.Table([]string{"PENDING TYPE", "EVENTS"}, types)
	}
	return nil
}
