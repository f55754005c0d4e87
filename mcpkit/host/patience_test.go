package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPatienceEndsOnlyForWhoWaitsAndOutlivesItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		cancel()
		p := wait(parent, time.Second)
		if p.Value(key{}) != "value" || p.Err() != nil {
			t.Errorf("it has %v and %v of its parent", p.Value(key{}), p.Err())
		}
		begun := time.Now()
		<-p.Done()
		if time.Since(begun) != time.Second || !errors.Is(p.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended after %v: %v", time.Since(begun), p.Err())
		}
		p.end()

		p = wait(parent, time.Second)
		p.end()
		<-p.Done()
		p.end()
	})
}

type key struct{}
