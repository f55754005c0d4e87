package teardown

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPartThatDoesNotEndKeepsNothingElseOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		closed := false
		down := &Stack{Log: slog.New(slog.DiscardHandler)}
		down.Add("lock", func(context.Context) error { closed = true; return nil })
		down.Add("patient", func(ctx context.Context) error { <-ctx.Done(); return nil })
		down.Add("stuck", func(context.Context) error { <-never; return nil })
		err := down.Run(t.Context(), time.Minute)
		if err == nil || !strings.Contains(err.Error(), "closing stuck: it does not end") || strings.Contains(err.Error(), "patient") {
			t.Errorf("the error is %v", err)
		}
		if !closed {
			t.Error("what was below it is open")
		}
	})
}
