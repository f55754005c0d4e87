package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Close makes what was accepted visible and frees everything. When the disk
// does not allow that within CloseTimeout, the error says how much is left: it
// is in the journal and becomes visible after the next Open.
func (x *Inbox) Close() error {
	if !x.door.Close() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), x.opt.CloseTimeout)
	defer cancel()
	left := x.door.Left() // with the journal at the latest
	select {
	case <-left:
	case <-ctx.Done():
	}
	end, _ := x.journal.End()
	x.await(ctx, &x.projector.settled, end)
	missing := int64(end - min(end, x.projector.settled.Load()))
	x.stop(ErrClosed)
	x.owned.Wait()
	err := errors.Join(x.journal.Close(), x.projector.close(), x.lock.Close())
	<-left
	if missing > 0 {
		err = errors.Join(fmt.Errorf("closing inbox: %d events are in the journal and become visible at the next start", missing), x.State().Err, err)
	}
	return err
}

// Flush waits until everything published so far is visible.
func (x *Inbox) Flush(ctx context.Context) error {
	end, _ := x.journal.End()
	if !x.await(ctx, &x.projector.visible, end) {
		return x.explain(context.Cause(ctx))
	}
	return nil
}

// await waits until the projector is at pos; false when ctx ends first.
func (x *Inbox) await(ctx context.Context, at *atomic.Uint64, pos uint64) bool {
	return x.progress.Wait(ctx, nil, func() bool { return at.Load() >= pos })
}
