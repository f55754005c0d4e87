package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

func (c *cli) inboxCommand() *cobra.Command {
	return group("inbox", "Look at the event files that wait for the Brain", `Look at the inbox in DATA/kernel/inbox. These verbs work on the folder alone and
need no running platform. None of them takes an event from the Brain.`,
		c.inboxList(), c.inboxShow(), c.inboxFollow(), c.inboxStats(), c.inboxVerify(), c.inboxReplay(), c.inboxPrune())
}

// queue is the inbox of the data folder, which must be there.
func (c *cli) queue() (queue.Dir, error) {
	dir := filepath.Join(c.data, "kernel", "inbox")
	if _, err := os.Stat(dir); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", &hinted{fmt.Errorf("there is no inbox in %s", c.data), "name the data folder with --data, or start the platform once"}
		}
		return "", err
	}
	return queue.Dir(dir), nil
}

// inboxOptions are where the inbox and its journal are.
func (c *cli) inboxOptions() (inbox.Options, error) {
	q, err := c.queue()
	return inbox.Options{Dir: string(q), Journal: journal.Options{Dir: filepath.Join(c.data, "journal")}}, err
}

// event is how an event is printed as JSON.
type event struct {
	queue.Entry
	Reason   string          `json:"reason,omitempty"`  // why it is in failed/
	Problem  string          `json:"problem,omitempty"` // why it is no envelope
	Envelope json.RawMessage `json:"envelope,omitempty"`
}

func asEvent(it *queue.Item) event {
	e := event{Entry: it.Entry, Reason: it.Reason}
	if it.Problem != nil {
		e.Problem = it.Problem.Error()
	} else {
		e.Envelope = it.Raw
	}
	return e
}

// filterFlags gives a verb the flags that choose events.
func filterFlags(cmd *cobra.Command, f *queue.Filter) (since *string) {
	cmd.Flags().StringVar(&f.Type, "type", "", "only this type, or the beginning of one followed by *")
	cmd.Flags().StringVar(&f.Source, "source", "", "only events of this server")
	return cmd.Flags().String("since", "", "only events since then: 10m, 2h, 7d, or a date with time")
}

// parseSince reads a point in time, absolute or as an age.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days, "%d", &n); err == nil && n >= 0 && fmt.Sprint(n) == days {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither an age such as 10m, 2h or 7d nor a time such as 2026-06-17T14:30:00+08:00", s)
}

