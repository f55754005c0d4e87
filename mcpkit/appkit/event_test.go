package appkit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/appkittest"
)

// remind has the app emit an event.
func remind(t *testing.T, s *appkittest.Session, note, key string) {
	t.Helper()
	appkittest.Call[nothing](t, s, "remind", map[string]any{"note": note, "key": key})
}

// waitOutbox waits until the outbox holds n events.
func waitOutbox(t *testing.T, s *appkittest.Session, n int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		files, err := filepath.Glob(filepath.Join(s.DataDir, "outbox", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the outbox holds %v, want %d events", files, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func summaries(events []appkittest.Event) []string {
	list := []string{}
	for _, e := range events {
		list = append(list, e.Summary)
	}
	return list
}

func TestAnEventIsKeptUntilItIsAcknowledged(t *testing.T) {
	eras(t, func(t *testing.T, era appkittest.Option) {
		s := appkittest.Start(t, []byte(manifest), setup, era, appkittest.Silent())
		remind(t, s, "tea", "")
		e := s.Events.Wait(t, "note.reminded")
		var data remindArgs
		e.Decode(t, &data)
		if e.ID == "" || e.SessionID != "s1" || e.Summary != "tea" || data.Note != "tea" {
			t.Errorf("got %+v", e)
		}
		waitOutbox(t, s, 1)
		s.Ack(t, e.ID, "accepted", "")
		waitOutbox(t, s, 0)
	})
}

func TestARefusedOrKnownEventIsNotKept(t *testing.T) {
	for _, status := range []string{"rejected", "duplicate"} {
		s := appkittest.Start(t, []byte(manifest), setup, appkittest.Silent())
		remind(t, s, "tea", "")
		s.Ack(t, s.Events.Wait(t, "note.reminded").ID, status, "because")
		waitOutbox(t, s, 0)
	}
}

func TestAnUnacknowledgedEventIsSentAgainUnderItsIdWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := appkittest.Start(t, []byte(manifest), setup, appkittest.Silent())
		remind(t, s, "tea", "")
		begin := time.Now()
		var got []int
		for n := 1; n <= 4; n++ {
			s.Events.WaitCount(t, n)
			got = append(got, int(time.Since(begin).Round(time.Second).Seconds()))
		}
		if diff := cmp.Diff([]int{0, 5, 15, 35}, got); diff != "" {
			t.Errorf("sent after seconds (-want +got):\n%s", diff)
		}
		for _, e := range s.Events.All() {
			if e.ID != s.Events.All()[0].ID {
				t.Errorf("sent again as %s", e.ID)
			}
		}
		s.Ack(t, s.Events.All()[0].ID, "accepted", "")
		time.Sleep(time.Hour)
		if n := len(s.Events.All()); n != 4 {
			t.Errorf("sent %d times although acknowledged after 4", n)
		}
	})
}

func TestAPeerThatNeverAcknowledgesIsNotSentAnEventForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := appkittest.Start(t, []byte(manifest), setup, appkittest.Silent())
		remind(t, s, "one", "")
		time.Sleep(time.Hour)
		if n := len(s.Events.All()); n != 8 {
			t.Errorf("sent %d times in an hour, want 8", n)
		}
		remind(t, s, "two", "")
		s.Events.WaitCount(t, 9)
		// One word of acknowledgement, and the peer is worth an effort again.
		s.Ack(t, s.Events.All()[8].ID, "accepted", "")
		time.Sleep(time.Hour)
		if n := len(s.Events.All()); n < 9+50 {
			t.Errorf("sent %d times, want one a minute after the first acknowledgement", n)
		}
		waitOutbox(t, s, 1)
	})
}

func TestOnlyTheOldestEventsAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := appkittest.Start(t, []byte(manifest), setup, appkittest.Silent())
		for i := range 100 {
			if err := s.App.Emit(t.Context(), appkit.Event{Type: "note.reminded", Summary: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(7 * time.Second)
		events := s.Events.All()
		if len(events) != 164 {
			t.Fatalf("sent %d events, want 100 and 64 of them again", len(events))
		}
		if diff := cmp.Diff(summaries(events[:64]), summaries(events[100:])); diff != "" {
			t.Errorf("sent again (-want +got):\n%s", diff)
		}
	})
}

func TestEventsOutliveTheAppAndKeepTheirOrder(t *testing.T) {
	first := appkittest.Start(t, []byte(manifest), setup, appkittest.Silent())
	for i := range 5 {
		remind(t, first, fmt.Sprint(i), "")
	}
	before := first.Events.WaitCount(t, 5)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := appkittest.Start(t, []byte(manifest), setup, appkittest.DataDir(first.DataDir), appkittest.Silent())
	if diff := cmp.Diff(before, second.Events.WaitCount(t, 5)); diff != "" {
		t.Errorf("sent again otherwise (-before +after):\n%s", diff)
	}
	remind(t, second, "5", "")
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	third := appkittest.Start(t, []byte(manifest), setup, appkittest.DataDir(first.DataDir))
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "5"}, summaries(third.Events.WaitCount(t, 6))); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	waitOutbox(t, third, 0)
}

