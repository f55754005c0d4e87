package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/internal/large"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// memory is a bus that keeps everything in memory. While blocked is set,
// Publish waits; the next failures calls fail.
type memory struct {
	mu       sync.Mutex
	items    []bus.Item
	rejected []bus.Rejected
	seen     map[string]bool
	failures int
	blocked  chan struct{}
}

func (m *memory) Publish(ctx context.Context, items ...bus.Item) ([]bus.Receipt, error) {
	if m.blocked != nil {
		select {
		case <-m.blocked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures > 0 {
		m.failures--
		return nil, errors.New("the disk is gone")
	}
	var out []bus.Receipt
	for _, it := range items {
		h := &it.Envelope.Header
		if h.MessageID == "" {
			h.MessageID = amp.NewID()
		}
		r := bus.Receipt{ID: h.MessageID, Seq: uint64(len(m.items) + 1)}
		if m.seen[r.ID] {
			r.Status = bus.Duplicate
		} else {
			m.seen[r.ID] = true
			env := *it.Envelope
			env.Payload.Data = bytes.Clone(env.Payload.Data)
			m.items = append(m.items, bus.Item{Envelope: &env, Before: it.Before, Route: it.Route, Owner: it.Owner})
		}
		out = append(out, r)
	}
	return out, nil
}

func (m *memory) Reject(_ context.Context, r bus.Rejected) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected = append(m.rejected, r)
	return fmt.Sprintf("rejected_%d.json", len(m.rejected)), nil
}

func (m *memory) Close() error { return nil }

func newMemory() *memory { return &memory{seen: make(map[string]bool)} }

// through sends signals over a bridge with o and returns what the bus got.
func through(t *testing.T, o Options, signals ...signal.Signal) *memory {
	t.Helper()
	m := newMemory()
	o.Bus = m
	b := New(o)
	for _, s := range signals {
		if err := b.Observe(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEverySignalBecomesAValidEnvelopeOfItsType(t *testing.T) {
	at := time.Date(2026, 6, 17, 14, 30, 0, 0, time.FixedZone("", 8*3600))
	step := &signal.Step{CallID: "c1", Tool: "fs.read", Decision: "ask"}
	for kind := range methods {
		s := signal.Signal{Kind: kind, Server: "fs", Instance: "2", Time: at, CallID: "c1", Summary: "what happened", Data: step}
		want := string(kind)
		switch kind {
		case signal.Notification:
			s.Method, s.Params = "notifications/files/changed", json.RawMessage(`{"path":"a"}`)
			want = "mcp.notification.files.changed"
		case signal.AppEvent:
			s.Method, s.Params = "aurora/event", json.RawMessage(`{"type":"message.received"}`)
			want = "message.received"
		}
		m := through(t, Options{}, s)
		if len(m.items) != 1 {
			t.Fatalf("%s: %d envelopes", kind, len(m.items))
		}
		env := m.items[0].Envelope
		if err := env.Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if env.Payload.Type != want || env.Header.Source != (amp.Source{App: "fs", Instance: "2"}) ||
			!env.Header.Timestamp.Equal(at) || env.Header.CorrelationID != "c1" {
			t.Errorf("%s: %+v", kind, env)
		}
	}
}

func TestRoutesFollowTypeAndPrefixAndTheOperator(t *testing.T) {
	b := New(Options{Routes: map[string]bus.Route{"mcp.notification.*": bus.Journal, "mcp.notification.alarm": bus.Inbox, "tool.started": bus.Inbox}})
	for typ, want := range map[string]bus.Route{
		"lifecycle.crashed": bus.Inbox, "tool.completed": bus.Inbox, "mcp.call.started": bus.Journal,
		"mcp.notification.files.changed": bus.Journal, "mcp.notification.alarm": bus.Inbox, "tool.started": bus.Inbox, "message.received": bus.Inbox,
	} {
		if got := b.route(&amp.Envelope{Payload: amp.Payload{Type: typ}}, &signal.Signal{}); got != want {
			t.Errorf("%s goes to %v, want %v", typ, got, want)
		}
	}
}

func TestWhatNobodyAskedForIsOnlyRecorded(t *testing.T) {
	s := signal.Signal{Kind: signal.Notification, Server: "s", Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"a:///b"}`)}
	asked := s
	s.RecordOnly = true
	m := through(t, Options{}, s, asked)
	if m.items[0].Route != bus.Journal || m.items[1].Route != bus.Inbox {
		t.Errorf("routes %v, %v", m.items[0].Route, m.items[1].Route)
	}
}

func TestALogMessageReachesTheBrainFromWarningOn(t *testing.T) {
	log := func(level string) signal.Signal {
		return signal.Signal{Kind: signal.Notification, Server: "s", Method: "notifications/message",
			Params: json.RawMessage(`{"level":"` + level + `","logger":"db","data":"slow query"}`)}
	}
	m := through(t, Options{}, log("info"), log("warning"))
	if m.items[0].Route != bus.Journal || m.items[1].Route != bus.Inbox {
		t.Errorf("routes %v, %v", m.items[0].Route, m.items[1].Route)
	}
	if got := m.items[1].Envelope.Payload.Summary; got != "warning db: slow query" {
		t.Errorf("the summary is %q", got)
	}
}

func TestAPermissionThatNobodyIsAskedForIsOnlyRecorded(t *testing.T) {
	ask := signal.Signal{Kind: signal.PermissionRequested, Server: "s", Data: &signal.Step{Decision: "ask"}}
	allow := signal.Signal{Kind: signal.PermissionRequested, Server: "s", Data: &signal.Step{Decision: "allow"}}
	m := through(t, Options{}, ask, allow)
	if m.items[0].Route != bus.Inbox || m.items[1].Route != bus.Journal {
		t.Errorf("routes %v, %v", m.items[0].Route, m.items[1].Route)
	}
}

func TestWhatCameBeforeASignalIsOneItemWithIt(t *testing.T) {
	step := func(kind signal.Kind) signal.Signal {
		return signal.Signal{Kind: kind, Server: "s", CallID: "c", Data: &signal.Step{CallID: "c"}}
	}
	end := step(signal.ToolCompleted)
	end.Before = []signal.Signal{step(signal.CallStarted), step(signal.ToolStarted), step(signal.CallCompleted)}
	types := func(m *memory) (all []string) {
		for _, item := range m.items {
			of := ""
			for _, e := range item.Before {
				of += e.Payload.Type + " "
			}
			all = append(all, of+item.Envelope.Payload.Type)
		}
		return all
	}
	m := through(t, Options{}, end)
	if got, want := types(m), []string{"mcp.call.started tool.started mcp.call.completed tool.completed"}; !slices.Equal(got, want) {
		t.Errorf("items %q, want %q", got, want)
	}
	m = through(t, Options{Routes: map[string]bus.Route{"tool.started": bus.Inbox}}, end)
	if got, want := types(m), []string{"mcp.call.started tool.started", "mcp.call.completed tool.completed"}; !slices.Equal(got, want) {
		t.Errorf("with a step that is delivered the items are %q, want %q", got, want)
	}
}

func TestASummaryIsOneLineOfWordsWhereverItsBlanksAre(t *testing.T) {
	b := New(Options{})
	for length := 1; length < 20; length++ {
		plain := strings.Repeat("x", length)
		for i := range length {
			for j := i; j < length; j++ {
				for _, odd := range []string{" ", "\n", "\t", "\x00", "\x7f", "é", "\xff", "\u00a0"} {
					s := plain[:i] + odd + plain[i:j] + odd + plain[j:]
					if got, want := b.summary(s), strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " "); got != want {
						t.Fatalf("%q becomes %q, want %q", s, got, want)
					}
				}
			}
		}
	}
}

func TestAnAppSpeaksOnlyForItself(t *testing.T) {
	event := func(params string) signal.Signal {
		return signal.Signal{Kind: signal.AppEvent, Server: "im.polaris.qq", Method: "aurora/event", Params: json.RawMessage(params)}
	}
	m := through(t, Options{},
		event(`{"header":{"protocol":"amp/1.0","method":"aurora/event","message_id":"m1","timestamp":"2026-06-17T14:30:00+08:00","source":{"app":"im.polaris.bank"}},"payload":{"type":"message.received"}}`),
		event(`{"type":"tool.completed","message_id":"m2"}`),
		event(`{"type":"Lifecycle.crashed"}`),
	)
	if len(m.rejected) != 2 {
		t.Errorf("%d events were rejected, want both that pose as the platform", len(m.rejected))
	}
	if got := m.items[0].Envelope.Header.Source.App; got != "im.polaris.qq" {
		t.Errorf("the source is %q", got)
	}
	for _, it := range m.items[1:] {
		if it.Envelope.Payload.Type != "mcp.error" {
			t.Errorf("a forged event became %s", it.Envelope.Payload.Type)
		}
	}
}

func TestAnIDThatThePlatformGivesIsItsOwnWhateverServerTheSignalSpeaksOf(t *testing.T) {
	m := through(t, Options{},
		signal.Signal{Kind: signal.ToolCompleted, Server: "fs", ID: "answer-1", CallID: "c1"},
		signal.Signal{Kind: signal.ToolCompleted, Server: "fs", CallID: "c2"},
		signal.Signal{Kind: signal.AppEvent, Server: "fs", ID: "answer-1", Method: "aurora/event", Params: json.RawMessage(`{"type":"x.y","message_id":"answer-2"}`)},
	)
	var owners []string
	for _, it := range m.items {
		owners = append(owners, it.Owner)
	}
	if want := []string{PlatformApp, "", ""}; !slices.Equal(owners, want) {
		t.Errorf("the ids belong to %q, want %q", owners, want)
	}
}

func TestEveryAppEventIsAnsweredWithItsFate(t *testing.T) {
	var got []string
	event := func(params string) signal.Signal {
		return signal.Signal{Kind: signal.AppEvent, Server: "app", Params: json.RawMessage(params), Ack: func(a signal.Ack) {
			got = append(got, a.ID+" "+a.Status)
		}}
	}
	m := through(t, Options{},
		event(`{"type":"x.y","message_id":"one"}`),
		event(`{"type":"x.y","message_id":"one"}`),
		event(`{"type":7,"message_id":"bad"}`),
		event(`{"type":"x.y","idempotency_key":"key"}`),
		event(`[1]`),
	)
	want := "one accepted, one duplicate, bad rejected, key accepted,  rejected"
	slicesEqualAnyOrder(t, got, strings.Split(want, ", "))
	if len(m.rejected) != 2 || string(m.rejected[1].Raw) != "[1]" {
		t.Errorf("kept: %s", m.rejected)
	}
}

func slicesEqualAnyOrder(t *testing.T, got, want []string) {
	t.Helper()
	count := make(map[string]int)
	for _, s := range got {
		count[s]++
	}
	for _, s := range want {
		count[s]--
	}
	for s, n := range count {
		if n != 0 {
			t.Errorf("%q: %+d; got %q", s, n, got)
		}
	}
}

func TestEqualEventsWithoutAnIDAreTwoEvents(t *testing.T) {
	s := signal.Signal{Kind: signal.AppEvent, Server: "app", Params: json.RawMessage(`{"type":"tick"}`)}
	if m := through(t, Options{}, s, s); len(m.items) != 2 {
		t.Errorf("%d events arrived, want 2", len(m.items))
	}
}

type shelf struct{ kept [][]byte }

func (s *shelf) Put(_ context.Context, data []byte, _ string) (any, error) {
	s.kept = append(s.kept, data)
	return map[string]int{"size": len(data)}, nil
}

func TestLargeDataBecomesAPreviewAndAnArtifact(t *testing.T) {
	content := `{"blob":"` + strings.Repeat("é", 300_000) + `"}`
	shelf := &shelf{}
	m := through(t, Options{Store: shelf}, signal.Signal{Kind: signal.AppEvent, Server: "app", Params: json.RawMessage(`{"type":"t","data":` + content + `}`)})
	data := m.items[0].Envelope.Payload.Data
	var o large.Data
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	if len(data) > 5000 || !o.Truncated || o.Size != len(content) || !strings.HasPrefix(content, strings.TrimSuffix(o.Preview, "…")) ||
		len(shelf.kept) != 1 || string(shelf.kept[0]) != content {
		t.Errorf("data is %.200s", data)
	}
}

// fullShelf is a store that has no room for the first so many contents.
type fullShelf struct {
	shelf
	fail  int
	err   error
	tried chan struct{}
}

func (s *fullShelf) Put(ctx context.Context, data []byte, mime string) (any, error) {
	if s.tried != nil {
		s.tried <- struct{}{}
	}
	if s.fail != 0 {
		s.fail--
		return nil, s.err
	}
	return s.shelf.Put(ctx, data, mime)
}

func largeEvent(acks *[]signal.Ack) signal.Signal {
	return signal.Signal{
		Kind: signal.AppEvent, Server: "app", Ack: func(a signal.Ack) { *acks = append(*acks, a) },
		Params: json.RawMessage(`{"type":"t","idempotency_key":"k","data":"` + strings.Repeat("x", 300_000) + `"}`),
	}
}

func TestAnEventWaitsUntilItsLargeDataIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acks []signal.Ack
		store := &fullShelf{fail: 3, err: syscall.ENOSPC}
		m := through(t, Options{Store: store}, largeEvent(&acks))
		if len(m.items) != 1 || len(acks) != 1 || len(store.kept) != 1 {
			t.Fatalf("%d events, %d acks, %d contents kept; want one of each", len(m.items), len(acks), len(store.kept))
		}
		var o large.Data
		if err := json.Unmarshal(m.items[0].Envelope.Payload.Data, &o); err != nil || o.Artifact == nil {
			t.Errorf("the event names no artifact: %+v, %v", o, err)
		}
	})
}

func TestAnEventWhoseLargeDataIsNotKeptIsNeitherPublishedNorAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acks []signal.Ack
		m := newMemory()
		store := &fullShelf{fail: -1, err: syscall.ENOSPC, tried: make(chan struct{}, 1000)}
		b := New(Options{Bus: m, Store: store})
		if err := b.Observe(t.Context(), largeEvent(&acks)); err != nil {
			t.Fatal(err)
		}
		<-store.tried
		<-store.tried // so the first failure is noted
		if err := b.Held(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("why events wait is %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Close(ctx); err == nil {
			t.Error("closing did not say that a signal was not published")
		}
		if err := b.Held(); err != nil {
			t.Errorf("after the end events wait: %v", err)
		}
		if len(m.items) != 0 || len(acks) != 0 {
			t.Errorf("%d events were published and %d acknowledged without their data", len(m.items), len(acks))
		}
	})
}

func TestLargeDataThatTheStoreNeverTakesIsCut(t *testing.T) {
	var acks []signal.Ack
	m := through(t, Options{Store: &fullShelf{fail: -1, err: fmt.Errorf("put: %w", artifact.ErrTooLarge)}}, largeEvent(&acks))
	if len(m.items) != 1 || len(acks) != 1 {
		t.Errorf("%d events, %d acks; want one of each", len(m.items), len(acks))
	}
}

func TestSecretsLeaveEventsAndSummaries(t *testing.T) {
	o := Options{
		Redact:     func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "hunter2", "***")) },
		RedactText: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") },
	}
	m := through(t, o,
		signal.Signal{Kind: signal.ToolFailed, Server: "s", Summary: "hunter2 failed", Data: &signal.Step{Reason: "hunter2"}},
		signal.Signal{Kind: signal.AppEvent, Server: "s", Params: json.RawMessage(`{"type":"t","summary":"hunter2","data":"hunter2"}`)},
		signal.Signal{Kind: signal.AppEvent, Server: "s", Params: json.RawMessage(`{"type":1,"data":"hunter2"}`)},
		signal.Signal{Kind: signal.Notification, Server: "s", Method: "notifications/hunter2"}, // whose type names a file
		signal.Signal{Kind: signal.AppEvent, Server: "s", Params: json.RawMessage(`{"type":"t","session_id":"of hunter2"}`)},
		signal.Signal{Kind: signal.AppEvent, Server: "s", Params: json.RawMessage(`{"type":"t.hunter2"}`)}, // so does this
		signal.Signal{Kind: signal.AppEvent, Server: "s", Params: json.RawMessage(`{"type":"no type hunter2"}`)},
	)
	for _, it := range m.items {
		if raw, _ := json.Marshal(it.Envelope); strings.Contains(string(raw), "hunter2") {
			t.Errorf("a secret is in %s", raw)
		}
	}
	if len(m.rejected) != 3 {
		t.Errorf("%d events were rejected", len(m.rejected))
	}
	for _, r := range m.rejected {
		if strings.Contains(string(r.Raw)+r.Reason, "hunter2") {
			t.Errorf("a secret is in what was rejected: %+v", r)
		}
	}
}

func TestASlowBusHoldsBackOnlyItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.blocked = make(chan struct{})
		b := New(Options{Bus: m, LaneSize: 4})
		s := signal.Signal{Kind: signal.Problem, Server: "busy", Data: &signal.Fault{Code: "x"}}
		full := false
		taken := 0
		for !full {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := b.Observe(ctx, s)
			cancel()
			if full = errors.Is(err, context.DeadlineExceeded); !full {
				taken++
			}
			synctest.Wait()
		}
		if err := b.Room("busy"); err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("there is room in a full lane: %v", err)
		}
		if err := b.Room("quiet"); err != nil {
			t.Errorf("there is no room in another: %v", err)
		}
		if taken > 4+defaultBatch {
			t.Errorf("%d signals were taken while nothing was published", taken)
		}
		s.Server = "quiet"
		if err := b.Observe(t.Context(), s); err != nil {
			t.Errorf("another server is held back: %v", err)
		}
		close(m.blocked)
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(m.items) != taken+1 || b.Counts().Accepted != int64(taken+1) {
			t.Errorf("%d of %d were published", len(m.items), taken+1)
		}
	})
}

func TestAFailingBusIsTriedAgainAndOrderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.failures = 3
		b := New(Options{Bus: m})
		for i := range 600 {
			s := signal.Signal{Kind: signal.AppEvent, Server: "app", Params: json.RawMessage(fmt.Sprintf(`{"type":"t","message_id":"m%d"}`, i))}
			if err := b.Observe(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(m.items) != 600 {
			t.Fatalf("%d events were published, want 600", len(m.items))
		}
		for i, it := range m.items {
			if want := amp.MintID("app", fmt.Sprintf("m%d", i)); it.Envelope.Header.MessageID != want {
				t.Fatalf("event %d has the id %s", i, it.Envelope.Header.MessageID)
			}
		}
	})
}

// grabber is a bus whose first Publish fails and keeps what it got.
type grabber struct {
	*memory
	kept []bus.Item
}

func (g *grabber) Publish(ctx context.Context, items ...bus.Item) ([]bus.Receipt, error) {
	if g.kept == nil {
		g.kept = items
		return nil, errors.New("the outcome is open")
	}
	return g.memory.Publish(ctx, items...)
}

func TestABusThatFailedMayStillUseWhatItGot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &grabber{memory: newMemory()}
		b := New(Options{Bus: g})
		for i := range 4 {
			s := signal.Signal{Kind: signal.ToolCompleted, Server: "s", CallID: fmt.Sprint(i), Data: &signal.Step{CallID: fmt.Sprint(i)}}
			if err := b.Observe(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(retryPause)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := g.kept[0].Envelope; e.Header.CorrelationID != "0" || string(e.Payload.Data) != `{"call_id":"0","tool":""}` {
			t.Errorf("it has become %+v", e)
		}
		for i, it := range g.items {
			if want := fmt.Sprintf(`{"call_id":"%d","tool":""}`, i); string(it.Envelope.Payload.Data) != want {
				t.Errorf("event %d is %s", i, it.Envelope.Payload.Data)
			}
		}
		if len(g.items) != 4 {
			t.Errorf("%d of 4 events were published", len(g.items))
		}
	})
}

func TestClosingGivesUpWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.blocked = make(chan struct{})
		b := New(Options{Bus: m})
		if err := b.Observe(t.Context(), signal.Signal{Kind: signal.Problem, Server: "s"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close returned %v", err)
		}
		if err := b.Observe(t.Context(), signal.Signal{Kind: signal.Problem, Server: "s"}); !errors.Is(err, ErrClosed) {
			t.Errorf("Observe after Close returned %v", err)
		}
	})
}

func TestRecordsTravelWithWhatFollowsThemAndDoNotWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &batches{memory: newMemory()}
		b := New(Options{Bus: m})
		call := func(kinds ...signal.Kind) {
			for _, k := range kinds {
				if err := b.Observe(t.Context(), signal.Signal{Kind: k, Server: "s", Data: &signal.Step{Tool: "s.x", Decision: "allow"}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		begun := time.Now()
		call(signal.PermissionRequested, signal.PermissionResolved, signal.CallStarted, signal.ToolStarted, signal.CallCompleted, signal.ToolCompleted)
		synctest.Wait()
		if len(m.sizes) != 1 || m.sizes[0] != 6 || time.Since(begun) != 0 {
			t.Errorf("a quick call came as batches of %v after %v", m.sizes, time.Since(begun))
		}
		call(signal.CallStarted, signal.ToolStarted)
		time.Sleep(recordPause)
		synctest.Wait()
		if len(m.sizes) != 2 || m.sizes[1] != 2 {
			t.Errorf("the beginning of a long call came as batches of %v", m.sizes)
		}
		call(signal.CallCompleted)
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(m.items) != 9 || time.Since(begun) != recordPause {
			t.Errorf("Close left %d of 9 after %v", len(m.items), time.Since(begun))
		}
	})
}

func TestABusyLaneGathersForAMomentUnlessSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &batches{memory: newMemory()}
		b := New(Options{Bus: m})
		ended := func(ack func(signal.Ack)) {
			t.Helper()
			if err := b.Observe(t.Context(), signal.Signal{Kind: signal.ToolCompleted, Server: "s", Data: &signal.Step{Tool: "s.x"}, Ack: ack}); err != nil {
				t.Fatal(err)
			}
		}
		sizes := func(want ...int) {
			t.Helper()
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			if !slices.Equal(m.sizes, want) {
				t.Fatalf("the batches are %v, want %v", m.sizes, want)
			}
		}
		ended(nil)
		sizes(1) // after a silence at once
		for range 3 {
			ended(nil)
		}
		sizes(1)
		time.Sleep(gatherPause)
		sizes(1, 3)
		ended(nil)
		ended(func(signal.Ack) {})
		sizes(1, 3, 2) // somebody waits
		for range defaultBatch {
			ended(nil)
		}
		sizes(1, 3, 2)
		ended(nil) // one more than is published at once
		sizes(1, 3, 2, defaultBatch, 1)
		time.Sleep(2 * gatherPause)
		ended(nil)
		sizes(1, 3, 2, defaultBatch, 1, 1) // after a silence again
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestALaneThatHasNothingToDoIsTakenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &batches{memory: newMemory()}
		b := New(Options{Bus: m})
		lanes := func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.lanes)
		}
		for _, pause := range []time.Duration{idleLane / 2, idleLane - 1, idleLane, 3 * idleLane} {
			if err := b.Observe(t.Context(), signal.Signal{Kind: signal.ToolCompleted, Server: "s", Data: &signal.Step{Tool: "s.x"}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause)
			synctest.Wait()
			if n := lanes(); (n > 0) != (pause < idleLane) {
				t.Errorf("after %v there are %d lanes", pause, n)
			}
		}
		if len(m.items) != 4 {
			t.Errorf("%d of 4 signals were published", len(m.items))
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTextIsRedactedByWayOfJSONWhereNothingElseIsGiven(t *testing.T) {
	m := through(t, Options{Redact: func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hunter2"), []byte("***")) }},
		signal.Signal{Kind: signal.ToolFailed, Server: "s", Summary: "hunter2 failed", Data: &signal.Step{Reason: "say \"hunter2\""}})
	raw, err := m.items[0].Envelope.Payload.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"type":"tool.failed","summary":"*** failed","data":{"call_id":"","tool":"","reason":"say \"***\""}}`; string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

// batches remembers how many items each Publish had.
type batches struct {
	*memory
	sizes []int
}

func (b *batches) Publish(ctx context.Context, items ...bus.Item) ([]bus.Receipt, error) {
	b.mu.Lock()
	b.sizes = append(b.sizes, len(items))
	b.mu.Unlock()
	return b.memory.Publish(ctx, items...)
}
