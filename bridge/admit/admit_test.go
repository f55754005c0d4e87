package admit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

func openJournal(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func name(typ, id string) string { return typ + " " + id }

func admit(t *testing.T, d *Desk, envelopes ...*amp.Envelope) []bus.Receipt {
	t.Helper()
	var items []bus.Item
	for _, e := range envelopes {
		items = append(items, bus.Item{Envelope: e})
	}
	drafts, err := d.Check(items)
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := d.Admit(t.Context(), drafts)
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func event(app, id string) *amp.Envelope {
	e := bustest.Event(app, "test.event", map[string]any{"n": 1})
	e.Header.MessageID = id
	return e
}

func TestAnIDBelongsToTheAppThatUsedItFirst(t *testing.T) {
	j := openJournal(t, t.TempDir())
	d := NewDesk(j, 1<<20, name)
	first := admit(t, d, event("one", "x"))[0]
	again := admit(t, d, event("one", "x"))[0]
	other := admit(t, d, event("two", "x"), event("two", "x"))
	if first.ID != "x" || first.Status == bus.Duplicate || first.Seq != 1 {
		t.Errorf("the first is %+v", first)
	}
	if again.ID != "x" || again.Status != bus.Duplicate {
		t.Errorf("sent again it is %+v", again)
	}
	if want := amp.Remint("two", "x"); other[0].ID != want || other[0].Status == bus.Duplicate || other[1].Status != bus.Duplicate {
		t.Errorf("of another app it is %+v", other)
	}
	if got, want := d.Counts(), (Counts{Accepted: 2, Duplicate: 2}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	r := j.Reader(1)
	defer r.Close()
	rec, err := r.Next()
	if err != nil || rec.Name != "test.event x" {
		t.Errorf("the record is named %q, %v", rec.Name, err)
	}
}

func TestWhatCameBeforeAnEventIsInItsRecordWithIDsAndSeqsOfItsOwn(t *testing.T) {
	j := openJournal(t, t.TempDir())
	d := NewDesk(j, 1<<20, name)
	end := event("app", "end")
	item := bus.Item{Envelope: end, Before: []*amp.Envelope{event("app", ""), event("app", "")}}
	for again, want := range []bus.Status{bus.Accepted, bus.Duplicate} {
		drafts, err := d.Check([]bus.Item{item})
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := d.Admit(t.Context(), drafts)
		if err != nil || receipts[0].Status != want || again == 0 && receipts[0].Seq != 3 {
			t.Fatalf("receipt %+v, %v", receipts, err)
		}
	}
	next := admit(t, d, event("app", ""))[0]
	if next.Seq != 4 {
		t.Errorf("the next event has seq %d", next.Seq)
	}
	if got, want := d.Counts(), (Counts{Accepted: 2, Recorded: 2, Duplicate: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	r := j.Reader(1)
	defer r.Close()
	rec, err := r.Next()
	if err != nil || rec.First() != 1 || rec.Seq != 3 || rec.Name != "test.event end" {
		t.Fatalf("record %+v, %v", rec, err)
	}
	last := ""
	seq := rec.First()
	for line := range rec.Before() {
		var e amp.Envelope
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Header.Seq != seq || e.Header.MessageID <= last {
			t.Errorf("seq %d and id %q after %q", e.Header.Seq, e.Header.MessageID, last)
		}
		seq, last = seq+1, e.Header.MessageID
	}
	var e amp.Envelope
	if err := json.Unmarshal(rec.Event(), &e); err != nil || e.Header.MessageID != "end" || e.Header.Seq != seq || seq != 3 {
		t.Errorf("the event is %s, %v", rec.Event(), err)
	}

	if _, err := d.Check([]bus.Item{{Envelope: event("app", ""), Before: []*amp.Envelope{event("another", "")}}}); err == nil {
		t.Error("an envelope of another source was taken")
	}
	large := bustest.Event("app", "test.event", strings.Repeat("x", 1<<20))
	if _, err := d.Check([]bus.Item{{Envelope: event("app", ""), Before: []*amp.Envelope{large}}}); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("one that is too large before another: %v", err)
	}
}

func TestIDsRiseAboveThoseOfTheLastDesk(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	last := admit(t, NewDesk(j, 1<<20, name), event("one", ""))[0].ID
	j.Close()
	next := admit(t, NewDesk(openJournal(t, dir), 1<<20, name), event("one", ""))[0].ID
	if next <= last {
		t.Errorf("%s came after %s", next, last)
	}
}

func TestWhatCannotBeAdmittedIsRefusedWithItsType(t *testing.T) {
	d := NewDesk(openJournal(t, t.TempDir()), 4096, name)
	large := bustest.Event("one", "test.large", map[string]any{"text": strings.Repeat("x", 4096)})
	broken := event("one", "")
	broken.Payload.Data = json.RawMessage(`{"n":`)
	source := event(strings.Repeat("s", maxSource+1), "")
	for what, e := range map[string]*amp.Envelope{"large": large, "broken": broken, "source": source} {
		_, err := d.Check([]bus.Item{{Envelope: event("one", "")}, {Envelope: e}})
		if err == nil || !strings.Contains(err.Error(), e.Payload.Type) {
			t.Errorf("%s: %v", what, err)
		}
		if is := errors.Is(err, journal.ErrTooLarge); is != (what == "large") {
			t.Errorf("%s: too large is %v: %v", what, is, err)
		}
	}
}

func TestADoorThatIsClosedLetsNobodyInAndWaitsForThoseInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDoor()
		if first, second := d.Enter(), d.Enter(); !first || !second {
			t.Fatal("an open door lets nobody in")
		}
		if !d.Close() || d.Close() {
			t.Error("only the first Close finds the door open")
		}
		if d.Enter() {
			t.Error("somebody came in through a closed door")
		}
		<-d.Closing()
		left := d.Left()
		d.Leave()
		synctest.Wait()
		select {
		case <-left:
			t.Error("one is still inside")
		default:
		}
		d.Leave()
		<-left
	})
}

func TestProgressWakesAllWhoWaitUntilTheyHaveWhatTheyWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Progress
		got := make(chan int, 2)
		at := 0
		for _, want := range []int{1, 2} {
			go func() {
				if p.Wait(t.Context(), nil, func() bool { return at >= want }) {
					got <- want
				}
			}()
		}
		for want := 1; want <= 2; want++ {
			synctest.Wait()
			if len(got) > 0 {
				t.Fatalf("somebody woke before %d", want)
			}
			at = want
			p.Announce()
			if woke := <-got; woke != want {
				t.Errorf("at %d the one who waits for %d woke", want, woke)
			}
		}
	})
}

