// Package history is the verbs that tell what happened: who asked for a call, who
// allowed it, what came of it, and every other event. They ask the platform that
// runs, or read the index that it left.
package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

// NewCommand makes the verb "history".
func NewCommand(c *cli.Env) *cobra.Command {
	return cli.Listing("history", func() *cobra.Command { return newListCommand(c) },
		newShowCommand(c), newStatsCommand(c), newExportCommand(c), newRebuildCommand(c))
}

// source is what answers questions about the history.
type source interface {
	List(ctx context.Context, f store.Filter, p store.Page) (history.Page, error)
	Stats(ctx context.Context, by string, f store.Filter) ([]store.Stat, error)
	Call(ctx context.Context, id string) (*history.Chain, error)
	Close() error
}

// online is the platform that runs.
type online struct{ *control.Client }

func (o online) List(ctx context.Context, f store.Filter, p store.Page) (history.Page, error) {
	return o.History(ctx, f, p)
}

func (o online) Stats(ctx context.Context, by string, f store.Filter) ([]store.Stat, error) {
	return o.HistoryStats(ctx, by, f)
}

func (o online) Call(ctx context.Context, id string) (*history.Chain, error) {
	return o.HistoryCall(ctx, id)
}

func (o online) Close() error { o.Client.Close(); return nil }

// open finds the platform that runs or, where none does, the index that it left.
func open(ctx context.Context, c *cli.Env) (source, error) {
	client, err := c.Dial()
	if err == nil {
		if _, err = client.Version(ctx); err == nil {
			return online{client}, nil
		}
		client.Close()
	}
	if !errors.Is(err, control.ErrNotRunning) {
		return nil, err
	}
	at := settings.Layout{Data: c.Data}
	a, err := history.OpenArchive(ctx, at.History(), at.JournalOf)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, cli.Hint(fmt.Errorf("there is no history in %s", c.Data), "name the data folder with --data, or start the platform once")
	case errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrNewer):
		return nil, cli.Hint(err, `"platform history rebuild" makes it again of the journal`)
	case err != nil:
		return nil, err
	}
	return a, nil
}

// asking makes a verb of what it does with the history.
func asking(c *cli.Env, do func(ctx context.Context, s source, a []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, a []string) error {
		s, err := open(cmd.Context(), c)
		if err != nil {
			return err
		}
		return errors.Join(do(cmd.Context(), s, a), s.Close())
	}
}

// filter are the flags that choose entries.
type filter struct {
	store.Filter
	since, until string
}

func (f *filter) flags(cmd *cobra.Command) {
	for _, flag := range []struct {
		into       *string
		name, help string
	}{
		{&f.Tool, "tool", "only calls of this tool"},
		{&f.Server, "server", "only entries of this server"},
		{&f.since, "since", `only from then on: 10m, 2h, 7d, 15:00, "yesterday 15:00", or a date with time`},
		{&f.until, "until", "only before then, in the same forms"},
		{&f.Outcome, "outcome", "only what ended so: ok, failed, denied, unknown, asked or running"},
		{&f.Caller, "caller", "only calls that came from here: cli, api, outbox, model or gateway"},
		{&f.Session, "session", "only entries of this conversation"},
		{&f.Type, "type", "only entries whose last event has this type, or its first words followed by .*"},
		{&f.Kind, "kind", "only call, approval (a person was asked), question, resource, prompt, event, lifecycle, capability, notification or problem"},
		{&f.Approval, "approval", "only calls for which this question was asked"},
		{&f.Text, "text", "only entries with all of these words, in any language; a * stands for the end of one"},
	} {
		cmd.Flags().StringVar(flag.into, flag.name, "", flag.help)
	}
}

// read reads the flags.
func (f *filter) read(now time.Time) (store.Filter, error) {
	var err error
	if f.Since, err = cli.Time(f.since, now); err != nil {
		return f.Filter, cli.Usage(err)
	}
	if f.Until, err = cli.Time(f.until, now); err != nil {
		return f.Filter, cli.Usage(err)
	}
	if err := f.Check(); err != nil {
		return f.Filter, cli.Usage(err)
	}
	return f.Filter, nil
}

// incomplete says on standard error what the history lacks.
func incomplete(c *cli.Env, behind uint64) {
	if behind > 0 {
		c.Err.Printf("%s\n", c.Err.Paint(console.Yellow, "note: "+cli.Count(int(behind), "record")+" of the journal, the latest, are not in the history yet"))
	}
}

func outcomeStyle(o entry.Outcome) console.Style {
	switch o {
	case entry.OK:
		return console.Green
	case entry.Failed, entry.Denied, entry.Unknown:
		return console.Red
	case entry.Asked, entry.Running:
		return console.Yellow
	}
	return console.Plain
}

// by is who allowed or denied a call, where that was a person.
func by(e *entry.Entry) string {
	if e.Actor == "policy" {
		return ""
	}
	return e.Actor
}

// what is the tool of a call, or the type of another event.
func what(e *entry.Entry) string {
	if e.CallID != "" && e.Tool != "" {
		return e.Tool
	}
	return e.Type
}

// took is how long a call took, without what a person took.
func took(e *entry.Entry) string {
	if e.CallID == "" || e.Open {
		return ""
	}
	return console.Millis(e.DurationMS)
}

// told is the summary of an entry without the name that stands in front of it anyway.
func told(e *entry.Entry) string {
	return strings.TrimSpace(strings.TrimPrefix(e.Summary, what(e)))
}