func (c *cli) inboxList() *cobra.Command {
	var f queue.Filter
	var n int
	var folder string
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "ls",
		Short: "List the latest events, the newest last",
		Args:  args(cobra.NoArgs),
	})
	since := filterFlags(cmd, &f)
	cmd.Flags().IntVarP(&n, "number", "n", 30, "how many events at most")
	cmd.Flags().StringVar(&folder, "folder", queue.Pending, "pending, processing, done or failed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		folders := []string{queue.Pending, queue.Processing, queue.Done, queue.Failed}
		if err := oneOf(cmd, "folder", folder, folders...); err != nil {
			return err
		}
		q, err := c.queue()
		if err != nil {
			return err
		}
		if n < 1 {
			return &usageError{fmt.Errorf("--number must be at least 1, not %d", n), cmd}
		}
		if f.Since, err = parseSince(*since, time.Now()); err != nil {
			return &usageError{err, cmd}
		}
		f.Folders = []string{folder}
		entries, err := q.List(f, queue.Page{Size: n, Newest: true})
		if err != nil {
			return err
		}
		slices.Reverse(entries)
		events := []event{}
		var rows [][]console.Cell
		for _, e := range entries {
			it, err := q.Load(e)
			if errors.Is(err, os.ErrNotExist) {
				continue // the Brain was quicker
			}
			if err != nil {
				return err
			}
			events = append(events, asEvent(it))
			rows = append(rows, c.mailRow(it, true))
		}
		if c.json {
			return c.printJSON(map[string]any{"events": events})
		}
		if len(rows) == 0 {
			c.out.Printf("no events in %s\n", folder)
			return nil
		}
		c.out.Table([]string{"TIME", "AGE", "TYPE", "SOURCE", "SUMMARY"}, rows)
		return nil
	}
	return cmd
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
func (c *cli) mailRow(it *queue.Item, age bool) []console.Cell {
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

func (c *cli) inboxShow() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "show ID | TYPE",
		Short: "Show one event, or the latest of a type",
		Long: `Show one event. The beginning of its id is enough, and the name of its file will do.
With a type, such as timer.triggered or timer.*, the latest event of it in pending.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			q, err := c.queue()
			if err != nil {
				return err
			}
			it, err := find(q, a[0])
			if errors.Is(err, os.ErrNotExist) {
				return &hinted{fmt.Errorf("no event has an id that begins with %q, and none in pending that type", a[0]), "platform inbox ls --json has the ids"}
			}
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(asEvent(it))
			}
			c.showEvent(it)
			return nil
		},
	})
}

// find is the event that a person means: by the beginning of its id, its file, or as
// the latest of a type.
func find(q queue.Dir, what string) (*queue.Item, error) {
	if _, id, ok := amp.ParseFileName(filepath.Base(what)); ok {
		what = id
	}
	it, err := q.Show(what)
	if !errors.Is(err, os.ErrNotExist) {
		return it, err
	}
	list, failed := q.List(queue.Filter{Type: what}, queue.Page{Size: 1, Newest: true})
	if failed != nil || len(list) == 0 {
		return nil, cmp.Or(failed, err)
	}
	return q.Load(list[0])
}

func (c *cli) showEvent(it *queue.Item) {
	line := func(name, value string) {
		if value != "" {
			c.out.Printf("%s %s\n", c.out.Paint(console.Dim, fmt.Sprintf("%-9s", name)), console.Safe(value))
		}
	}
	line("file", filepath.Join(it.Folder, it.Name))
	line("size", console.Bytes(it.Size))
	if it.Reason != "" {
		line("failed", it.Reason)
	}
	if it.Envelope == nil {
		line("problem", it.Problem.Error())
		return
	}
	h, p := it.Envelope.Header, it.Envelope.Payload
	line("type", p.Type)
	line("source", strings.TrimSuffix(h.Source.App+" #"+h.Source.Instance, " #"))
	line("time", fmt.Sprintf("%s (%s ago)", h.Timestamp.Format(time.RFC3339), console.Age(time.Since(h.Timestamp.Time))))
	line("id", h.MessageID)
	line("method", h.Method)
	if h.Seq > 0 {
		line("seq", fmt.Sprint(h.Seq))
	}
	line("answers", h.CorrelationID)
	line("session", p.SessionID)
	if p.ExpireAt != nil {
		line("expires", p.ExpireAt.Format(time.RFC3339))
	}
	line("summary", p.Summary)
	if len(p.Data) > 0 {
		var pretty strings.Builder
		enc := json.NewEncoder(&pretty)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(p.Data); err != nil {
			line("data", err.Error())
			return
		}
		c.out.Printf("\n")
		for l := range strings.Lines(pretty.String()) {
			c.out.Printf("%s\n", console.Safe(strings.TrimRight(l, "\n")))
		}
	}
}

func (c *cli) inboxFollow() *cobra.Command {
	var f queue.Filter
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "follow",
		Short: "Show events as they come, until Ctrl-C",
		Args:  args(cobra.NoArgs),
	})
	since := filterFlags(cmd, &f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q, err := c.queue()
		if err != nil {
			return err
		}
		from := time.Now()
		if *since != "" {
			if from, err = parseSince(*since, from); err != nil {
				return &usageError{err, cmd}
			}
		}
		for e, err := range q.Follow(cmd.Context(), from) {
			if err != nil {
				return err
			}
			it, err := q.Load(e)
			if errors.Is(err, os.ErrNotExist) || err == nil && !wanted(it, f) {
				continue
			}
			if err != nil {
				return err
			}
			if c.json {
				if err := c.printLine(asEvent(it)); err != nil {
					return err
				}
				continue
			}
			c.mailLine(it)
		}
		return cmd.Context().Err()
	}
	return cmd
}

// wanted reports whether an event that is followed passes the filter.
func wanted(it *queue.Item, f queue.Filter) bool {
	if f.Source != "" && (it.Envelope == nil || it.Envelope.Header.Source.App != f.Source) {
		return false
	}
	if prefix, ok := strings.CutSuffix(f.Type, "*"); ok {
		return strings.HasPrefix(it.Type, strings.ToLower(prefix))
	}
	return f.Type == "" || it.Type == strings.ToLower(f.Type)
}

// mailLine writes one event in columns that fit most events.
func (c *cli) mailLine(it *queue.Item) {
	cells := c.mailRow(it, false)
	widths := []int{8, 22, 22}
	var b strings.Builder
	for i, cell := range cells {
		text := console.Safe(cell.Text)
		if i < len(widths) {
			pad := max(widths[i]-console.Width(text), 0) + 2
			b.WriteString(c.out.Paint(cell.Style, text) + strings.Repeat(" ", pad))
			continue
		}
		b.WriteString(c.out.Paint(cell.Style, c.out.Fit(text, 62)))
	}
	c.out.Printf("%s\n", b.String())
}

func (c *cli) inboxStats() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "stats",
		Short: "Count the events in each folder and of each type",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := c.queue()
			if err != nil {
				return err
			}
			stats, err := q.Stats()
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(stats)
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
			c.out.Table([]string{"FOLDER", "EVENTS", "SIZE", "OLDEST"}, rows)
			for _, folder := range []string{queue.Pending, queue.Processing, queue.Done, queue.Failed} {
				if s := stats[folder]; s.Sampled > 0 {
					c.out.Printf("size and age of %s are estimates from %d of its files\n", folder, s.Sampled)
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
				c.out.Printf("\n")
				c.out.Table([]string{"PENDING TYPE", "EVENTS"}, types)
			}
			return nil
		},
	})
}
