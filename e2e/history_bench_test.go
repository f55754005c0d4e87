//go:build bench

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// historyRecord is record i of a bot that talks, calls tools and has its calls approved:
// of ten records four are calls, of six events each, and six are messages.
func historyRecord(i int) []byte {
	envelope := func(method, typ, summary string, data map[string]any) string {
		raw, err := json.Marshal(map[string]any{
			"header": map[string]any{"protocol": "amp/1.0", "method": method, "message_id": fmt.Sprintf("01M8MQPYK60HTSJTRV%08d", i), "timestamp": "2026-06-17T14:30:00+08:00",
				"source": map[string]any{"app": fmt.Sprint("com.example.server", i%17), "instance": "3"}, "seq": i, "correlation_id": data["call_id"]},
			"payload": map[string]any{"type": typ, "summary": summary, "session_id": fmt.Sprint("chat-", i%1000), "data": data},
		})
		if err != nil {
			panic(err)
		}
		return string(raw)
	}
	vocabulary := []string{"删除", "日记", "昨天", "weather", "Berlin", "delete", "meeting", "提醒", "明天", "алиса", "réunion", "rain", "审批", "message", "photo", "report"}
	var text strings.Builder
	for k := range 12 {
		fmt.Fprintf(&text, "%s %x ", vocabulary[(i*7+k*k*i/3)%len(vocabulary)], (i*2654435761+k)%50000)
	}
	if i%10 >= 4 {
		return []byte(envelope("aurora/event", "message.received", "Ada: "+text.String(), map[string]any{"text": text.String(), "user_id": i % 1000}))
	}
	tool := fmt.Sprintf("com.example.server%d.tool%d", i%17, i%150)
	step := func(method, typ string, more map[string]any) string {
		data := map[string]any{"call_id": fmt.Sprintf("01M8MQPYK60HTSJTRV%08d", i), "server": fmt.Sprint("com.example.server", i%17), "tool": tool, "entrance": []string{"model", "outbox", "cli"}[i%3]}
		for k, v := range more {
			data[k] = v
		}
		return envelope(method, typ, "call to "+tool, data)
	}
	end, failed := "tool.completed", map[string]any{"preview": text.String(), "size": i % 5000, "duration_ms": i % 3000}
	if i%50 == 1 {
		end, failed["error_code"], failed["outcome"] = "tool.failed", "denied", "failed"
	}
	person := map[string]any{"decision": "allow", "actor": "policy"}
	if i%100 == 2 {
		person = map[string]any{"decision": "allow", "actor": "Ada", "approval": fmt.Sprint("A-", i)}
	}
	return []byte(strings.Join([]string{
		step("mcp.call", "permission.requested", map[string]any{"decision": "allow", "risk": "low", "arguments": map[string]any{"text": text.String()}, "reason": "policy.yaml:3: risk: com.example.*: low"}),
		step("mcp.call", "permission.resolved", person),
		step("mcp.call", "mcp.call.started", nil), step("mcp.call", "tool.started", nil),
		step("mcp.call", "mcp.call.completed", map[string]any{"duration_ms": i % 3000}),
		step("mcp.tool_result", end, failed),
	}, "\n"))
}

