// Package bustest is the one suite every [bus.Bus] passes. A bus's own test says
// how to open it and how a Brain reads it:
//
//	func TestInboxIsABus(t *testing.T) {
//		bustest.Run(t, func(t *testing.T) bustest.Harness { … })
//	}
package bustest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
)

// Harness is one bus under test, empty at first.
type Harness struct {
	// Open opens the bus, and after its Close again with all it remembers.
	Open func(t testing.TB) bus.Bus
	// Delivered is what a Brain was given so far, in the order of the bus.
	Delivered func(t testing.TB) []*amp.Envelope
	// Recorded is everything the bus keeps a record of, in order; nil where
	// the bus cannot be asked.
	Recorded func(t testing.TB) []*amp.Envelope
	// Rejected is what was kept under the name that Reject returned.
	Rejected func(t testing.TB, name string) bus.Rejected
}

// Event is a valid envelope of app without id and seq.
func Event(app, typ string, data any) *amp.Envelope {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // a test's own data
	}
	return &amp.Envelope{
		Header: amp.Header{Protocol: amp.Protocol, Method: amp.MethodEvent, Timestamp: amp.Now(),
			Source: amp.Source{App: app, Instance: "1"}},
		Payload: amp.Payload{Type: typ, Summary: "一件事 <b>", Data: raw},
	}
}

func withID(e *amp.Envelope, id string) *amp.Envelope {
	e.Header.MessageID = id
	return e
}

// Run runs the suite; fresh makes a new harness for each test.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, h Harness)
	}{
		{"PublishGivesIDsAndSeqsPerSource", idsAndSeqs},
		{"WhatIsDeliveredIsWhatWasPublished", content},
		{"OrderIsKeptPerGoroutineAndIDsRiseWithIt", order},
		{"ADuplicateIsDroppedAlsoInOneCallAndAfterReopening", duplicates},
		{"OfConcurrentDuplicatesExactlyOneIsAccepted", concurrentDuplicates},
		{"NoAppCanSuppressTheEventOfAnother", otherOwner},
		{"AnIDOfThePlatformIsOneWhicheverAppTheEventsSpeakOf", sameOwner},
		{"AnExpiredEventIsNotDelivered", expired},
		{"JournalItemsAreRecordedAndNotDelivered", journalRoute},
		{"ARejectedEventIsKeptWithItsReason", rejected},
		{"AnInvalidEnvelopeIsRefusedAndLeavesNothing", invalid},
		{"CloseDeliversWhatWasAccepted", closeDelivers},
		{"SeqsGoOnAfterReopening", seqsGoOn},
		{"PublishAndRejectFailAfterClose", afterClose},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh(t)) })
	}
}

