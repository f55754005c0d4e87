package backend

import (
	"context"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/store"
)

// History is a part of what happened.
func (b *Backend) History(ctx context.Context, f store.Filter, p store.Page) (history.Page, error) {
	return b.o.History.List(ctx, b.named(f), p)
}

// HistoryStats counts calls that ended.
func (b *Backend) HistoryStats(ctx context.Context, by string, f store.Filter) ([]store.Stat, error) {
	return b.o.History.Stats(ctx, by, b.named(f))
}

// named is a filter with the full names of its server and its tool, as far as they
// are names of what runs.
func (b *Backend) named(f store.Filter) store.Filter {
	f.Server = b.o.Servers.Name(f.Server)
	if t, err := b.o.Host.Table().Resolve(f.Tool); err == nil {
		f.Tool = t.Name
	}
	return f
}

// HistoryCall is one call with all that is recorded of it.
func (b *Backend) HistoryCall(ctx context.Context, id string) (*history.Chain, error) {
	return b.o.History.Call(ctx, id)
}

// RebuildHistory has the index made again of the journal.
func (b *Backend) RebuildHistory(ctx context.Context) error { return b.o.History.Rebuild(ctx) }
