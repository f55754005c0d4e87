package history

import (
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// exportOptions are the flags of the verb.
type exportOptions struct {
	filter
	format string
}

func newExportCommand(c *cli.Env) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all entries that are chosen, the oldest first",
		Long: `Write all entries that are chosen to standard output, the oldest first: as JSON, one
object a line, or as CSV for a spreadsheet. A cell of CSV that a spreadsheet would take
for a formula has an apostrophe in front.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: asking(c, func(ctx context.Context, s source, _ []string) error {
			return runExport(ctx, c, s, o)
		}),
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.format, "format", "jsonl", "jsonl or csv")
	return cmd
}

func runExport(ctx context.Context, c *cli.Env, s source, o exportOptions) error {
	if err := cli.OneOf("format", o.format, "jsonl", "csv"); err != nil {
		return err
	}
	f, err := o.read(time.Now())
	if err != nil {
		return err
	}
	write := func(e *entry.Entry) error { return c.PrintLine(e) }
	table := csv.NewWriter(c.Out)
	if o.format == "csv" {
		if err := table.Write(csvHeader); err != nil {
			return err
		}
		write = func(e *entry.Entry) error { return table.Write(csvRow(e)) }
	}
	for after := uint64(1); ; {
		page, err := s.List(ctx, f, store.Page{Limit: maxPage, After: after})
		if err != nil {
			return err
		}
		for i := range page.Entries {
			if err := write(&page.Entries[i]); err != nil {
				return err
			}
		}
		table.Flush()
		if len(page.Entries) < maxPage {
			incomplete(c, page.Behind)
			return table.Error()
		}
		after = page.Entries[len(page.Entries)-1].ID
	}
}

var csvHeader = []string{
	"id", "time", "started", "kind", "type", "server", "tool", "caller", "session", "outcome", "call_id", "risk", "decision", "actor", "approval",
	"asked", "granted", "duration_ms", "waited_ms", "size", "error_code", "summary",
}

func csvRow(e *entry.Entry) []string {
	row := []string{
		fmt.Sprint(e.ID), e.Time.Format(time.RFC3339Nano), e.Started.Format(time.RFC3339Nano), string(e.Kind), e.Type, e.Server, e.Tool, e.Caller, e.Session,
		string(e.Outcome), e.CallID, e.Risk, e.Decision, e.Actor, e.Approval, strconv.FormatBool(e.Asked), strconv.FormatBool(e.Granted),
		fmt.Sprint(e.DurationMS), fmt.Sprint(e.WaitedMS), fmt.Sprint(e.Size), e.ErrorCode, e.Summary,
	}
	for i, cell := range row {
		row[i] = cli.SafeText(cell)
		if strings.HasPrefix(cell, "=") || strings.HasPrefix(cell, "+") || strings.HasPrefix(cell, "-") || strings.HasPrefix(cell, "@") || strings.HasPrefix(cell, "\t") {
			row[i] = "'" + row[i]
		}
	}
	return row
}
