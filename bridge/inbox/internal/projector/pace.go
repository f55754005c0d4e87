package projector

import (
	"context"
	"time"
)

// pacer decides when the projector may use the disk, which it shares with the
// journal. Publishers wait for the journal's syncs, and nobody waits for the files;
// so during a burst of records the pacer puts files off, within MaxLag and MaxDefer.
type pacer struct {
	opt     *Options
	backlog func() int64 // records that are not visible yet

	lastStart  time.Time     // of the last batch that did not follow another at once
	deferred   time.Duration // how long files were put off since the backlog was last small
	nextProbe  time.Time     // no probe begins earlier
	probePause time.Duration // until the next probe, after one that found no burst
}

const (
	pollInterval  = time.Millisecond       // between two looks at the journal's end
	probeTime     = 10 * time.Millisecond  // how long one look for a burst takes at most
	probeSilence  = 3 * time.Millisecond   // without a new record: there is no burst
	burstWindow   = 100 * time.Millisecond // in which a burst brings more than a batch
	burstSilence  = 25 * time.Millisecond  // without a new record: the burst is over
	minProbePause = 500 * time.Millisecond
	maxProbePause = 8 * time.Second
	burstBatches  = 8 // the backlog in a burst is more than so many batches
)

// waitToStart waits until a batch may begin that does not follow another at once.
// Such batches begin Pace apart at least, so that a publisher that waits for each
// acknowledgement mostly has the disk to itself.
func (p *pacer) waitToStart(ctx context.Context) {
	sleep(ctx, p.opt.Pace-time.Since(p.lastStart))
	if time.Since(p.lastStart) > minProbePause {
		p.nextProbe, p.probePause = time.Time{}, minProbePause
	}
	p.waitToContinue(ctx)
	p.lastStart = time.Now()
}

// waitToContinue waits until the next batch may follow.
func (p *pacer) waitToContinue(ctx context.Context) {
	if !p.inBurst() && p.mayDefer() && time.Now().After(p.nextProbe) {
		p.probe(ctx)
	}
	if p.inBurst() {
		p.waitForEndOfBurst(ctx)
	}
}

// probe leaves the disk to publishers for a moment. If a burst has begun, the
// backlog then grows until inBurst notices it. Probes that find no burst become
// rarer, as each of them delays the files.
func (p *pacer) probe(ctx context.Context) {
	batch := int64(p.opt.Batch)
	if p.backlog() <= batch/2 {
		return
	}
	for p.mayDefer() && !p.inBurst() && p.countNew(ctx, probeTime, probeSilence) > batch {
	}
	if !p.inBurst() {
		p.nextProbe, p.probePause = time.Now().Add(p.probePause), min(2*p.probePause, maxProbePause)
	}
}

// inBurst reports whether publishers are so far ahead of the files that the files
// are put off.
func (p *pacer) inBurst() bool { return p.backlog() > burstBatches*int64(p.opt.Batch) && p.mayDefer() }

// mayDefer reports whether files may be put off any longer: a sixteenth of MaxLag
// stays free, so that no publisher is blocked for it, and MaxDefer has not passed.
func (p *pacer) mayDefer() bool {
	backlog := p.backlog()
	if backlog <= int64(p.opt.Batch) {
		p.deferred = 0
	}
	return backlog < int64(p.opt.MaxLag)*15/16 && p.deferred < p.opt.MaxDefer
}

// waitForEndOfBurst leaves the disk to publishers, whose acknowledgements come
// several times faster then. Records that keep coming at a moderate rate are no
// burst: files are not put off for these again until the backlog was small.
func (p *pacer) waitForEndOfBurst(ctx context.Context) {
	for p.mayDefer() && ctx.Err() == nil {
		if p.countNew(ctx, burstWindow, burstSilence) <= int64(p.opt.Batch) {
			p.deferred = p.opt.MaxDefer
		}
	}
}

// countNew waits until a time is over, or until no record came for the time
// silence, and returns how many records came. The wait counts as deferred.
func (p *pacer) countNew(ctx context.Context, within, silence time.Duration) (came int64) {
	first, _ := p.opt.Journal.End()
	last, silent := first, time.Duration(0)
	for waited := time.Duration(0); waited < within && silent < silence; waited += pollInterval {
		sleep(ctx, pollInterval)
		p.deferred += pollInterval
		end, _ := p.opt.Journal.End()
		if silent += pollInterval; end > last {
			last, silent = end, 0
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
