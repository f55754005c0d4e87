package natsbus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/journal"
)

func TestEventsOfATimeWithoutNATSAreDeliveredWhenItComes(t *testing.T) {
	server := newBroker(t)
	server.start()
	server.stop() // so that the port is known
	opt := server.options(t)
	b := open(t, opt)
	var want []string
	for i := range 600 {
		want = append(want, publish(t, b, event("a", "", i))[0].ID)
	}
	eventually(t, "the state says why", func() bool {
		err := b.State().Err
		return err != nil && strings.Contains(err.Error(), "refused")
	})
	if c := b.Counters(); c.Accepted != 600 || c.Backlog != 600 || c.Delivered != 0 {
		t.Errorf("counters %+v", c)
	}
	server.start()
	mustClose(t, b)
	if got := ids(envelopes(t, stored(t, server.admin(), "AURORA", "aurora"), "aurora")); !slices.Equal(got, want) {
		t.Errorf("delivered %d of %d, or in another order", len(got), len(want))
	}
}

func TestClosingWithoutNATSKeepsWhatIsLeftForTheNextStart(t *testing.T) {
	server := startBroker(t)
	server.stop()
	opt := server.options(t)
	opt.CloseTimeout = 50 * time.Millisecond
	b := open(t, opt)
	publish(t, b, event("a", "one", 1), event("a", "two", 2))
	if err := b.Close(); err == nil || !strings.Contains(err.Error(), "2 records") {
		t.Errorf("closing: %v", err)
	}
	server.start()
	opt.CloseTimeout = patience
	mustClose(t, open(t, opt))
	if got := ids(envelopes(t, stored(t, server.admin(), "AURORA", "aurora"), "aurora")); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("delivered %v", got)
	}
}

func TestRestartsOfNATSInMidLoadLoseNothingAndRepeatNothing(t *testing.T) {
	server := startBroker(t)
	opt := server.options(t)
	b := open(t, opt)
	var wg sync.WaitGroup
	var done atomic.Bool
	const producers = 4
	var published [producers]int
	for p := range producers {
		wg.Go(func() {
			for ; !done.Load() || published[p] < 50; published[p]++ {
				if _, err := b.Publish(t.Context(), event(fmt.Sprint("app", p), "", published[p])); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 4 {
		before := b.Counters().Delivered
		eventually(t, "messages flow", func() bool { return b.Counters().Delivered > before+300 })
		server.stop()
		backlog := b.Counters().Backlog
		eventually(t, "events wait", func() bool { return b.Counters().Backlog > backlog+300 })
		server.start()
	}
	done.Store(true)
	wg.Wait()
	mustClose(t, b)
	next, total := map[string]int{}, 0
	for _, e := range envelopes(t, stored(t, server.admin(), "AURORA", "aurora"), "aurora") {
		app := e.Header.Source.App
		if string(e.Payload.Data) != fmt.Sprint(next[app]) || e.Header.Seq != uint64(next[app]+1) {
			t.Fatalf("%s: event %s with seq %d at place %d", app, e.Payload.Data, e.Header.Seq, next[app])
		}
		next[app]++
	}
	for p, n := range published {
		if got := next[fmt.Sprint("app", p)]; got != n {
			t.Errorf("app%d: %d delivered of %d", p, got, n)
		}
		total += n
	}
	t.Logf("%d events", total)
}

// unanswered makes a bus fail once, after the stream has a batch and before the
// bus knows.
func unanswered(opt *Options) *atomic.Bool {
	var arm atomic.Bool
	opt.Fault = func(step string) error {
		if step == "nats acknowledged" && arm.CompareAndSwap(true, false) {
			return errors.New("the answer was lost")
		}
		return nil
	}
	return &arm
}

func TestALostAnswerIsMadeUpForAlsoAfterTheServerForgotTheIDs(t *testing.T) {
	server := startBroker(t)
	js := server.admin()
	opt := server.options(t)
	opt.DuplicateWindow = 100 * time.Millisecond
	opt.Retry = 400 * time.Millisecond // so it looks when the window is long over
	arm := unanswered(&opt)
	b := open(t, opt)
	publish(t, b, event("a", "one", 1))
	eventually(t, "the first is there", func() bool { return b.Counters().Backlog == 0 })
	arm.Store(true)
	publish(t, b, event("a", "two", 2), event("a", "three", 3))
	mustClose(t, b)
	if arm.Load() {
		t.Fatal("no answer was lost")
	}
	if got := ids(envelopes(t, stored(t, js, "AURORA", "aurora"), "aurora")); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("delivered %v", got)
	}
	// The control: the window alone would not have helped.
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "aurora.test.event", Header: nats.Header{jetstream.MsgIDHeader: {"two"}}})
	if err != nil || ack.Duplicate {
		t.Errorf("the server still knows the id: %+v, %v", ack, err)
	}
}

func TestPlatformsThatShareAPrefixDoNotTakeEachOthersMessagesForTheirOwn(t *testing.T) {
	server := startBroker(t)
	optA, optB := server.options(t), server.options(t)
	for _, opt := range []*Options{&optA, &optB} {
		opt.DuplicateWindow, opt.Retry = 100*time.Millisecond, 400*time.Millisecond
	}
	arm := unanswered(&optA)
	a, b := open(t, optA), open(t, optB)
	flushed := func(b *Bus) { eventually(t, "all is there", func() bool { return b.Counters().Backlog == 0 }) }
	publish(t, a, event("a", "a1", 1))
	publish(t, b, event("b", "b1", 1))
	flushed(a)
	flushed(b)
	arm.Store(true)
	publish(t, a, event("a", "a2", 2), event("a", "a3", 3))
	eventually(t, "an answer is lost", func() bool { return !arm.Load() })
	publish(t, b, event("b", "b2", 2), event("b", "b3", 3), event("b", "b4", 4))
	flushed(b)
	publish(t, a, event("a", "a4", 4))
	mustClose(t, a)
	mustClose(t, b)
	var of [2][]string
	for _, id := range ids(envelopes(t, stored(t, server.admin(), "AURORA", "aurora"), "aurora")) {
		of[id[0]-'a'] = append(of[id[0]-'a'], id)
	}
	if !slices.Equal(of[0], []string{"a1", "a2", "a3", "a4"}) || !slices.Equal(of[1], []string{"b1", "b2", "b3", "b4"}) {
		t.Errorf("delivered %v", of)
	}
}

func TestAnIDThatTheStreamHasFromElsewhereIsLeftOutAlone(t *testing.T) {
	server := startBroker(t)
	optA, optB := server.options(t), server.options(t)
	optB.Prefix, optB.Stream = "aurora.b", optA.Stream
	a := open(t, optA)
	publish(t, a, event("app", "same", 1))
	mustClose(t, a)
	server.stop()
	optB.CloseTimeout = time.Millisecond
	b := open(t, optB)
	publish(t, b, event("app", "before", 1), event("app", "same", 2), event("app", "after", 3)) // one batch
	b.Close()                                                                                   // reports what is left
	server.start()
	optB.CloseTimeout = patience
	mustClose(t, open(t, optB))
	if got := ids(envelopes(t, stored(t, server.admin(), "AURORA", "aurora.b"), "aurora.b")); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("delivered %v", got)
	}
}

