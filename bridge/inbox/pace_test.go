package inbox

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
)

// batches counts the batches that are made visible.
func batches(opt *Options) *atomic.Int64 {
	n := new(atomic.Int64)
	opt.Fault = func(step string) error {
		if step == "inbox intent" {
			n.Add(1)
		}
		return nil
	}
	return n
}

func TestEventsOfAPublisherThatWaitsForEachAreMadeVisibleTogether(t *testing.T) {
	opt := options(t.TempDir())
	opt.Pace = 50 * time.Millisecond
	made := batches(&opt)
	x := open(t, opt)
	begun := time.Now()
	for i := range 300 {
		if _, err := x.Publish(t.Context(), bus.Item{Envelope: bustest.Event("app", "test.event", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if most := int64(time.Since(begun)/opt.Pace) + 2; made.Load() > most {
		t.Errorf("%d batches, want %d at most", made.Load(), most)
	}
	if got := len(visible(t, opt, "pending")); got != 300 {
		t.Errorf("%d visible", got)
	}
}

func TestAfterABurstItsFilesAreMadeInFullBatches(t *testing.T) {
	const n = 6000
	opt := options(t.TempDir())
	opt.Batch = 100
	made := batches(&opt)
	x := open(t, opt)
	begun := time.Now()
	var wg sync.WaitGroup
	for p := range 60 {
		wg.Go(func() {
			for i := range n / 60 {
				if _, err := x.Publish(t.Context(), bus.Item{Envelope: bustest.Event("app", "test.event", p*1000+i)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if most := int64(2*n/opt.Batch) + int64(time.Since(begun)/(10*time.Millisecond)); made.Load() > most {
		t.Errorf("%d batches, want %d at most", made.Load(), most)
	}
	if got := len(visible(t, opt, "pending")); got != n {
		t.Errorf("%d visible", got)
	}
}

func TestEventsThatKeepComingAtAModerateRateDoNotPutFilesOff(t *testing.T) {
	const n = 600 // more than eight batches
	opt := options(t.TempDir())
	opt.Batch, opt.MaxDefer = 64, time.Hour
	held := make(chan struct{})
	opt.Fault = func(step string) error {
		if step == "inbox intent" {
			<-held
		}
		return nil
	}
	x := open(t, opt)
	publish := func(events int) {
		t.Helper()
		items := make([]bus.Item, events)
		for i := range items {
			items[i].Envelope = bustest.Event("app", "test.event", i)
		}
		if _, err := x.Publish(t.Context(), items...); err != nil {
			t.Fatal(err)
		}
	}
	publish(n)
	close(held)
	trickle := time.NewTicker(4 * time.Millisecond)
	defer trickle.Stop()
	for deadline := time.After(30 * time.Second); x.projector.Visible() < n; publish(1) {
		select {
		case <-trickle.C:
		case <-deadline:
			t.Fatalf("%d of %d are visible while some more come", x.projector.Visible(), n)
		}
	}
}
