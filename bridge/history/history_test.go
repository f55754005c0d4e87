package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a journal with its index.
type rig struct {
	*testing.T
	dir string
	opt journal.Options
	j   *journal.Journal
	x   *Index
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, dir: t.TempDir()}
	r.opt = journal.Options{Dir: filepath.Join(r.dir, "journal")}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) path() string { return filepath.Join(r.dir, "history.db") }

func (r *rig) start() {
	j, err := journal.Open(r.opt)
	if err != nil {
		r.Fatal(err)
	}
	r.j, r.x = j, Start(Options{Path: r.path(), Bus: "inbox", Journal: j})
}

func (r *rig) stop() {
	if r.x != nil {
		if err := errors.Join(r.x.Close(context.Background()), r.j.Close()); err != nil {
			r.Error(err)
		}
		r.x = nil
	}
}

// add commits a record of envelopes.
func (r *rig) add(envelopes ...string) {
	r.Helper()
	var pos uint64
	err := r.j.Append(r.Context(), func(q journal.Queue) (err error) {
		pos, err = q.Add(segment.Record{Kind: segment.Deliver, Source: "s", Seq: q.Seq("s") + uint64(len(envelopes)), Name: "n", Body: []byte(strings.Join(envelopes, "\n"))})
		return err
	})
	if err == nil {
		err = r.j.Wait(r.Context(), pos)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) list(f store.Filter) []entry.Entry {
	r.Helper()
	if err := r.x.Wait(r.Context(), r.j.Durable()); err != nil {
		r.Fatal(err)
	}
	page, err := r.x.List(r.Context(), f, store.Page{Limit: 100})
	if err != nil {
		r.Fatal(err)
	}
	if page.Behind != 0 {
		r.Errorf("%d records are not indexed", page.Behind)
	}
	return page.Entries
}

func summaries(list []entry.Entry) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, e.Summary)
	}
	return out
}

