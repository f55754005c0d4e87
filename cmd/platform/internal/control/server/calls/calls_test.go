package calls

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// backend answers with results of two sizes.
type backend struct{}

func (backend) Call(_ context.Context, r control.CallRequest) (*control.CallResponse, error) {
	res := &control.CallResponse{CallID: r.ID, Result: json.RawMessage(`{"content":[]}`)}
	if r.Name == "big" {
		res.Result = json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("<x>", 1<<20) + `"}]}`)
	}
	return res, nil
}

func TestFinishedCallsAreForgottenByNumberSizeAndAge(t *testing.T) {
	now := time.Now()
	c := New(backend{}, slog.New(slog.DiscardHandler), Limits{Running: 1, Kept: 3, KeptBytes: 4 << 20, Keep: time.Minute})
	c.now = func() time.Time { return now }
	finish := func(id, tool string) {
		t.Helper()
		ctx, e, err := c.Begin(t.Context(), control.CallRequest{ID: id, Name: tool, Async: true, Arguments: json.RawMessage("{}")})
		if err != nil {
			t.Fatal(err)
		}
		c.Run(ctx, e)
	}
	kept := func(want string) {
		t.Helper()
		got := ""
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			if _, err := c.Find(id); err == nil {
				got += id
			}
		}
		if got != want || len(c.finished) != len(want) {
			t.Errorf("kept are %s, want %s", got, want)
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		finish(id, "echo")
	}
	kept("bcd")
	finish("e", "big") // 3 MiB
	kept("cde")
	finish("f", "big")
	kept("f")
	now = now.Add(time.Minute)
	kept("f")
	now = now.Add(time.Nanosecond)
	kept("")
	if c.bytes != 0 || c.running != 0 || len(c.byID) != 0 {
		t.Errorf("left are %d bytes, %d running, %d ids", c.bytes, c.running, len(c.byID))
	}
}
