package outbox

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
)

// answer answers as a host does.
func (b *box) answer(id string, r ask.Replies, actor string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.given[id]
	if c == nil {
		return fault.New(ask.NotFound, "no call with the id %q waits for an answer", id)
	}
	if actor == "nobody" {
		return fault.New(fault.InvalidArguments, "that does not fit")
	}
	c <- r
	return nil
}

func TestAnAnswerByFileReachesTheCallThatWaitsHoweverManyWait(t *testing.T) {
	b := open(t, nil)
	b.do = func(ctx context.Context, c host.Call) error {
		b.mu.Lock()
		given := make(chan ask.Replies, 1)
		b.given[c.ID] = given
		b.mu.Unlock()
		select {
		case r := <-given:
			if len(r) != 1 {
				t.Errorf("%s got %v", c.ID, r)
			}
		case <-ctx.Done():
		}
		return nil
	}
	const calls = maxAtOnce + 4 // more than are carried out at once
	for i := range calls {
		b.put(fmt.Sprintf("call_c%02d.json", i), `{"name":"s.t"}`)
	}
	b.until("as many calls as run at once", func() bool { return b.calls.Load() == maxAtOnce })
	for i := range calls {
		b.until("the call", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.given[fmt.Sprintf("c%02d", i)] != nil })
		b.put(fmt.Sprintf("answer_c%02d.json", i), `{"action":"accept","content":{"n":1}}`)
	}
	b.until("all ends", func() bool { return b.count(Done) == 2*calls })
	if n := b.count(Failed); n != 0 {
		t.Errorf("%d files failed", n)
	}
}

func TestWhatIsNoAnswerIsRefusedWithTheReason(t *testing.T) {
	b := open(t, func(context.Context, host.Call) error { return nil })
	b.mu.Lock()
	b.given["open"] = make(chan ask.Replies, 10)
	b.mu.Unlock()
	for i, c := range []struct{ name, text, want string }{
		{"answer_late.json", `{"action":"decline"}`, "no call with the id"},
		{"answer_open.json", `{"action":"decline","actor":"nobody"}`, "does not fit"},
		{"answer_open.json", `{}`, `either "action"`},
		{"answer_open.json", `{"action":"accept","replies":{"q":{"action":"accept"}}}`, `either "action"`},
		{"answer_open.json", `{"replies":{"q":{"action":"accept"}},"content":{}}`, `"content" belongs`},
		{"answer_open.json", `{"action":"accept"} {}`, "something follows"},
		{"answer_open.json", `{"answer":"accept"}`, "unknown member"},
		{"answer_open.json", `{"action":"accept"]`, "it is no answer"},
		{"answer_open.json", `{"action":"` + strings.Repeat("x", maxAnswer) + `"}`, "has more than"},
	} {
		os.Remove(b.path(Failed, c.name))
		os.Remove(b.path(Failed, c.name+".reason"))
		b.put(c.name, c.text)
		b.until(fmt.Sprintf("refusal %d: %s", i, c.want), func() bool {
			reason, err := os.ReadFile(b.path(Failed, c.name+".reason"))
			return err == nil && strings.Contains(string(reason), c.want)
		})
	}
	b.put("answer_open.json", `{"replies":{"q":{"action":"cancel"}}}`)
	b.until("the good one", func() bool { return b.there(Done, "answer_open.json") })
}