// appendHistory appends records first to last to a journal, many at once.
func appendHistory(t *testing.T, j *journal.Journal, first, last int) {
	ctx := context.Background()
	var pos uint64
	for i := first; i < last; {
		err := j.Append(ctx, func(q journal.Queue) (err error) {
			for range 200 {
				if i == last {
					break
				}
				body := historyRecord(i)
				if pos, err = q.Add(segment.Record{Kind: segment.Deliver, Source: "s", Seq: uint64(i + 1), Name: "n", Body: body}); err != nil {
					return err
				}
				i++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Wait(ctx, pos); err != nil {
		t.Fatal(err)
	}
}

func folderSize(t *testing.T, pattern string) (n int64) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// TestHistory builds the index of 1,000,000 events and asks it for pages.
func TestHistory(t *testing.T) {
	const records = 1_000_000 / 3 // 0.4 calls of six events, and 0.6 messages: three events a record
	dir := t.TempDir()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), KeepBytes: 8 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	appendHistory(t, j, 0, records)
	began := time.Now()
	x := history.Start(history.Options{Path: filepath.Join(dir, "history.db"), Bus: "inbox", Journal: j})
	ctx := context.Background()
	defer x.Close(ctx)
	if err := x.Wait(ctx, j.Durable()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	rows = append(rows, row{"index of 1,000,000 events: time to make it", fmt.Sprintf("%.1f s", took.Seconds()), "", "", ""})
	page, err := x.List(ctx, store.Filter{}, store.Page{Limit: 1})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	index, log := folderSize(t, filepath.Join(dir, "history.db*")), folderSize(t, filepath.Join(dir, "journal", "0*.log"))
	rows = append(rows, row{"its size; the journal's", fmt.Sprintf("%d MB", index>>20), fmt.Sprintf("%d MB", log>>20), fmt.Sprintf("%.2f", float64(index)/float64(log)), "<= 1"})

	half, err := x.List(ctx, store.Filter{}, store.Page{Limit: 1, Before: page.Entries[0].ID / 2})
	if err != nil || len(half.Entries) != 1 {
		t.Fatalf("%+v, %v", half, err)
	}
	middle := half.Entries[0].Time
	worst := time.Duration(0)
	for _, q := range []struct {
		name string
		f    store.Filter
		p    store.Page
	}{
		{"all", store.Filter{}, store.Page{}},
		{"further down", store.Filter{}, store.Page{Before: page.Entries[0].ID / 2}},
		{"a tool", store.Filter{Tool: "com.example.server2.tool2"}, store.Page{}},
		{"a server", store.Filter{Server: "com.example.server3"}, store.Page{}},
		{"a caller and an outcome", store.Filter{Caller: "cli", Outcome: "denied"}, store.Page{}},
		{"two that never meet", store.Filter{Type: "message.received", Outcome: "ok"}, store.Page{}},
		{"a server and a kind that rarely meet", store.Filter{Server: "com.example.server3", Kind: "approval"}, store.Page{}},
		{"a session", store.Filter{Session: "chat-77"}, store.Page{}},
		{"types", store.Filter{Type: "tool.*"}, store.Page{}},
		{"approvals", store.Filter{Kind: "approval"}, store.Page{}},
		{"before a time", store.Filter{Until: middle, Outcome: "denied"}, store.Page{}},
		{"a frequent word", store.Filter{Text: "delete"}, store.Page{}},
		{"a rare word", store.Filter{Text: fmt.Sprintf("%x", 77_777*2654435761%50000)}, store.Page{}},
		{"a Chinese word", store.Filter{Text: "审批"}, store.Page{}},
		{"two Chinese words", store.Filter{Text: "删除 昨天"}, store.Page{}},
		{"a beginning", store.Filter{Text: "dele*"}, store.Page{}},
		{"words and an outcome", store.Filter{Text: "алиса rain", Outcome: "denied"}, store.Page{}},
		{"a word that is not there", store.Filter{Text: "nowhere"}, store.Page{}},
		{"the lowest first", store.Filter{Type: "tool.failed"}, store.Page{After: 1}},
	} {
		q.p.Limit = 50
		var took []time.Duration
		var got history.Page
		for range 7 {
			began := time.Now()
			if got, err = x.List(ctx, q.f, q.p); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		worst = max(worst, took[len(took)/2])
		t.Logf("page of %s: %v, %d entries", q.name, took[len(took)/2].Round(10*time.Microsecond), len(got.Entries))
	}
	rows = append(rows, row{"page of 50 entries of 1,000,000 events, the slowest of 19 filters", fmt.Sprintf("%.1f ms", float64(worst.Microseconds())/1000), "", "", "<= 50 ms"})

	began = time.Now()
	if _, err := x.Call(ctx, page.Entries[0].CallID); page.Entries[0].CallID != "" && err != nil {
		t.Fatal(err)
	}
	t.Logf("one call with its chain: %v", time.Since(began))
	began = time.Now()
	if _, err := x.Stats(ctx, "tool", store.Filter{}); err != nil {
		t.Fatal(err)
	}
	rows = append(rows, row{"statistics of its calls by tool", fmt.Sprintf("%d ms", time.Since(began).Milliseconds()), "", "", ""})
}

// TestHistoryOnTheCommitPath compares a journal whose index is kept up with one that
// has none: how long a commit takes at a steady rate, and what 64 publishers get.
func TestHistoryOnTheCommitPath(t *testing.T) {
	dir := benchDisk(t, 2048)
	n := 0
	commits := func(rate int, indexed bool) float64 {
		n++
		at := filepath.Join(dir, fmt.Sprint(n))
		j, err := journal.Open(journal.Options{Dir: filepath.Join(at, "journal")})
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(at)
		defer j.Close()
		if indexed {
			x := history.Start(history.Options{Path: filepath.Join(at, "history.db"), Bus: "inbox", Journal: j})
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			defer x.Close(ctx)
			if _, err := x.List(context.Background(), store.Filter{}, store.Page{Limit: 1}); err != nil {
				t.Fatal(err)
			}
		}
		each := rate / 8 // in a second
		var mu sync.Mutex
		var took []time.Duration
		var all sync.WaitGroup
		for p := range 8 {
			all.Go(func() {
				tick := time.NewTicker(time.Second / time.Duration(each))
				defer tick.Stop()
				for i := range each {
					<-tick.C
					body := historyRecord(p*each + i)
					began := time.Now()
					var pos uint64
					err := j.Append(context.Background(), func(q journal.Queue) (err error) {
						pos, err = q.Add(segment.Record{Kind: segment.Deliver, Source: fmt.Sprint("s", p), Seq: uint64(i + 1), Name: "n", Body: body})
						return err
					})
					if err == nil {
						err = j.Wait(context.Background(), pos)
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				}
			})
		}
		all.Wait()
		slices.Sort(took)
		return float64(took[len(took)/2].Microseconds())
	}
	for _, rate := range []int{200, 2000} {
		a, b, ratio := paired(func() float64 { return commits(rate, true) }, func() float64 { return commits(rate, false) })
		t.Logf("%d records/s: %.0f and %.0f µs, %.2f", rate, a, b, ratio)
		rows = append(rows, row{fmt.Sprintf("commit at %d records/s with the index behind it, p50; without", rate), fmt.Sprintf("%.0f µs", a), fmt.Sprintf("%.0f µs", b), fmt.Sprintf("%.2f", ratio), "<= 1.1"})
	}
}
