package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

func newRebuildCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "rebuild",
		Short: "Make the history again of the journal",
		Long: `Make the history again of the journal, whatever is wrong with it. Nothing is lost by
that: the history has nothing that the journal has not. The platform may run meanwhile,
and answers with what is there already.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runRebuild(cmd.Context(), c) },
	})
}

func runRebuild(ctx context.Context, c *cli.Env) error {
	err := rebuildOnline(ctx, c)
	if errors.Is(err, control.ErrNotRunning) {
		err = rebuildOffline(ctx, c)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"ok": true})
	}
	c.Out.Printf("the history was made again of the journal\n")
	return nil
}

// rebuildOnline has the running platform do it, and waits for the end.
func rebuildOnline(ctx context.Context, c *cli.Env) error {
	client, err := c.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.RebuildHistory(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		page, err := client.History(ctx, store.Filter{}, store.Page{Limit: 1})
		if err != nil {
			return err
		}
		if page.Behind == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rebuildOffline does it in place of the platform, which cannot start meanwhile.
func rebuildOffline(ctx context.Context, c *cli.Env) error {
	at := settings.Layout{Data: c.Data}
	bus := settings.Defaults().Bus
	if a, err := history.OpenArchive(ctx, at.History(), at.JournalOf); err == nil {
		bus = a.Bus
		if err := a.Close(); err != nil {
			return err
		}
	} else {
		o := settings.Defaults()
		if err := o.ReadConfig(settings.DefaultConfig, false); err == nil {
			bus = o.Bus
		}
	}
	unlock, err := at.Lock()
	if err != nil {
		return cli.Hint(fmt.Errorf("the data folder cannot be locked: %w", err), "name the data folder with --data")
	}
	defer unlock()
	_, err = history.Build(ctx, at.History(), bus, at.JournalOf(bus))
	return err
}
