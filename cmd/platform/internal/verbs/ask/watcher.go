package ask

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer"
)

// watcher shows a person at a terminal what happens.
type watcher struct {
	c    *cli.Env
	mu   sync.Mutex
	open bool // a line of the answer has not ended
}

func (w *watcher) text(delta string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.c.Out.Printf("%s", cli.SafeText(delta))
	w.open = !strings.HasSuffix(delta, "\n")
}

func (w *watcher) event(e externalizer.Event) {
	if !w.c.Err.Terminal() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Kind {
	case externalizer.Retrying:
		w.row("…", console.Yellow, fmt.Sprintf("%v; again in %s", e.Err, console.Millis(e.Delay.Milliseconds())))
	case externalizer.CallWaiting:
		var data struct {
			ID string `json:"approval_id"`
		}
		if json.Unmarshal(e.Call.Error.Data, &data) == nil && data.ID != "" {
			w.row("?", console.Yellow, e.Call.Name+" waits for a person's approval; in another terminal:")
			w.c.Err.Printf("  platform approvals approve %s --data %s\n", data.ID, cli.QuoteArg(w.c.Data)) // whole, to be copied
		}
	case externalizer.CallFinished:
		mark, style, outcome := "✓", console.Green, ""
		switch {
		case e.Call.Error != nil:
			mark, style, outcome = "✗", console.Red, "  "+e.Call.Error.Error()
		case e.Call.IsError:
			mark, style, outcome = "✗", console.Red, "  the tool reported a failure"
		case len(e.Call.Flags) > 0:
			outcome = "  the result was flagged: " + strings.Join(e.Call.Flags, ", ")
		}
		w.row(mark, style, fmt.Sprintf("%s  %s%s", e.Call.Name, console.Millis(e.Call.DurationMS), outcome))
	}
}

func (w *watcher) row(mark string, style console.Style, text string) {
	if w.open {
		w.c.Out.Printf("\n")
		w.open = false
	}
	w.c.Err.Printf("%s %s\n", w.c.Err.Paint(style, mark), w.c.Err.Paint(console.Dim, w.c.Err.Fit(console.Safe(text), 3)))
}
