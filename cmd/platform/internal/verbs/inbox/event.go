package inbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

// filter are the flags that choose events.
type filter struct {
	queue.Filter
	since string
}

// flags gives a verb the flags that choose events.
func (f *filter) flags(cmd *cobra.Command) {
	typeFlags(cmd, &f.Type, &f.since)
	cmd.Flags().StringVar(&f.Source, "source", "", "only events of this server")
}

// typeFlags gives a verb --type and --since.
func typeFlags(cmd *cobra.Command, typ, since *string) {
	cmd.Flags().StringVar(typ, "type", "", "only this type, or the beginning of one followed by *")
	cmd.Flags().StringVar(since, "since", "", "only events since then: 10m, 7d, 15:00, yesterday, or a date with time")
}

// typeStyle colours an event's type by what it means for a person.
func typeStyle(typ string) console.Style {
	switch {
	case strings.HasSuffix(typ, "failed"), strings.HasSuffix(typ, "crashed"), typ == "mcp.error":
		return console.Red
	case strings.HasPrefix(typ, "lifecycle."), strings.HasPrefix(typ, "capability."):
		return console.Dim
	case strings.HasPrefix(typ, "permission."), strings.HasSuffix(typ, "restarting"):
		return console.Yellow
	case strings.HasPrefix(typ, "tool."):
		return console.Green
	}
	return console.Cyan
}

// mailRow is one event as a line of a mail client.
func mailRow(c *cli.Env, it *queue.Item, age bool) []console.Cell {
	now := time.Now()
	row := []console.Cell{{Text: console.Clock(it.Time, now), Style: console.Dim}}
	if age {
		row = append(row, console.Cell{Text: console.Age(now.Sub(it.Time))})
	}
	if it.Envelope == nil {
		return append(row, console.Cell{Text: it.Type, Style: console.Red}, console.Cell{Text: "?"}, console.Cell{Text: fmt.Sprint("no envelope: ", it.Problem), Style: console.Red})
	}
	p := it.Envelope.Payload
	return append(row, console.Cell{Text: p.Type, Style: typeStyle(p.Type)},
		console.Cell{Text: it.Envelope.Header.Source.App}, console.Cell{Text: p.Summary})
}
