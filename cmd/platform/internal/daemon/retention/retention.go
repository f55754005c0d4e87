// Package retention removes what is too old or too much: artifacts, and files of the
// inbox that are dealt with. What an event that still waits refers to stays.
//
//	r := retention.New(retention.Options{Data: data, Artifacts: store, …})
//	r.Run(ctx) // until ctx ends
//
// The journal drops its own segments.
package retention

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
)

// Options say what is removed. All are required.
type Options struct {
	Data      string // the data folder, whose disk may be nearly full
	Folders   audit.Folders
	Artifacts *artifact.Store
	// Delivered is the position in the journal up to which every record is delivered.
	Delivered func() uint64
	// Policy is what may stay; it may change.
	Policy func() settings.Retention
	Log    *slog.Logger
}

// Retention removes what is too old or too much.
type Retention struct{ o Options }

// New makes a Retention.
func New(o Options) *Retention { return &Retention{o} }

// lookEvery is how often Run looks whether the disk is nearly full.
const lookEvery = 5 * time.Second

// Run prunes now and every hour until ctx ends; and while the disk is nearly full, as
// often as a twentieth of the time allows.
func (r *Retention) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var due, again time.Time // in any case, and on a full disk
	for {
		if now := time.Now(); !now.Before(due) || !now.Before(again) && r.crowded() != nil {
			if err := r.Prune(ctx); err != nil && ctx.Err() == nil {
				r.o.Log.Error("removing what is too old failed", "error", err)
			}
			due, again = time.Now().Add(time.Hour), time.Now().Add(20*time.Since(now))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// minArtifactAge keeps artifacts that an event may just be about to name.
const minArtifactAge = time.Hour

// crowded is why the bus takes no more for want of room, nearly at least.
func (r *Retention) crowded() error { return space.Reserve{}.Check(r.o.Data) }

// Prune removes once.
func (r *Retention) Prune(ctx context.Context) error {
	p := r.o.Policy()
	age := time.Duration(p.Days) * 24 * time.Hour
	if age == 0 && p.Bytes == 0 {
		return nil
	}
	if share := space.Size(r.o.Data) / 8; p.Bytes > 0 { // a small disk has to hold other things, too
		p.Bytes = min(p.Bytes, share)
	}
	got, err := r.o.Artifacts.Prune(ctx, artifact.Policy{
		MaxAge: age, MaxTotal: p.Bytes, MinAge: minArtifactAge,
		Needed: func(hashes []string) (map[string]bool, error) {
			return audit.Needed(r.o.Folders, r.o.Delivered()+1, hashes)
		},
	})
	if err != nil {
		return fmt.Errorf("artifacts: %w", err)
	}
	policy := queue.Policy{Age: age, Bytes: p.Bytes}
	files, err := queue.Dir(r.o.Folders.Inbox).Prune(map[string]queue.Policy{queue.Done: policy, queue.Failed: policy, queue.Rejected: policy}, false)
	if err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	removed := int64(got.Removed)
	for _, f := range files {
		removed += f.Files
	}
	if removed > 0 {
		r.o.Log.Info("removed what was too old", "files", removed)
	}
	if got.Needed > 0 {
		r.o.Log.Debug("artifacts stay although they are too old: events that wait name them", "artifacts", got.Needed)
	}
	return nil
}
