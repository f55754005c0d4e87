package inbox

import (
	"context"
	"errors"

	"github.com/aurorabot-dev/platform/bridge/bus"
)

// Close is Shutdown within CloseTimeout.
func (x *Inbox) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), x.opt.CloseTimeout)
	defer cancel()
	return x.Shutdown(ctx)
}

// Shutdown makes what was accepted visible and frees everything. What is not done
// when ctx ends is a [bus.Backlog]: it is in the journal and becomes visible after
// the next Open.
func (x *Inbox) Shutdown(ctx context.Context) error {
	if !x.door.Close() {
		return nil
	}
	left := x.door.Left() // with the journal at the latest
	select {
	case <-left:
	case <-ctx.Done():
	}
	end, _ := x.journal.End()
	x.await(ctx, x.projector.Settled, end)
	missing, cause := int64(end-min(end, x.projector.Settled())), x.State().Err
	x.stop(ErrClosed)
	x.owned.Wait()
	err := errors.Join(x.journal.Close(), x.projector.Close(), x.lock.Close())
	<-left
	if missing > 0 {
		err = (&bus.Backlog{Records: missing, Cause: cause}).With(err)
	}
	return err
}

// Flush waits until everything published so far is visible.
func (x *Inbox) Flush(ctx context.Context) error {
	end, _ := x.journal.End()
	if !x.await(ctx, x.projector.Visible, end) {
		return x.explain(context.Cause(ctx))
	}
	return nil
}

// await waits until the projector is at pos; false when ctx ends first.
func (x *Inbox) await(ctx context.Context, at func() uint64, pos uint64) bool {
	return x.progress.Wait(ctx, nil, func() bool { return at() >= pos })
}
