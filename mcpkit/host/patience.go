package host

import (
	"context"
	"sync"
	"time"
)

// patience is a context that ends some time after something first waits for it:
// where nothing waits there is no timer. It outlives its parent, whose values it
// has.
type patience struct {
	context.Context
	limit time.Duration

	mu    sync.Mutex
	timer context.Context // nil until something waits
	stop  context.CancelFunc
}

func wait(parent context.Context, limit time.Duration) *patience {
	return &patience{Context: parent, limit: limit}
}

func (p *patience) started() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		p.timer, p.stop = context.WithTimeout(context.WithoutCancel(p.Context), p.limit)
	}
	return p.timer
}

func (p *patience) Done() <-chan struct{}       { return p.started().Done() }
func (p *patience) Err() error                  { return p.started().Err() }
func (p *patience) Deadline() (time.Time, bool) { return p.started().Deadline() }

// begun reports whether something has waited.
func (p *patience) begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timer != nil
}

// end frees the timer. Whoever waits then waits no longer.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		p.timer, p.stop = over, func() {}
	}
	p.stop()
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
