package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
	"github.com/aurorabot-dev/platform/bridge/natsbus"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/teardown"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/metrics"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
)

// inboxLimit is l as the inbox takes it.
func inboxLimit(l settings.Limit) inbox.Limit {
	out := inbox.Limit{Files: l.Files, Bytes: l.Bytes}
	switch l.Do {
	case "block":
		out.Do = inbox.Block
	case "spill":
		out.Do = inbox.Spill
	}
	return out
}

// eventBus is a bus with its journal.
type eventBus interface {
	bus.Bus
	Shutdown(context.Context) error
	Journal() *journal.Journal
	Problems() []string
}

// openBus opens what carries envelopes to the Brain.
func (p *Platform) openBus(ctx context.Context, down *teardown.Stack) (err error) {
	switch n := p.o.NATS; p.o.Bus {
	case settings.NATSBus:
		b, err := natsbus.Open(ctx, natsbus.Options{
			URLs: n.URLs, Creds: n.Creds, CA: n.CA, CertFile: n.Cert, KeyFile: n.Key, Stream: n.Stream, Prefix: n.Prefix,
			Replicas: n.Replicas, MaxAge: time.Duration(n.MaxDays) * 24 * time.Hour, MaxBytes: n.MaxBytes,
			Journal: journal.Options{Dir: p.layout.JournalOf(p.o.Bus)}, Logger: p.log,
		})
		if err != nil {
			return err
		}
		p.bus, p.busErr = b, func() error { return b.State().Err }
		p.busCounts = func() metrics.Bus {
			c := b.Counters()
			return metrics.Bus{
				Recorded: c.Recorded, Delivered: c.Delivered, Backlog: c.Backlog, IDs: c.IDs,
				Spilled: -1, Syncs: -1, Pending: -1, PendingBytes: -1,
			}
		}
	default:
		x, err := inbox.Open(inbox.Options{
			Dir: p.layout.Inbox(), Journal: journal.Options{Dir: p.layout.Journal()}, Logger: p.log,
			Soft: inboxLimit(p.o.Inbox.Soft), Hard: inboxLimit(p.o.Inbox.Hard),
		})
		if err != nil {
			return err
		}
		p.bus, p.busErr = x, func() error { return x.State().Err }
		p.busCounts = func() metrics.Bus {
			c := x.Counters()
			return metrics.Bus{
				Recorded: c.Recorded, Delivered: c.Delivered, Spilled: c.Spilled, Syncs: c.Syncs,
				Backlog: c.Backlog, Pending: c.Pending, PendingBytes: c.PendingBytes, IDs: c.IDs,
			}
		}
	}
	down.Add("bus", p.closeBus)
	for _, problem := range p.bus.Problems() {
		p.log.Warn("bus", "problem", problem)
	}
	return nil
}

// closeBus ends the bus. What it could not deliver within the bound is not lost:
// that is told, and is no failure.
func (p *Platform) closeBus(ctx context.Context) error {
	err := p.bus.Shutdown(ctx)
	if left, ok := err.(*bus.Backlog); ok {
		p.log.Warn("not everything was delivered; the next start delivers the rest", "records", left.Records, "cause", left.Cause)
		return nil
	}
	return err
}

// lookEvery is how often retention looks whether the disk is nearly full.
const lookEvery = 5 * time.Second

// retain removes what is too old, now and every hour until the teardown; and
// while the disk is nearly full, as often as a twentieth of the time allows.
func (p *Platform) retain(ctx context.Context, down *teardown.Stack) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		var due, again time.Time // in any case, and on a full disk
		for {
			if now := time.Now(); !now.Before(due) || !now.Before(again) && p.crowded() != nil {
				if err := p.prune(ctx); err != nil && ctx.Err() == nil {
					p.log.Error("removing what is too old failed", "error", err)
				}
				due, again = time.Now().Add(time.Hour), time.Now().Add(20*time.Since(now))
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	down.Add("retention", func(context.Context) error { stop(); <-done; return nil })
}

// minArtifactAge keeps artifacts that an event may just be about to name.
const minArtifactAge = time.Hour

// crowded is why the bus takes no more for want of room, nearly at least.
func (p *Platform) crowded() error { return space.Reserve{}.Check(p.o.Data) }

func (p *Platform) prune(ctx context.Context) error {
	r := p.options().Retention
	age := time.Duration(r.Days) * 24 * time.Hour
	if age == 0 && r.Bytes == 0 {
		return nil
	}
	if share := space.Size(p.o.Data) / 8; r.Bytes > 0 { // a small disk has to hold other things, too
		r.Bytes = min(r.Bytes, share)
	}
	got, err := p.artifacts.Prune(ctx, artifact.Policy{MaxAge: age, MaxTotal: r.Bytes, MinAge: minArtifactAge})
	if err != nil {
		return fmt.Errorf("artifacts: %w", err)
	}
	policy := queue.Policy{Age: age, Bytes: r.Bytes}
	files, err := queue.Dir(p.layout.Inbox()).Prune(map[string]queue.Policy{queue.Done: policy, queue.Failed: policy, queue.Rejected: policy}, false)
	if err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	removed := int64(got.Removed)
	for _, f := range files {
		removed += f.Files
	}
	if removed > 0 {
		p.log.Info("removed what was too old", "files", removed)
	}
	return nil
}
