// Command emitter is an app for fault tests: it emits numbered events as fast as
// its outbox takes them and writes down, in the file EMITTED, which it tries and
// which it was promised. A number is never emitted twice: what was tried and not
// promised before a kill may or may not arrive.
//
//	{"k":17,"ev":"try"}
//	{"k":17,"ev":"ack"}      Emit returned: the event is durable
//
// It stops after EMIT_MAX events, if that is set, and once EMITTED.stop is there,
// and waits for EMIT_PAUSE, such as 5ms, after each.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
)

//go:embed manifest.yaml
var manifest []byte

func main() { appkit.Main(manifest, setup) }

// retryPause is how long a refused write or Emit waits for its next attempt.
const retryPause = 20 * time.Millisecond

func setup(app *appkit.App) error {
	path := os.Getenv("EMITTED")
	last, err := lastTried(path)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	limit, err := strconv.ParseInt(os.Getenv("EMIT_MAX"), 10, 64)
	if err != nil {
		limit = 1 << 40
	}
	pause, err := time.ParseDuration(os.Getenv("EMIT_PAUSE"))
	if err != nil {
		pause = 0
	}
	var emitted atomic.Int64
	emitted.Store(last)
	app.Go("emit", func(ctx context.Context) error {
		for k := last + 1; k <= limit; k++ {
			if _, err := os.Stat(path + ".stop"); err == nil {
				return nil
			}
			if _, err := fmt.Fprintf(log, "\n{\"k\":%d,\"ev\":\"try\"}\n", k); err != nil {
				return err
			}
			event := appkit.Event{Type: "test.event", Summary: "a numbered event", Data: map[string]any{"k": k, "text": strings.Repeat(fmt.Sprint(k, " "), 50)}}
			for app.Emit(ctx, event) != nil { // the outbox or the disk is full: the event is not kept
				select {
				case <-time.After(retryPause):
				case <-ctx.Done():
					return nil
				}
			}
			if _, err := fmt.Fprintf(log, "\n{\"k\":%d,\"ev\":\"ack\"}\n", k); err != nil {
				return err
			}
			emitted.Store(k)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	appkit.AddTool(app, appkit.Tool{Name: "count", Description: "How many events were emitted.", ReadOnly: true},
		func(context.Context, struct{}) (map[string]int64, error) {
			return map[string]int64{"emitted": emitted.Load()}, nil
		})
	appkit.AddTool(app, appkit.Tool{Name: "reset", Description: "A tool of high risk, which says that it was called.", Destructive: true},
		func(context.Context, struct{}) (string, error) { return "called", nil })
	return nil
}

func lastTried(path string) (last int64, err error) {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0, nil
	}
	for line := range bytes.Lines(raw) {
		var r struct{ K int64 }
		if json.Unmarshal(line, &r) == nil { // the last line may be torn
			last = max(last, r.K)
		}
	}
	return last, err
}