func open(t testing.TB, h Harness) bus.Bus {
	t.Helper()
	b := h.Open(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func publish(t testing.TB, b bus.Bus, items ...bus.Item) []bus.Receipt {
	t.Helper()
	receipts, err := b.Publish(t.Context(), items...)
	if err != nil {
		t.Fatal(err)
	}
	if len(receipts) != len(items) {
		t.Fatalf("%d receipts for %d items", len(receipts), len(items))
	}
	return receipts
}

func closeBus(t testing.TB, b bus.Bus) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func idsAndSeqs(t *testing.T, h Harness) {
	b := open(t, h)
	ids := map[string]bool{}
	for i := range 10 {
		for _, app := range []string{"a", "b"} {
			e := Event(app, "t", i)
			r := publish(t, b, bus.Item{Envelope: e})[0]
			if r.Status != bus.Accepted || r.Seq != uint64(i+1) || amp.CanonicalID(r.ID) != r.ID || ids[r.ID] {
				t.Fatalf("event %d of %s: %+v", i, app, r)
			}
			if e.Header.MessageID != r.ID || e.Header.Seq != r.Seq {
				t.Fatalf("envelope has id %q and seq %d, receipt %+v", e.Header.MessageID, e.Header.Seq, r)
			}
			ids[r.ID] = true
		}
	}
	other := Event("a", "t", 0)
	other.Header.Source.Instance = "2"
	if r := publish(t, b, bus.Item{Envelope: other})[0]; r.Seq != 1 {
		t.Errorf("another instance begins at seq %d", r.Seq)
	}
}

func content(t *testing.T, h Harness) {
	b := open(t, h)
	in := withID(Event("a", "message.received", map[string]any{"text": "今天 <天气> & \u2028", "n": json.Number("9007199254740993")}), "msg-1")
	in.Payload.SessionID = "s"
	in.Header.CorrelationID = "c"
	in.Header.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	soon := amp.Timestamp{Time: time.Now().Add(time.Hour).Truncate(time.Millisecond)}
	in.Payload.ExpireAt = &soon
	publish(t, b, bus.Item{Envelope: in})
	closeBus(t, b)
	got := h.Delivered(t)
	if len(got) != 1 {
		t.Fatalf("delivered %d", len(got))
	}
	if diff := cmp.Diff(in, got[0], cmp.Comparer(func(a, b amp.Timestamp) bool { return a.Equal(b.Time) }),
		cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) || sameJSON(a, b) })); diff != "" {
		t.Errorf("changed on the way (-published +delivered):\n%s", diff)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	decode := func(raw json.RawMessage) (v any) {
		var n struct{ V any }
		d := json.NewDecoder(strings.NewReader(`{"V":` + string(raw) + `}`))
		d.UseNumber()
		if d.Decode(&n) != nil {
			return raw
		}
		return n.V
	}
	return cmp.Equal(decode(a), decode(b))
}

