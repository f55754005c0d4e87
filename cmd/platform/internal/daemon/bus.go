package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
	"github.com/aurorabot-dev/platform/bridge/natsbus"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/retention"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/teardown"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/metrics"
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

// degraded is why events do not get through, or nil.
func (p *Platform) degraded() error {
	if err := p.busErr(); err != nil {
		return err
	}
	return p.bridge.Held()
}

// room says why no more calls of a server can be recorded, with what holds up the bus.
func (p *Platform) room(server string) error {
	err := p.bridge.Room(server)
	if why := p.degraded(); err != nil && why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// closeBus ends the bus.
func (p *Platform) closeBus(ctx context.Context) error { return p.unfinished(p.bus.Shutdown(ctx)) }

// closeBridge ends the bridge.
func (p *Platform) closeBridge(ctx context.Context) error { return p.unfinished(p.bridge.Close(ctx)) }

// unfinished takes what an end could not do in its time, or on a full disk: that is
// told, and is no failure. What was recorded is delivered after the next start, and what
// an app was not acknowledged it sends again.
func (p *Platform) unfinished(err error) error {
	left, backlog := errors.AsType[*bus.Backlog](err)
	if backlog {
		p.log.Warn("not everything was delivered; the next start delivers the rest", "records", left.Records, "cause", left.Cause)
		if err == error(left) {
			return nil
		}
	}
	if space.IsFull(err) || errors.Is(err, context.DeadlineExceeded) {
		p.log.Warn("the end is not complete; the next start does the rest", "cause", err)
		return nil
	}
	return err
}

// retain has what is too old removed until the teardown.
func (p *Platform) retain(ctx context.Context, down *teardown.Stack) {
	r := retention.New(retention.Options{
		Data: p.o.Data, Folders: audit.Folders{Inbox: p.layout.Inbox(), Journal: p.bus.Journal().Dir()},
		Artifacts: p.artifacts, Delivered: p.bus.Journal().DeliveredTo, Log: p.log,
		Policy: func() settings.Retention { return p.options().Retention },
	})
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	down.Add("retention", func(context.Context) error { stop(); <-done; return nil })
}
