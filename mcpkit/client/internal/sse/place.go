package sse

import (
	"context"
	"math/rand/v2"
	"time"
)

// MaxWait is the longest pause before a stream is opened again that the server has
// not asked for.
const MaxWait = time.Minute

const (
	resumeWait  = time.Second // before a stream is opened again, unless the server says otherwise
	longestWait = 10 * time.Minute
)

// Place is how far a stream was read.
type Place struct {
	ID    string        // of the last event, or empty
	Retry time.Duration // that the server asked for, or negative
}

// Pass notes that an event was read.
func (p *Place) Pass(e Event) {
	if e.ID != "" {
		p.ID = e.ID
	}
	if e.Retry >= 0 {
		p.Retry = e.Retry
	}
}

// Sleep pauses before the nth attempt in a row to open the stream again. It
// reports false where ctx ends first.
func (p Place) Sleep(ctx context.Context, n int) bool {
	t := time.NewTimer(p.wait(n))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p Place) wait(n int) time.Duration {
	if p.Retry >= 0 && n <= 1 {
		return min(p.Retry, longestWait)
	}
	d := min(max(p.Retry, resumeWait)<<min(n, 6), MaxWait)
	return d/2 + rand.N(d/2+1)
}
