package stream

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// Watch answers with Server-Sent Events, one after each change of a resource, until
// ctx ends. Changes that the client has not read in time are one event. What the
// resource holds is not read.
func Watch(ctx context.Context, w http.ResponseWriter, r *http.Request, of control.Subscription, changed <-chan struct{}, alive time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &writer{w: w, flush: http.NewResponseController(w).Flush}
	err := out.write("retry: 1000\n: watching\n\n")
	if err != nil || r.Method == http.MethodHead {
		return
	}
	data, _ := json.Marshal(of) // strings always marshal
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			err = out.write("event: %s\ndata: %s\n\n", control.UpdatedEvent, data)
		case <-tick.C:
			err = out.write(": alive\n\n")
		}
		if err != nil {
			return
		}
	}
}
