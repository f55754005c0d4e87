package inbox

import (
	"context"
	"time"
)

// pacer says when the projector may use the disk, which it shares with the
// journal: whoever waits for an acknowledgement is in more of a hurry than the
// files are.
type pacer struct {
	x        *Inbox
	began    time.Time     // the last batch that followed no other at once
	deferred time.Duration // in the present burst
	ask      time.Time     // when next whether there is one
	pause    time.Duration // before that
}

const (
	tick     = time.Millisecond
	asking   = 10 * time.Millisecond // whether there is a burst
	silence  = 3 * time.Millisecond  // says that there is none
	lull     = 25 * time.Millisecond // ends one
	minPause = 500 * time.Millisecond
	maxPause = 8 * time.Second
	patience = 15 // sixteenths of MaxLag that a burst may fill
)

// begin waits for the moment to begin with a batch. Batches that follow one
// another at once are full, or nearly; others begin Pace apart at least, so that
// a publisher that waits for each acknowledgement mostly has the disk to itself.
func (p *pacer) begin(ctx context.Context) {
	sleep(ctx, p.x.opt.Pace-time.Since(p.began))
	if time.Since(p.began) > minPause {
		p.ask, p.pause = time.Time{}, minPause
	}
	p.between(ctx)
	p.began = time.Now()
}

// between waits for the moment to go on with the next batch.
func (p *pacer) between(ctx context.Context) {
	if !p.burst() && p.mayDefer() && time.Now().After(p.ask) {
		p.probe(ctx)
	}
	if p.burst() {
		p.giveWay(ctx)
	}
}

// probe leaves the disk to publishers for a moment, which shows whether a burst
// has begun: then more come than files can be made.
func (p *pacer) probe(ctx context.Context) {
	batch := int64(p.x.opt.Batch)
	if p.x.backlog() <= batch/2 {
		return
	}
	for p.mayDefer() && !p.burst() && p.listen(ctx, asking, silence) > batch {
	}
	if !p.burst() {
		p.ask, p.pause = time.Now().Add(p.pause), min(2*p.pause, maxPause)
	}
}

// burst reports whether publishers are so far ahead of the files that they are
// in a burst, and way is to be given to it.
func (p *pacer) burst() bool { return p.x.backlog() > 8*int64(p.x.opt.Batch) && p.mayDefer() }

// mayDefer is whether waiting fits well into MaxLag and MaxDefer.
func (p *pacer) mayDefer() bool {
	backlog := p.x.backlog()
	if backlog <= int64(p.x.opt.Batch) {
		p.deferred = 0
	}
	return backlog < int64(p.x.opt.MaxLag)*patience/16 && p.deferred < p.x.opt.MaxDefer
}

// giveWay leaves the disk to a burst of publishers, whose acknowledgements come
// several times faster then: as long as it goes on; once, and not longer than
// MaxDefer. What keeps coming at a moderate rate is no burst.
func (p *pacer) giveWay(ctx context.Context) {
	for p.mayDefer() && ctx.Err() == nil {
		if p.listen(ctx, 4*lull, lull) <= int64(p.x.opt.Batch) {
			p.deferred = p.x.opt.MaxDefer
		}
	}
}

// listen returns how many records come within a time, or until none came for
// another one.
func (p *pacer) listen(ctx context.Context, within, silent time.Duration) (came int64) {
	first, _ := p.x.journal.End()
	last, still := first, time.Duration(0)
	for d := time.Duration(0); d < within && still < silent; d += tick {
		sleep(ctx, tick)
		p.deferred += tick
		end, _ := p.x.journal.End()
		if still += tick; end > last {
			last, still = end, 0
		}
	}
	return int64(last - first)
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