func TestALostCheckpointIsFoundAgainInTheStream(t *testing.T) {
	server := startBroker(t)
	opt := server.options(t)
	opt.DuplicateWindow = 100 * time.Millisecond
	b := open(t, opt)
	for i := range 50 {
		publish(t, b, event("a", fmt.Sprint("id-", i), i))
	}
	mustClose(t, b)
	for _, damage := range []func(path string) error{
		os.Remove,
		func(path string) error { return os.WriteFile(path, []byte("rubbish"), 0o600) },
	} {
		if err := damage(filepath.Join(opt.Journal.Dir, checkpointName)); err != nil {
			t.Fatal(err)
		}
		b = open(t, opt)
		eventually(t, "the stream is asked", func() bool { return b.Counters().Backlog == 0 })
		if len(b.Problems()) != 1 || b.Counters().Delivered != 0 {
			t.Errorf("problems %q, %d sent again", b.Problems(), b.Counters().Delivered)
		}
		mustClose(t, b)
	}
	if n := len(stored(t, server.admin(), "AURORA", "aurora")); n != 50 {
		t.Errorf("%d messages", n)
	}
}

func TestWhatServersAcknowledgedAndLostIsSentAgain(t *testing.T) {
	server := startBroker(t)
	opt := server.options(t)
	b := open(t, opt)
	send := func(from, to int) {
		for i := from; i < to; i++ {
			publish(t, b, event("a", fmt.Sprint("id-", i), i))
		}
		eventually(t, "all is there", func() bool { return b.Counters().Backlog == 0 })
	}
	send(0, 20)
	server.stop()
	backup := t.TempDir()
	if err := os.CopyFS(filepath.Join(backup, "store"), os.DirFS(server.opt.StoreDir)); err != nil {
		t.Fatal(err)
	}
	server.start()
	send(20, 40)
	server.stop()
	server.opt.StoreDir = filepath.Join(backup, "store") // as after a power cut without syncs
	server.start()
	send(40, 60)
	mustClose(t, b)
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprint("id-", i))
	}
	if got := ids(envelopes(t, stored(t, server.admin(), "AURORA", "aurora"), "aurora")); !slices.Equal(got, want) {
		t.Errorf("delivered %v", got)
	}
	if p := b.Problems(); len(p) != 1 || !strings.Contains(p[0], "records 21 to 40 are sent again") {
		t.Errorf("problems %q", p)
	}
}