func envelope(method, typ, summary string, data any) string {
	raw, err := json.Marshal(map[string]any{
		"header":  map[string]any{"protocol": "amp/1.0", "method": method, "message_id": "m", "timestamp": "2026-06-17T14:30:00+08:00", "source": map[string]any{"app": "com.example.diary"}},
		"payload": map[string]any{"type": typ, "summary": summary, "session_id": "chat-7", "data": data},
	})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// step is one event of a call of the diary's delete.
func step(typ, id string, more map[string]any) string {
	data := map[string]any{"call_id": id, "server": "com.example.diary", "tool": "com.example.diary.delete", "entrance": "model"}
	for k, v := range more {
		data[k] = v
	}
	method := "mcp.call"
	if strings.HasPrefix(typ, "tool.") {
		method = "mcp.tool_result"
	}
	return envelope(method, typ, typ, data)
}

// approved are the two records of a call that Ada approved.
func approved(id string) (asked, ended []string) {
	asked = []string{step("permission.requested", id, map[string]any{"decision": "ask", "approval": "A-" + id, "risk": "high", "arguments": map[string]any{"日记": "删除昨天的日记", "n": 4711}, "reason": "policy.yaml:3: ask"})}
	ended = []string{
		step("permission.resolved", id, map[string]any{"decision": "allow", "actor": "Ada", "approval": "A-" + id}),
		step("mcp.call.started", id, nil), step("tool.started", id, nil), step("mcp.call.completed", id, nil),
		step("tool.completed", id, map[string]any{"preview": "gone for good", "duration_ms": 12, "waited_ms": 5000, "size": 99}),
	}
	return asked, ended
}

func TestACallIsOneEntryWithWhoAllowedIt(t *testing.T) {
	r := newRig(t)
	asked, ended := approved("c1")
	r.add(asked...)
	if got := r.list(store.Filter{}); len(got) != 1 || got[0].Outcome != entry.Asked || !got[0].Open {
		t.Fatalf("a call that waits is %+v", got)
	}
	r.add(envelope("aurora/event", "chat.message", "hello", nil))
	r.add(ended...)
	got := r.list(store.Filter{Kind: "call"})
	if len(got) != 1 {
		t.Fatalf("there are %d entries of one call", len(got))
	}
	e := got[0]
	if e.Time.IsZero() || !e.Started.Before(e.Time) {
		t.Errorf("it lasted from %s to %s", e.Started, e.Time)
	}
	e.Time, e.Started = time.Time{}, time.Time{}
	want := entry.Entry{
		ID: entry.ID(3, 4), Kind: entry.Call, Type: "tool.completed", Server: "com.example.diary", Tool: "com.example.diary.delete", Caller: "model", Session: "chat-7",
		Outcome: entry.OK, CallID: "c1", Summary: "tool.completed", Risk: "high", Decision: "allow", Actor: "Ada", Approval: "A-c1", Asked: true, Granted: true,
		DurationMS: 12, WaitedMS: 5000, Size: 99, Records: []uint64{1, 3},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("the entry (-want +got):\n%s", diff)
	}

	c, err := r.x.Call(t.Context(), "c1")
	if err != nil || len(c.Events) != 6 || c.Events[0].Position != 1 || c.Events[5].Position != 3 || c.Others != 0 {
		t.Fatalf("its chain is %+v, %v", c, err)
	}
	if _, err := r.x.Call(t.Context(), "c2"); fault.From(err).Code != CallNotFound {
		t.Errorf("a call that nobody made: %v", err)
	}
}

func TestEveryFilterChooses(t *testing.T) {
	r := newRig(t)
	asked, ended := approved("c1")
	r.add(append(asked, ended...)...)
	r.add(step("tool.failed", "c2", map[string]any{"error_code": "denied", "entrance": "cli", "tool": "x.y", "server": "x"}))
	r.add(envelope("mcp.lifecycle", "lifecycle.crashed", "it crashed", map[string]any{"reason": "Löschen ging nicht"}))
	middle := time.Now()
	r.add(envelope("aurora/event", "chat.message", "a message 审批", map[string]any{"text": "\x1b[31m red"}))
	r.add(step("tool.input_required", "c3", map[string]any{"tool": "", "subject": "com.example.ask", "questions": []any{map[string]any{"message": "How many dice?"}}}))
	for name, c := range map[string]struct {
		f    store.Filter
		want string
	}{
		"nothing":    {store.Filter{}, "tool.input_required, a message 审批, it crashed, tool.failed, tool.completed"},
		"tool":       {store.Filter{Tool: "com.example.diary.delete"}, "tool.completed"},
		"server":     {store.Filter{Server: "x"}, "tool.failed"},
		"caller":     {store.Filter{Caller: "cli"}, "tool.failed"},
		"session":    {store.Filter{Session: "chat-7", Kind: "event"}, "a message 审批"},
		"outcome":    {store.Filter{Outcome: "denied"}, "tool.failed"},
		"two":        {store.Filter{Outcome: "ok", Server: "x"}, ""},
		"approval":   {store.Filter{Kind: store.KindApproval}, "tool.completed"},
		"of one id":  {store.Filter{Approval: "A-c1"}, "tool.completed"},
		"question":   {store.Filter{Kind: store.KindQuestion}, "tool.input_required"},
		"type":       {store.Filter{Type: "lifecycle.crashed"}, "it crashed"},
		"types":      {store.Filter{Type: "tool.*"}, "tool.input_required, tool.failed, tool.completed"},
		"failed":     {store.Filter{Outcome: "failed"}, "it crashed"},
		"word":       {store.Filter{Text: "GONE good"}, "tool.completed"},
		"beginning":  {store.Filter{Text: "goo*"}, "tool.completed"},
		"no word":    {store.Filter{Text: "goo"}, ""},
		"number":     {store.Filter{Text: "4711"}, "tool.completed"},
		"accent":     {store.Filter{Text: "loschen"}, "it crashed"},
		"Chinese":    {store.Filter{Text: "删除"}, "tool.completed"},
		"longer":     {store.Filter{Text: "删除昨天的日记"}, "tool.completed"},
		"one sign":   {store.Filter{Text: "审"}, "a message 审批"},
		"question's": {store.Filter{Text: "dice"}, "tool.input_required"},
		"signs":      {store.Filter{Text: `"*`}, ""},
		"since":      {store.Filter{Since: middle}, "tool.input_required, a message 审批"},
		"until":      {store.Filter{Until: middle, Kind: "call"}, "tool.failed, tool.completed"},
		"injected":   {store.Filter{Tool: `x" OR "y`}, ""},
	} {
		if got := strings.Join(summaries(r.list(c.f)), ", "); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestPagesFollowOneAnother(t *testing.T) {
	r := newRig(t)
	for i := range 25 {
		r.add(envelope("aurora/event", "a.b", fmt.Sprint(i), nil))
	}
	all := r.list(store.Filter{})
	for _, f := range []store.Filter{{}, {Type: "a.b"}} {
		var down, up []entry.Entry
		for before := uint64(0); ; {
			page, err := r.x.List(t.Context(), f, store.Page{Limit: 10, Before: before})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Entries) == 0 {
				break
			}
			down = append(down, page.Entries...)
			before = down[len(down)-1].ID
		}
		for after := uint64(1); ; {
			page, err := r.x.List(t.Context(), f, store.Page{Limit: 10, After: after})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Entries) == 0 {
				break
			}
			up = append(up, page.Entries...)
			after = up[len(up)-1].ID
		}
		if diff := cmp.Diff(summaries(all), summaries(down)); diff != "" || len(all) != 25 {
			t.Errorf("pages downwards: %s", diff)
		}
		if len(up) != 25 || up[0].Summary != "0" || up[24].Summary != "24" {
			t.Errorf("pages upwards: %v", summaries(up))
		}
	}
}

func TestStatisticsCountTheCallsThatEnded(t *testing.T) {
	r := newRig(t)
	for i := 1; i <= 100; i++ {
		r.add(step("tool.completed", fmt.Sprint("c", i), map[string]any{"duration_ms": i, "size": 10}))
	}
	asked, ended := approved("c1")
	r.add(append(asked, ended...)...)
	r.add(step("tool.failed", "d1", map[string]any{"error_code": "denied", "tool": "x.y", "server": "x", "entrance": "cli"}))
	r.add(step("permission.requested", "d2", map[string]any{"decision": "ask"}))
	r.list(store.Filter{})
	got, err := r.x.Stats(t.Context(), "tool", store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Stat{
		{Key: "com.example.diary.delete", Calls: 101, P50MS: 50, P95MS: 95, P99MS: 99, Bytes: 1099, Asked: 1, Granted: 1},
		{Key: "x.y", Calls: 1, Errors: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by tool (-want +got):\n%s", diff)
	}
	for _, by := range store.Groups {
		got, err := r.x.Stats(t.Context(), by, store.Filter{Caller: "cli"})
		if err != nil || len(got) != 1 || got[0].Calls != 1 || got[0].Key == "" {
			t.Errorf("by %s of one caller: %+v, %v", by, got, err)
		}
	}
}

func TestAStartGoesOnWhereTheLastOneEnded(t *testing.T) {
	r := newRig(t)
	asked, ended := approved("c1")
	r.add(asked...)
	r.list(store.Filter{})
	r.stop()
	r.start()
	r.add(ended...)
	if got := r.list(store.Filter{Text: "删除 good"}); len(got) != 1 || got[0].Outcome != entry.OK || len(got[0].Records) != 2 {
		t.Fatalf("the call that went on is %+v", got)
	}
	if all := r.list(store.Filter{}); len(all) != 1 {
		t.Errorf("there are %d entries", len(all))
	}
}

func TestWhatWasWrittenWithoutAnIndexIsCaughtUp(t *testing.T) {
	r := newRig(t)
	r.add(envelope("aurora/event", "a.b", "one", nil))
	r.list(store.Filter{})
	if err := r.x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.add(envelope("aurora/event", "a.b", "two", nil))
	r.x = Start(r.x.o)
	if got := summaries(r.list(store.Filter{})); !cmp.Equal(got, []string{"two", "one"}) {
		t.Errorf("got %v", got)
	}
}

func TestDamageIsARebuildAndNothingElse(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"no database":     func(t *testing.T, path string) { write(t, path, strings.Repeat("x", 5000)) },
		"a part":          func(t *testing.T, path string) { truncate(t, path) },
		"empty":           func(t *testing.T, path string) { write(t, path, "") },
		"gone":            func(t *testing.T, path string) { os.Remove(path) },
		"a folder":        func(t *testing.T, path string) { os.Remove(path); os.MkdirAll(filepath.Join(path, "x"), 0o700) },
		"older":           func(t *testing.T, path string) { exec(t, path, "PRAGMA user_version = 0") },
		"no table":        func(t *testing.T, path string) { exec(t, path, "DROP TABLE found") },
		"no state":        func(t *testing.T, path string) { exec(t, path, "DELETE FROM state") },
		"longer":          func(t *testing.T, path string) { exec(t, path, "UPDATE state SET position = 1000") },
		"another journal": func(t *testing.T, path string) { exec(t, path, "UPDATE state SET time = time + 1") },
		"another bus":     func(t *testing.T, path string) { exec(t, path, "UPDATE state SET bus = 'nats'") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			asked, ended := approved("c1")
			r.add(asked...)
			r.add(ended...)
			r.list(store.Filter{})
			r.stop()
			damage(t, r.path())
			r.start()
			r.add(envelope("aurora/event", "a.b", "after it", nil))
			if err := r.x.Wait(t.Context(), r.j.Durable()); err != nil {
				t.Fatal(err)
			}
			// A file without a table is found damaged by the first that reads it.
			for {
				page, err := r.x.List(t.Context(), store.Filter{Text: "it"}, store.Page{Limit: 10})
				if err == nil && len(page.Entries) == 1 {
					break
				}
				if err != nil && !fault.From(err).Retryable {
					t.Fatal(err)
				}
				if err := r.x.Wait(t.Context(), r.j.Durable()); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.list(store.Filter{}); len(got) != 2 || got[1].Actor != "Ada" {
				t.Errorf("after the rebuild there are %+v", got)
			}
			if info, err := os.Stat(r.path()); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file is %v, %v", info.Mode(), err)
			}
			if p := r.x.Problems(); p != nil {
				t.Error(p)
			}
		})
	}
}

func TestANewerFileIsLeftAloneUntilARebuild(t *testing.T) {
	r := newRig(t)
	r.add(envelope("aurora/event", "a.b", "one", nil))
	r.list(store.Filter{})
	r.stop()
	exec(t, r.path(), "PRAGMA user_version = 99")
	before, err := os.ReadFile(r.path())
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	_, err = r.x.List(t.Context(), store.Filter{}, store.Page{Limit: 1})
	if f := fault.From(err); f.Code != Unavailable || !strings.Contains(f.Message, "newer") || !strings.Contains(f.Message, "rebuild") || f.Retryable {
		t.Errorf("a question is answered with %v", err)
	}
	if r.x.Problems() == nil {
		t.Error("there is no problem")
	}
	if now, err := os.ReadFile(r.path()); err != nil || string(now) != string(before) {
		t.Errorf("the file was changed: %v", err)
	}
	if err := r.x.Rebuild(t.Context()); err != nil || r.x.Problems() != nil {
		t.Fatal(err, r.x.Problems())
	}
	if got := summaries(r.list(store.Filter{})); !cmp.Equal(got, []string{"one"}) {
		t.Errorf("after the rebuild there are %v", got)
	}
}

func TestTheIndexIsBoundedByTheJournal(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.opt.SegmentBytes, r.opt.KeepBytes = 1<<16, 1<<17
	r.start()
	for i := range 60 {
		r.add(envelope("aurora/event", "a.b", fmt.Sprint("number ", i), strings.Repeat("text ", 2000)))
	}
	r.j.Delivered(r.j.Durable())
	r.list(store.Filter{})
	r.stop()
	if _, err := journal.Prune(r.opt, 1<<40, false); err != nil {
		t.Fatal(err)
	}
	r.start()
	first, err := r.x.record(1)
	if err != nil || first.Pos < 10 {
		t.Fatalf("the journal begins at %d, %v", first.Pos, err)
	}
	s := r.x
	if err := s.Wait(t.Context(), r.j.Durable()); err != nil {
		t.Fatal(err)
	}
	if err := s.prune(t.Context(), s.store); err != nil {
		t.Fatal(err)
	}
	all := r.list(store.Filter{Text: "number"})
	if n := len(all); uint64(n) != 61-first.Pos || entry.Position(all[n-1].ID) != first.Pos {
		t.Errorf("%d entries are left of a journal from %d on", n, first.Pos)
	}
}

func TestAnArchiveAnswersAsAnIndex(t *testing.T) {
	r := newRig(t)
	asked, ended := approved("c1")
	r.add(asked...)
	r.add(ended...)
	want := r.list(store.Filter{Text: "删除"})
	chain, err := r.x.Call(t.Context(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.add(envelope("aurora/event", "a.b", "not indexed", nil))
	a, err := OpenArchive(t.Context(), r.path(), func(bus string) string {
		if bus != "inbox" {
			t.Errorf("the bus is %q", bus)
		}
		return r.opt.Dir
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	page, err := a.List(t.Context(), store.Filter{Text: "删除"}, store.Page{Limit: 100})
	if err != nil || page.Behind != 1 {
		t.Errorf("%d are behind, %v", page.Behind, err)
	}
	if diff := cmp.Diff(want, page.Entries); diff != "" {
		t.Errorf("the list:\n%s", diff)
	}
	got, err := a.Call(t.Context(), "c1")
	if diff := cmp.Diff(chain, got); diff != "" || err != nil {
		t.Errorf("the chain: %v\n%s", err, diff)
	}
	if last, err := Build(t.Context(), r.path(), "inbox", r.opt.Dir); err != nil || last != 3 {
		t.Errorf("built up to %d, %v", last, err)
	}
	r.x = Start(r.x.o)
	if got := r.list(store.Filter{}); len(got) != 2 {
		t.Errorf("the index that was built has %+v", got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
}
