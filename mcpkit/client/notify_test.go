package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestEventsArriveOnceInOrderAsTheyWereSent(t *testing.T) {
	k := newKit(t)
	k.connect(t, "aurora-valid")
	for i, s := range k.waitOf(t, signal.AppEvent, 10) {
		var e struct {
			ID   string `json:"message_id"`
			Data struct{ N int }
		}
		if err := json.Unmarshal(s.Params, &e); err != nil || e.Data.N != i || e.ID != fmt.Sprintf("valid-%02d", i) {
			t.Errorf("event %d is %s", i, s.Params)
		}
		if s.Server != "aurora-valid" || s.Instance != "1" || s.Method != "aurora/event" || s.Ack != nil || s.Time.IsZero() {
			t.Errorf("event %d is %+v", i, s)
		}
	}
}

func TestAHeldSessionSaysNothingUntilItIsReleased(t *testing.T) {
	k := newKit(t)
	c := k.conn(t, "aurora-valid")
	c.Hold = true
	s, err := k.Connect(deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(k.Manager, deadline(t), "aurora-valid", "emit", ""); err != nil { // ten more, read before the answer
		t.Fatal(err)
	}
	if n := len(k.of(signal.AppEvent)); n != 0 {
		t.Fatalf("%d signals came too early", n)
	}
	s.Release()
	k.waitOf(t, signal.AppEvent, 20)
	s.Release() // does no harm
}

func TestAHeldSessionThatEndsIsReleasedInTime(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	c := k.conn(t, "aurora-valid")
	c.Hold = true
	s, err := k.Connect(deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(k.Manager, deadline(t), "aurora-valid", "emit", ""); err != nil { // so that something is held
		t.Fatal(err)
	}
	c.Stdout.Close()
	select {
	case <-s.Done():
	case <-time.After(testTimeout):
		t.Fatal("it never ends")
	}
	k.waitOf(t, signal.AppEvent, 1)

	c = k.conn(t, "mute") // a Connect that fails leaves nobody to release
	c.Hold = true
	ctx, cancel := contextWithTimeout(100 * time.Millisecond)
	defer cancel()
	if _, err := k.Connect(ctx, c); err == nil {
		t.Error("no error")
	}
}

func TestAFloodBeforeTheToolsAreReadDoesNotStallAHeldSession(t *testing.T) {
	t.Parallel()
	const total = 3000
	k := newKit(t, func(o *client.Options) { o.QueueSignals = 16 })
	c := k.conn(t, "aurora-burst", "rate=1000000", fmt.Sprint("total=", total))
	c.Hold = true
	s, err := k.Connect(deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	if i := s.Info(); i.Degraded != "" || i.Tools == 0 {
		t.Errorf("the session is %+v", i)
	}
	s.Release()
	for i, e := range k.waitOf(t, signal.AppEvent, total) {
		if want := fmt.Sprintf("burst-%06d", i); !strings.Contains(string(e.Params), want) {
			t.Fatalf("signal %d is %s", i, e.Params)
		}
	}
}

func TestMalformedEventsArePassedOnToBeJudged(t *testing.T) {
	k := newKit(t)
	k.connect(t, "aurora-malformed")
	all := k.waitOf(t, signal.AppEvent, 29)
	for i, want := range []string{"", `["x"]`, `"just text"`} {
		if got := string(all[25+i].Params); got != want {
			t.Errorf("params are %q, want %q", got, want)
		}
	}
	if !strings.Contains(string(all[28].Params), `"good"`) {
		t.Errorf("the last is %s", all[28].Params)
	}
	k.echo(t, "aurora-malformed", "the session lives")
}

func TestEventsAreTakenOutOfLogMessages(t *testing.T) {
	k := newKit(t)
	k.connect(t, "aurora-tunnel")
	for i, s := range k.waitOf(t, signal.AppEvent, 3) {
		if p := string(s.Params); !strings.HasPrefix(p, "{") || !strings.Contains(p, fmt.Sprintf(`"message_id":"tunnel-%d"`, i)) {
			t.Errorf("event %d is %s", i, p)
		}
	}
	if n := len(k.of(signal.Notification)); n != 0 {
		t.Errorf("%d came as notifications too", n)
	}
}

func TestALargeEventArrivesWhole(t *testing.T) {
	k := newKit(t)
	k.connect(t, "aurora-huge")
	all := k.waitOf(t, signal.AppEvent, 2)
	if len(all[0].Params) < 5_000_000 || !strings.Contains(string(all[1].Params), `"small"`) {
		t.Errorf("%d bytes, then %s", len(all[0].Params), all[1].Params)
	}
}

func TestABurstArrivesOnceInOrderThoughTheSinkIsSlow(t *testing.T) {
	t.Parallel()
	const total = 30_000
	var next atomic.Int64
	done := make(chan struct{})
	var wrong atomic.Pointer[string]
	k := newKit(t, func(o *client.Options) {
		o.QueueSignals = 16
		o.Sink = signal.SinkFunc(func(_ context.Context, s signal.Signal) error {
			if s.Kind != signal.AppEvent {
				return nil
			}
			n := next.Add(1) - 1
			if want := fmt.Sprintf(`"burst-%06d"`, n); !strings.Contains(string(s.Params), want) {
				text := fmt.Sprintf("%s where %s was due", s.Params, want)
				wrong.CompareAndSwap(nil, &text)
			}
			if n%1000 == 0 {
				time.Sleep(5 * time.Millisecond) // slow on purpose
			}
			if n == total-1 {
				close(done)
			}
			return nil
		})
	})
	s := k.connectWith(t, session.Config{PingInterval: 20 * time.Millisecond, PingTimeout: 20 * time.Second}, "aurora-burst", "rate=30000")
	k.connect(t, "echo")
	for range 50 {
		k.echo(t, "echo", "a neighbour does not notice")
	}
	select {
	case <-done:
	case <-s.Done():
		t.Fatalf("the session ended: %v", s.Err())
	case <-time.After(testTimeout):
		t.Fatalf("%d arrived", next.Load())
	}
	if w := wrong.Load(); w != nil {
		t.Error(*w)
	}
}

func TestASinkThatTakesNothingHoldsItsServerBackAndNobodyElse(t *testing.T) {
	release := make(chan struct{})
	var taken atomic.Int64
	k := newKit(t, func(o *client.Options) {
		o.QueueSignals = 8
		o.Sink = signal.SinkFunc(func(ctx context.Context, s signal.Signal) error {
			if s.Server == "aurora-burst" {
				<-release
				taken.Add(1)
			}
			return nil
		})
	})
	s := k.connectWith(t, session.Config{PingInterval: 20 * time.Millisecond, PingTimeout: 500 * time.Millisecond}, "aurora-burst", "total=5000", "rate=100000")
	k.connect(t, "echo")
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		k.echo(t, "echo", "free")
	}
	select {
	case <-s.Done():
		t.Fatalf("a server that is held back was taken for hung: %v", s.Err())
	default:
	}
	close(release)
	eventually(t, "all events", func() bool { return taken.Load() == 5000 || s.Err() != nil })
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

func TestEventsAreAcknowledgedToServersThatWantIt(t *testing.T) {
	k := newKit(t)
	k.connect(t, "aurora-ack")
	for i, s := range k.waitOf(t, signal.AppEvent, 3) {
		if s.Ack == nil {
			t.Fatal("there is no way to acknowledge")
		}
		s.Ack(signal.Ack{ID: fmt.Sprint("ack-", i), Status: []string{"accepted", "duplicate", "rejected"}[i], Reason: []string{"", "", "why"}[i]})
	}
	eventually(t, "all three", func() bool {
		told, err := call(k.Manager, t.Context(), "aurora-ack", "kept", "")
		return err == nil && strings.Contains(told, `"method":"aurora/ack","params":{"message_id":"ack-0","status":"accepted"}`) &&
			strings.Contains(told, `{"message_id":"ack-2","status":"rejected","reason":"why"}`)
	})
}

func TestNotificationsThatNobodyKnowsArePassedOn(t *testing.T) {
	k := newKit(t)
	k.connect(t, "third-party")
	got := k.waitOf(t, signal.Notification, 3)
	for i, want := range [][2]string{
		{"notifications/resources/list_changed", ""}, // it never offered resources
		{"notifications/custom/thing", `{"n":1}`},
		{"vendor/progress-ish", `{"big":1,"text":"\u2028"}`},
	} {
		if got[i].Method != want[0] || string(got[i].Params) != want[1] {
			t.Errorf("got %s %s", got[i].Method, got[i].Params)
		}
	}
}

func TestALogStormIsLimitedAndCounted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.connect(t, "log-storm")
	eventually(t, "many log messages", func() bool { return s.Problems()["log_flood"] > 10_000 })
	k.echo(t, "log-storm", "calls stay quick")
	if n := len(k.of(signal.Notification)); n < 100 || n > 100+20*30 {
		t.Errorf("%d were passed on", n)
	}
	if n := len(k.of(signal.Problem)); n > 10 {
		t.Errorf("%d reports", n)
	}
}

func TestWhatAServerSaidLastIsHeardBeforeDone(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "aurora-valid")
	k.waitOf(t, signal.AppEvent, 10) // what it says once initialized
	if _, err := call(k.Manager, deadline(t), "aurora-valid", "emit", ""); err != nil {
		t.Fatal(err)
	}
	s.Close(nil)
	<-s.Done()
	if n := len(k.of(signal.AppEvent)); n != 20 {
		t.Errorf("%d events", n)
	}
}

func TestClosingTheManagerIsBoundedThoughTheSinkTakesNothing(t *testing.T) {
	k := newKit(t, func(o *client.Options) {
		o.QueueSignals = 4
		o.Sink = signal.SinkFunc(func(ctx context.Context, _ signal.Signal) error {
			<-ctx.Done()
			return ctx.Err()
		})
	})
	k.connect(t, "aurora-burst", "total=100000", "rate=100000")
	ctx, cancel := contextWithTimeout(100 * time.Millisecond)
	defer cancel()
	if err := k.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := k.Connect(deadline(t), k.conn(t, "echo")); err == nil {
		t.Error("a closed manager connects")
	}
}