func TestAStreamThatAPersonDeletedIsMadeAnewAndGoesOn(t *testing.T) {
	server := startBroker(t)
	js := server.admin()
	b := open(t, server.options(t))
	publish(t, b, event("a", "one", 1))
	eventually(t, "the first is there", func() bool { return b.Counters().Backlog == 0 })
	if err := js.DeleteStream(t.Context(), "AURORA"); err != nil {
		t.Fatal(err)
	}
	publish(t, b, event("a", "two", 2))
	mustClose(t, b)
	if got := ids(envelopes(t, stored(t, js, "AURORA", "aurora"), "aurora")); !slices.Equal(got, []string{"two"}) {
		t.Errorf("delivered %v", got)
	}
}

func TestAJournalThatLostItsEndSaysSoAndSendsWhatIsNew(t *testing.T) {
	server := startBroker(t)
	opt := server.options(t)
	b := open(t, opt)
	publish(t, b, event("a", "old-1", 1), event("a", "old-2", 2))
	mustClose(t, b)
	logs, err := filepath.Glob(filepath.Join(opt.Journal.Dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	if err := os.Remove(logs[0]); err != nil {
		t.Fatal(err)
	}
	b = open(t, opt)
	if p := b.Problems(); len(p) != 1 || !strings.Contains(p[0], "parts of it are gone") {
		t.Errorf("problems %q", p)
	}
	publish(t, b, event("a", "new-1", 1), event("a", "new-2", 2), event("a", "new-3", 3)) // at the same positions
	mustClose(t, b)
	if got := ids(envelopes(t, stored(t, server.admin(), "AURORA", "aurora"), "aurora")); !slices.Equal(got, []string{"old-1", "old-2", "new-1", "new-2", "new-3"}) {
		t.Errorf("delivered %v", got)
	}
}

func TestAFullStreamHoldsEventsBackUntilThereIsRoom(t *testing.T) {
	server := startBroker(t)
	js := server.admin()
	opt := server.options(t)
	opt.MaxBytes = 16 << 10
	b := open(t, opt)
	const n = 100
	for i := range n {
		publish(t, b, event("a", "", i))
	}
	eventually(t, "the stream is full", func() bool {
		err := b.State().Err
		return err != nil && strings.Contains(err.Error(), "maximum bytes exceeded")
	})
	if len(stored(t, js, "AURORA", "aurora")) == n {
		t.Fatal("all fitted")
	}
	s, err := js.Stream(t.Context(), "AURORA")
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for b.Counters().Backlog > 0 { // a Brain takes
		messages := stored(t, js, "AURORA", "aurora")
		for _, e := range envelopes(t, messages, "aurora") {
			if string(e.Payload.Data) != fmt.Sprint(taken) {
				t.Fatalf("event %s at place %d", e.Payload.Data, taken)
			}
			taken++
		}
		before := b.Counters().Delivered
		if n := len(messages); n > 0 {
			if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(messages[n-1].Sequence+1)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "more comes", func() bool { return b.Counters().Delivered > before || b.Counters().Backlog == 0 })
	}
	mustClose(t, b)
	taken += len(stored(t, js, "AURORA", "aurora"))
	if taken != n || b.Counters().Delivered != n {
		t.Errorf("taken %d, counters %+v", taken, b.Counters())
	}
}

func TestPublishWaitsWhileTooMuchIsHeldBack(t *testing.T) {
	server := startBroker(t)
	server.stop()
	opt := server.options(t)
	opt.MaxLag = 3
	b := open(t, opt)
	for i := range 3 {
		publish(t, b, event("a", "", i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Publish(ctx, event("a", "", 3)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "degraded") {
		t.Errorf("the fourth: %v", err)
	}
	if _, err := b.Publish(t.Context(), bus.Item{Envelope: bustest.Event("a", "t", 0), Route: bus.Journal}); err != nil {
		t.Errorf("one that is not for NATS: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := b.Publish(t.Context(), event("a", "", 3))
		waiting <- err
	}()
	server.start()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	mustClose(t, b)
	if n := len(stored(t, server.admin(), "AURORA", "aurora")); n != 4 {
		t.Errorf("%d messages", n)
	}
}

func TestWhatExpiresWhileNATSIsAwayIsCountedAndNotSent(t *testing.T) {
	server := startBroker(t)
	server.stop()
	b := open(t, server.options(t))
	soon := event("a", "soon", 1)
	soon.Envelope.Payload.ExpireAt = ptr(bustest.Event("a", "t", 0).Header.Timestamp)
	soon.Envelope.Payload.ExpireAt.Time = time.Now().Add(100 * time.Millisecond)
	publish(t, b, soon, event("a", "never", 2))
	eventually(t, "it expires", func() bool { return time.Now().After(soon.Envelope.Payload.ExpireAt.Time) })
	server.start()
	mustClose(t, b)
	if got := ids(envelopes(t, stored(t, server.admin(), "AURORA", "aurora"), "aurora")); !slices.Equal(got, []string{"never"}) {
		t.Errorf("delivered %v", got)
	}
	if c := b.Counters(); c.Expired != 1 || c.Accepted != 2 {
		t.Errorf("counters %+v", c)
	}
}

func ptr[T any](v T) *T { return &v }

func TestAServerThatTakesLessIsTheCauseUntilItTakesMore(t *testing.T) {
	server := startBroker(t)
	server.stop()
	server.opt.MaxPayload = 64 << 10
	server.start()
	b := open(t, server.options(t))
	publish(t, b, bus.Item{Envelope: bustest.Event("a", "t", strings.Repeat("x", 100<<10))}, event("a", "small", 1))
	eventually(t, "the state says why", func() bool {
		err := b.State().Err
		return err != nil && strings.Contains(err.Error(), "max_payload")
	})
	server.stop()
	server.opt.MaxPayload = 0
	server.start()
	mustClose(t, b)
	if n := len(stored(t, server.admin(), "AURORA", "aurora")); n != 2 {
		t.Errorf("%d messages", n)
	}
}

func TestAServerThatLimitsBatchesGetsSmallerOnes(t *testing.T) {
	server := newBroker(t)
	server.opt.JetStreamLimits.MaxBatchSize = 10
	server.start()
	server.stop()
	b := open(t, server.options(t))
	for i := range 100 {
		publish(t, b, event("a", "", i))
	}
	server.start()
	mustClose(t, b)
	if n := len(stored(t, server.admin(), "AURORA", "aurora")); n != 100 {
		t.Errorf("%d messages", n)
	}
}

func TestABrokenDiskIsNamedAsTheCause(t *testing.T) {
	server := startBroker(t)
	opt := server.options(t)
	var broken atomic.Bool
	opt.Fault = func(step string) error {
		if broken.Load() && strings.HasPrefix(step, "journal") {
			return errors.New("input/output error")
		}
		return nil
	}
	b := open(t, opt)
	broken.Store(true)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	published := make(chan error, 1)
	go func() {
		_, err := b.Publish(ctx, event("a", "one", 1))
		published <- err
	}()
	eventually(t, "the state says why", func() bool {
		err := b.State().Err
		return err != nil && strings.Contains(err.Error(), "input/output error")
	})
	giveUp()
	if err := <-published; !errors.Is(err, journal.ErrDegraded) {
		t.Errorf("publishing to a broken disk: %v", err)
	}
	broken.Store(false)
	if r := publish(t, b, event("a", "one", 1)); r[0].ID != "one" {
		t.Errorf("receipt %+v", r)
	}
	mustClose(t, b)
	if n := len(stored(t, server.admin(), "AURORA", "aurora")); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestWhatExpiresInTheStreamIsGoneFromIt(t *testing.T) {
	server := startBroker(t)
	js := server.admin()
	b := open(t, server.options(t))
	soon := event("a", "soon", 1)
	soon.Envelope.Payload.ExpireAt = ptr(soon.Envelope.Header.Timestamp)
	soon.Envelope.Payload.ExpireAt.Time = time.Now().Add(1500 * time.Millisecond)
	publish(t, b, event("a", "never", 2), soon)
	mustClose(t, b)
	if b.Counters().Delivered != 2 {
		t.Fatalf("counters %+v", b.Counters())
	}
	eventually(t, "it is gone", func() bool {
		got := ids(envelopes(t, stored(t, js, "AURORA", "aurora"), "aurora"))
		return slices.Equal(got, []string{"never"})
	})
}

func TestAStreamThatForgetsWhatIsConsumedIsRefused(t *testing.T) {
	server := startBroker(t)
	_, err := server.admin().CreateStream(t.Context(), jetstream.StreamConfig{Name: "AURORA", Subjects: []string{"aurora.>"}, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		t.Fatal(err)
	}
	opt := server.options(t)
	opt.CloseTimeout = time.Millisecond
	b := open(t, opt)
	eventually(t, "the state says why", func() bool {
		err := b.State().Err
		return err != nil && strings.Contains(err.Error(), "want limits")
	})
}
