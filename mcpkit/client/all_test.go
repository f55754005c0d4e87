package client_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
)

// TestAHealthyServerDoesNotNoticeAllTheBadOnesBesideIt runs every mode of the
// test kit at once, calls each, and calls a plain server all the while.
func TestAHealthyServerDoesNotNoticeAllTheBadOnesBesideIt(t *testing.T) {
	k := newKit(t)
	healthy := k.conn(t, "echo")
	healthy.Server = "healthy"
	if _, err := k.Connect(deadline(t), healthy); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var calls int
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if got, err := call(k.Manager, t.Context(), "healthy", "echo", fmt.Sprint(calls)); err != nil || got != fmt.Sprint(calls) {
				t.Errorf("call %d of the healthy server: %q, %v", calls, got, err)
			}
			calls++
			time.Sleep(time.Millisecond) // leave the machine to the bad ones
		}
	})

	var bad sync.WaitGroup
	for _, mode := range slices.Sorted(maps.Keys(fakeserver.Modes())) {
		if mode == "sleeper" { // speaks to nobody
			continue
		}
		c := k.conn(t, mode, "millis=500", "bytes=20000000", "total=3000")
		c.Config = session.Config{CallTimeout: 1500 * time.Millisecond, ListTimeout: time.Second, WriteTimeout: time.Second}
		bad.Go(func() {
			ctx, cancel := contextWithTimeout(5 * time.Second)
			defer cancel()
			s, err := k.Connect(ctx, c)
			if err != nil {
				return // other tests say which must
			}
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() {
					if _, err := call(k.Manager, ctx, c.Server, "echo", "x"); err != nil {
						faultOf(t, err)
					}
				})
			}
			calls.Wait()
			s.Close(errors.New("enough"))
		})
	}
	bad.Wait()
	close(over)
	watch.Wait()
	if calls < 20 {
		t.Errorf("%d calls of the healthy server", calls)
	}
	k.echo(t, "healthy", "still there")
}