func TestAnEventOutlivesKillingTheProgram(t *testing.T) {
	env := appkittest.Env("EXAMPLE_APP=1")
	first := appkittest.StartBinary(t, os.Args[0], env, appkittest.Silent())
	remind(t, first, "tea", "")
	before := first.Events.Wait(t, "note.reminded")
	first.Kill(t)
	second := appkittest.StartBinary(t, os.Args[0], env, appkittest.DataDir(first.DataDir))
	if after := second.Events.Wait(t, "note.reminded"); after.ID != before.ID {
		t.Errorf("sent again as %s, was %s", after.ID, before.ID)
	}
	waitOutbox(t, second, 0)
}

func TestEventsWithOneKeyAreOneEvent(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup, appkittest.Silent())
	remind(t, s, "a", "alarm 17")
	remind(t, s, "a", "alarm 17")
	waitOutbox(t, s, 1)
	e := s.Events.Wait(t, "note.reminded")
	if e.Key != "alarm 17" {
		t.Errorf("key is %q", e.Key)
	}
	s.Ack(t, e.ID, "accepted", "")
	waitOutbox(t, s, 0)
	// The app does not remember what is acknowledged; the peer knows the id.
	remind(t, s, "a", "alarm 17")
	if again := s.Events.WaitCount(t, 2)[1]; again.ID != e.ID {
		t.Errorf("the same key gave %s and %s", e.ID, again.ID)
	}
	remind(t, s, "b", "alarm 18")
	if other := s.Events.WaitCount(t, 3)[2]; other.ID == e.ID {
		t.Error("another key gave the same id")
	}
}

func TestAFullOutboxIsAnErrorAtOnceAndNothingKeptIsLost(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup, appkittest.Silent(), appkittest.OutboxEvents(2))
	remind(t, s, "0", "")
	remind(t, s, "1", "")
	if e := appkittest.CallFails(t, s, "remind", map[string]any{"note": "2"}); e.Code != "EXAMPLE_BUSY" {
		t.Errorf("got %v", e)
	}
	s.Ack(t, s.Events.WaitCount(t, 2)[0].ID, "accepted", "")
	waitOutbox(t, s, 1)
	remind(t, s, "3", "")
	if diff := cmp.Diff([]string{"0", "1", "3"}, summaries(s.Events.WaitCount(t, 3))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAnExpiredEventIsNotSent(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	appkittest.Call[nothing](t, s, "remind", map[string]any{"note": "late", "expired": true})
	remind(t, s, "tea", "")
	if diff := cmp.Diff([]string{"tea"}, summaries(s.Events.WaitCount(t, 1))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	waitOutbox(t, s, 0)
}

func TestAnExpiredEventLeavesNoFileWithoutASessionEither(t *testing.T) {
	app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, expire := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(time.Hour)} {
		if err := app.Emit(t.Context(), appkit.Event{Type: "a.b", ExpireAt: expire}); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ours, theirs := net.Pipe()
	defer ours.Close()
	if err := app.Serve(ended, &mcp.IOTransport{Reader: theirs, Writer: theirs}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(app.DataDir(), "outbox", "*"))
	if err != nil || len(files) != 1 {
		t.Errorf("the outbox holds %v, %v; want the event that has not expired", files, err)
	}
}

func TestAnEventThatCannotBeWrittenIsAnErrorAndIsNotSent(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	box := filepath.Join(s.DataDir, "outbox")
	if err := os.Remove(box); err != nil { // as a failing disk would have it
		t.Fatal(err)
	}
	if e := appkittest.CallFails(t, s, "remind", map[string]any{"note": "lost"}); e.Code != appkit.CodeInternal {
		t.Errorf("got %v", e)
	}
	if err := os.Mkdir(box, 0o700); err != nil {
		t.Fatal(err)
	}
	remind(t, s, "tea", "")
	if diff := cmp.Diff([]string{"tea"}, summaries(s.Events.WaitCount(t, 1))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTwoEmitsOfAnEventThatCannotBeWrittenBothFail(t *testing.T) {
	app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(app.DataDir(), "outbox")); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if app.Emit(context.Background(), appkit.Event{Type: "a.b", Key: fmt.Sprint(i)}) == nil {
					t.Error("an Emit succeeded without a disk")
				}
			})
		}
		both.Wait()
	}
}