func TestWaitEndsWithItsContextAndWhenItIsStopped(t *testing.T) {
	var p Progress
	never := func() bool { return false }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Wait(ctx, nil, never) {
		t.Error("what never came was there")
	}
	stop := make(chan struct{})
	close(stop)
	if p.Wait(t.Context(), stop, never) {
		t.Error("what never came was there")
	}
}

func TestIDsGivenToRecordsAreRememberedOnlyForAMoment(t *testing.T) {
	j := openJournal(t, t.TempDir())
	d := NewDesk(j, 1<<20, name)
	record := func(id string) (string, bus.Receipt) {
		e := event("one", id)
		drafts, err := d.Check([]bus.Item{{Envelope: e, Route: bus.Journal}})
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := d.Admit(t.Context(), drafts)
		if err != nil {
			t.Fatal(err)
		}
		return e.Header.MessageID, receipts[0]
	}
	id, first := record("")
	if _, again := record(id); again.Status != bus.Duplicate || again.ID != first.ID {
		t.Errorf("published again after an error it is %+v, at first %+v", again, first)
	}
	if other := admit(t, d, event("two", id))[0]; other.ID == id || other.Status == bus.Duplicate {
		t.Errorf("as another app's id it is %+v", other)
	}
	before, _ := j.IDs()
	var g given
	for i := range uint64(3 * maxGiven) {
		var k segment.Key
		binary.LittleEndian.PutUint64(k[:], i+1)
		g.add(k, i, 1)
		if pos, owner, seen := g.lookup(k); !seen || pos != i || owner != 1 {
			t.Fatalf("%d is not remembered", i)
		}
	}
	if len(g.entries) != maxGiven || len(g.ring) != maxGiven {
		t.Errorf("%d remembered", len(g.entries))
	}
	for range 100 {
		record("")
	}
	if after, _ := j.IDs(); after != before {
		t.Errorf("the long memory grew from %d to %d ids", before, after)
	}
	if _, chosen := record("chosen"); chosen.Status == bus.Duplicate {
		t.Errorf("a chosen id is %+v", chosen)
	}
	if after, _ := j.IDs(); after != before+1 {
		t.Errorf("a chosen id of a record is not in the long memory")
	}
}