func order(t *testing.T, h Harness) {
	b := open(t, h)
	var wg sync.WaitGroup
	const producers, each = 8, 40
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				if _, err := b.Publish(t.Context(), bus.Item{Envelope: Event(fmt.Sprint("app", p), "t", i)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	closeBus(t, b)
	all := h.Delivered(t)
	if len(all) != producers*each {
		t.Fatalf("delivered %d of %d", len(all), producers*each)
	}
	next, last := map[string]uint64{}, ""
	for _, e := range all {
		app := e.Header.Source.App
		if string(e.Payload.Data) != fmt.Sprint(next[app]) {
			t.Fatalf("%s: event %s at place %d", app, e.Payload.Data, next[app])
		}
		if next[app]++; e.Header.Seq != next[app] {
			t.Fatalf("%s: seq %d at place %d", app, e.Header.Seq, next[app])
		}
		if e.Header.MessageID <= last {
			t.Fatalf("id %s comes after %s", e.Header.MessageID, last)
		}
		last = e.Header.MessageID
	}
}

func duplicates(t *testing.T, h Harness) {
	b := open(t, h)
	ids := []string{"01JXYK2Q6B0000000000000001", "018f2f4c-7b2a-7b8a-9c31-2e9a0b9b2d11", "msg_1 with / odd letters"}
	for _, id := range ids {
		r := publish(t, b, bus.Item{Envelope: withID(Event("a", "t", 1), id)}, bus.Item{Envelope: withID(Event("a", "u", 2), id)})
		if r[0].Status != bus.Accepted || r[1].Status != bus.Duplicate || r[0].ID != r[1].ID {
			t.Errorf("id %q: %+v", id, r)
		}
	}
	lower := publish(t, b, bus.Item{Envelope: withID(Event("a", "t", 1), "01jxyk2q6b0000000000000001")})
	if lower[0].Status != bus.Duplicate {
		t.Errorf("a ULID in small letters: %+v", lower)
	}
	given := publish(t, b, bus.Item{Envelope: Event("a", "t", 1)})[0].ID
	for round := range 3 {
		for _, id := range append(ids, given) {
			if r := publish(t, b, bus.Item{Envelope: withID(Event("a", "t", 1), id)})[0]; r.Status != bus.Duplicate {
				t.Errorf("round %d, id %q: %+v", round, id, r)
			}
		}
		closeBus(t, b)
		if n := len(h.Delivered(t)); n != len(ids)+1 {
			t.Errorf("round %d: delivered %d", round, n)
		}
		b = open(t, h)
	}
}

func concurrentDuplicates(t *testing.T, h Harness) {
	b := open(t, h)
	const rounds, racers = 20, 8
	for round := range rounds {
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[bus.Status]int{}
		for range racers {
			wg.Go(func() {
				r, err := b.Publish(t.Context(), bus.Item{Envelope: withID(Event("a", "t", round), fmt.Sprint("same-", round))})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				count[r[0].Status]++
			})
		}
		wg.Wait()
		if count[bus.Accepted] != 1 || count[bus.Duplicate] != racers-1 {
			t.Fatalf("round %d: %v", round, count)
		}
	}
	closeBus(t, b)
	if n := len(h.Delivered(t)); n != rounds {
		t.Errorf("delivered %d", n)
	}
}

func otherOwner(t *testing.T, h Harness) {
	b := open(t, h)
	const id = "018f2f4c-7b2a-7b8a-9c31-2e9a0b9b2d11"
	first := publish(t, b, bus.Item{Envelope: withID(Event("a", "t", 1), id)})[0]
	second := publish(t, b, bus.Item{Envelope: withID(Event("b", "t", 2), id)})[0]
	if first.Status != bus.Accepted || second.Status != bus.Accepted || first.ID == second.ID {
		t.Errorf("the same id of two apps: %+v, %+v", first, second)
	}
	again := publish(t, b, bus.Item{Envelope: withID(Event("b", "t", 2), id)})[0]
	if again.Status != bus.Duplicate || again.ID != second.ID {
		t.Errorf("sent again: %+v, want a duplicate of %+v", again, second)
	}
	closeBus(t, b)
	if n := len(h.Delivered(t)); n != 2 {
		t.Errorf("delivered %d", n)
	}
}

// sameOwner is the answer of a call, which speaks of the server the first time and
// after a restart of nobody.
func sameOwner(t *testing.T, h Harness) {
	b := open(t, h)
	const id, owner = "018f2f4c-7b2a-7b8a-9c31-2e9a0b9b2d12", "aurora.platform"
	first := publish(t, b, bus.Item{Envelope: withID(Event("a", "t", 1), id), Owner: owner})[0]
	closeBus(t, b)
	b = open(t, h)
	again := publish(t, b, bus.Item{Envelope: withID(Event(owner, "t", 2), id)})[0]
	if first.ID != id || again.ID != id || again.Status != bus.Duplicate {
		t.Errorf("first %+v, then %+v, want a duplicate", first, again)
	}
	stranger := publish(t, b, bus.Item{Envelope: withID(Event("a", "t", 3), id)})[0]
	if stranger.Status != bus.Accepted || stranger.ID == id {
		t.Errorf("the app itself used the id: %+v", stranger)
	}
	closeBus(t, b)
	if n := len(h.Delivered(t)); n != 2 {
		t.Errorf("delivered %d", n)
	}
}

func expired(t *testing.T, h Harness) {
	b := open(t, h)
	late, timely := withID(Event("a", "t", 1), "late"), withID(Event("a", "t", 2), "timely")
	late.Payload.ExpireAt = &amp.Timestamp{Time: time.Now().Add(-time.Second)}
	timely.Payload.ExpireAt = &amp.Timestamp{Time: time.Now().Add(time.Hour)}
	r := publish(t, b, bus.Item{Envelope: late}, bus.Item{Envelope: timely})
	if r[0].Status != bus.Expired || r[1].Status != bus.Accepted {
		t.Errorf("receipts %+v", r)
	}
	if r := publish(t, b, bus.Item{Envelope: late})[0]; r.Status != bus.Duplicate {
		t.Errorf("expired, sent again: %+v", r)
	}
	closeBus(t, b)
	if got := h.Delivered(t); len(got) != 1 || got[0].Header.MessageID != "timely" {
		t.Errorf("delivered %d: %+v", len(got), got)
	}
}

func journalRoute(t *testing.T, h Harness) {
	b := open(t, h)
	publish(t, b, bus.Item{Envelope: Event("a", "tool.started", 1), Route: bus.Journal}, bus.Item{Envelope: Event("a", "tool.completed", 2)})
	closeBus(t, b)
	if got := h.Delivered(t); len(got) != 1 || got[0].Payload.Type != "tool.completed" {
		t.Errorf("delivered %+v", got)
	}
	if h.Recorded == nil {
		return
	}
	if got := h.Recorded(t); len(got) != 2 || got[0].Payload.Type != "tool.started" || got[1].Header.Seq != 2 {
		t.Errorf("recorded %+v", got)
	}
}

func rejected(t *testing.T, h Harness) {
	b := open(t, h)
	for _, tc := range []struct{ raw, want string }{
		{`{"type":7}`, `{"type":7}`},
		{`{"type":`, `"{\"type\":"`},
		{"", `""`},
		{"\"bad \xff byte\"", `"\"bad ` + "\uFFFD" + ` byte\""`},
	} {
		in := bus.Rejected{Source: amp.Source{App: "a", Instance: "1"}, Method: "aurora/event", Reason: "type: want a string", Raw: json.RawMessage(tc.raw)}
		name, err := b.Reject(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		got := h.Rejected(t, name)
		if got.Source != in.Source || got.Method != in.Method || got.Reason != in.Reason || !sameJSON(got.Raw, json.RawMessage(tc.want)) {
			t.Errorf("rejected %q was kept as %+v (%s)", tc.raw, got, got.Raw)
		}
	}
	if n := len(h.Delivered(t)); n != 0 {
		t.Errorf("delivered %d", n)
	}
}

func invalid(t *testing.T, h Harness) {
	b := open(t, h)
	good, bad := Event("a", "t", 1), Event("a", "", 2)
	if r, err := b.Publish(t.Context(), bus.Item{Envelope: good}, bus.Item{Envelope: bad}); err == nil {
		t.Errorf("an envelope without a type: %+v", r)
	}
	noJSON := Event("a", "t", 3)
	noJSON.Payload.Data = json.RawMessage(`{"cut":`)
	if r, err := b.Publish(t.Context(), bus.Item{Envelope: noJSON}); err == nil {
		t.Errorf("data that is not JSON: %+v", r)
	}
	closeBus(t, b)
	if n := len(h.Delivered(t)); n != 0 {
		t.Errorf("delivered %d", n)
	}
}

func closeDelivers(t *testing.T, h Harness) {
	b := open(t, h)
	const n = 700 // more than a batch
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := b.Publish(t.Context(), bus.Item{Envelope: Event("a", "t", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	closeBus(t, b)
	if got := len(h.Delivered(t)); got != n {
		t.Errorf("delivered %d of %d", got, n)
	}
	if err := b.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func seqsGoOn(t *testing.T, h Harness) {
	for round := range 4 {
		b := open(t, h)
		r := publish(t, b, bus.Item{Envelope: Event("a", "t", round)}, bus.Item{Envelope: Event("a", "t", round)})
		if r[0].Seq != uint64(2*round+1) || r[1].Seq != uint64(2*round+2) {
			t.Errorf("round %d: %+v", round, r)
		}
		closeBus(t, b)
	}
}

func afterClose(t *testing.T, h Harness) {
	b := open(t, h)
	closeBus(t, b)
	if r, err := b.Publish(t.Context(), bus.Item{Envelope: Event("a", "t", 1)}); err == nil {
		t.Errorf("Publish: %+v", r)
	}
	if name, err := b.Reject(t.Context(), bus.Rejected{Raw: json.RawMessage(`1`)}); err == nil {
		t.Errorf("Reject: %s", name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b = open(t, h)
	if _, err := b.Publish(ctx, bus.Item{Envelope: withID(Event("a", "t", 1), "open")}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Publish with a context that ended: %v", err)
	}
	publish(t, b, bus.Item{Envelope: withID(Event("a", "t", 1), "open")})
	closeBus(t, b)
	if n := len(h.Delivered(t)); n != 1 {
		t.Errorf("an event published again after an open outcome was delivered %d times", n)
	}
}