func TestAnOutboxWithRubbishInItOpens(t *testing.T) {
	dir := t.TempDir()
	box := filepath.Join(dir, "outbox")
	if err := os.Mkdir(box, 0o700); err != nil {
		t.Fatal(err)
	}
	good := `{"message_id":"01J00000000000000000000000","type":"note.reminded","summary":"tea"}`
	for name, text := range map[string]string{
		"00000000000000000007-01J00000000000000000000000.json": good,
		"00000000000000000008-cut.json":                        `{"message_id":"cu`,
		"00000000000000000009-other.json":                      good,
		"nonsense.json":                                        good,
		".tmp-123":                                             good,
		"README":                                               "hello",
	} {
		if err := os.WriteFile(filepath.Join(box, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := appkittest.Start(t, []byte(manifest), setup, appkittest.DataDir(dir))
	remind(t, s, "milk", "")
	if diff := cmp.Diff([]string{"tea", "milk"}, summaries(s.Events.WaitCount(t, 2))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	waitOutbox(t, s, 0)
	kept, err := filepath.Glob(filepath.Join(box, "*.unreadable"))
	if err != nil || len(kept) != 3 {
		t.Errorf("set aside: %v, %v; want 3 files", kept, err)
	}
	if _, err := os.Stat(filepath.Join(box, ".tmp-123")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover: %v", err)
	}
}

func TestConcurrentEmitsAllArriveOnce(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	const n = 40
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			// Every key is emitted by two at once.
			err := s.App.Emit(context.Background(), appkit.Event{Type: "note.reminded", Summary: fmt.Sprint(i), Key: fmt.Sprint(i / 2)})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for range n / 2 {
		seen[s.Events.Wait(t, "note.reminded").Key] = true
	}
	if len(seen) != n/2 {
		t.Errorf("%d keys arrived, want %d", len(seen), n/2)
	}
	waitOutbox(t, s, 0)
}

func TestAnEventThatIsNoneIsRefused(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, emit := range map[string]func() error{
		"without type":      func() error { return s.App.Emit(t.Context(), appkit.Event{}) },
		"data without JSON": func() error { return s.App.Emit(t.Context(), appkit.Event{Type: "a.b", Data: make(chan int)}) },
		"too large": func() error {
			return s.App.Emit(t.Context(), appkit.Event{Type: "a.b", Data: strings.Repeat("x", 2<<20)})
		},
		"cancelled": func() error { return s.App.Emit(gone, appkit.Event{Type: "a.b"}) },
	} {
		if err := emit(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	waitOutbox(t, s, 0)
}

// rawPeer speaks lines of JSON with an app.
type rawPeer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

func newRawPeer(t *testing.T, app *appkit.App) *rawPeer {
	appSide, ours := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- app.Serve(context.Background(), &mcp.IOTransport{Reader: appSide, Writer: appSide}) }()
	p := &rawPeer{t, ours, bufio.NewScanner(ours)}
	t.Cleanup(func() {
		ours.Close()
		if err := <-served; err != nil {
			t.Errorf("the app did not end in order: %v", err)
		}
	})
	return p
}

func (p *rawPeer) send(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.conn, line); err != nil {
		p.t.Fatal(err)
	}
}

// read returns the next message's method, or "answer N".
func (p *rawPeer) read() string {
	p.t.Helper()
	if !p.in.Scan() {
		p.t.Fatalf("no further message: %v", p.in.Err())
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal(p.in.Bytes(), &m); err != nil {
		p.t.Fatal(err)
	}
	if m.Method == "" {
		return "answer " + string(m.ID)
	}
	return m.Method
}

func TestNoEventIsSentBeforeTheSessionHasBegun(t *testing.T) {
	app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Emit(t.Context(), appkit.Event{Type: "note.reminded"}); err != nil {
		t.Fatal(err)
	}
	p := newRawPeer(t, app)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	got := []string{p.read()}
	p.send(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	got = append(got, p.read())
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	got = append(got, p.read())
	if diff := cmp.Diff([]string{"answer 1", "answer 2", "aurora/event"}, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestAcknowledgementsThatMakeNoSenseAreIgnored(t *testing.T) {
	app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	p := newRawPeer(t, app)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	p.read()
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for _, params := range []string{`[]`, `"x"`, `{}`, `{"message_id":7}`, `{"message_id":"unknown","status":"accepted"}`, `{"message_id":"x","status":"perhaps"}`} {
		p.send(`{"jsonrpc":"2.0","method":"aurora/ack","params":` + params + `}`)
	}
	p.send(`{"jsonrpc":"2.0","method":"aurora/ack"}`)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"aurora/ack","params":{}}`) // a request is answered, if only by an error
	if got := p.read(); got != "answer 2" {
		t.Errorf("got %s", got)
	}
	if err := app.Emit(t.Context(), appkit.Event{Type: "note.reminded"}); err != nil {
		t.Fatal(err)
	}
	if got := p.read(); got != "aurora/event" {
		t.Errorf("got %s", got)
	}
}

// BenchmarkEmit is what an event costs the app: two syncs, mostly.
func BenchmarkEmit(b *testing.B) {
	app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: b.TempDir(), OutboxEvents: 1 << 20, OutboxBytes: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := app.Emit(b.Context(), appkit.Event{Type: "note.reminded", Summary: "tea"}); err != nil {
			b.Fatal(err)
		}
	}
}
