package ledger

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/internal/db"
)

func openDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	d, err := db.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func openOn(t testing.TB, d *sql.DB, o Options) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t testing.TB, o Options) *Ledger {
	t.Helper()
	return openOn(t, openDB(t, filepath.Join(t.TempDir(), "policy.db")), o)
}

func call(key string) Call {
	return Call{Key: key, CallID: "id of " + key, Server: "bank", Tool: "pay", Hash: "h", Risk: "high"}
}

// begin expects a key to be new, or to be used with the given state.
func begin(t testing.TB, l *Ledger, key string, want State) *Entry {
	t.Helper()
	e, err := l.Begin(t.Context(), call(key))
	if err != nil {
		t.Fatal(err)
	}
	if (e == nil) != (want == "") || e != nil && e.State != want {
		t.Fatalf("%s: found %+v, want %q", key, e, want)
	}
	return e
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAKeyIsUsedOnceAndTellsWhatCameOfIt(t *testing.T) {
	l := open(t, Options{})
	begin(t, l, "ok", "")
	if e := begin(t, l, "ok", InFlight); !e.Same(call("ok")) {
		t.Errorf("in flight: %+v", e)
	}
	check(t, l.Complete(t.Context(), "ok", Result{Raw: json.RawMessage(`{"n":9007199254740993}`), Ref: json.RawMessage(`{"path":"ab/cd"}`)}))
	e := begin(t, l, "ok", Completed)
	if string(e.Result) != `{"n":9007199254740993}` || string(e.Ref) != `{"path":"ab/cd"}` || e.Size != 22 || len(e.SHA256) != 64 || e.Ended.IsZero() {
		t.Errorf("completed: %+v", e)
	}

	begin(t, l, "no", "")
	check(t, l.Fail(t.Context(), "no", fault.New(fault.Protocol, "it says no")))
	if e := begin(t, l, "no", Failed); e.Fault == nil || e.Fault.Code != fault.Protocol {
		t.Errorf("failed: %+v", e.Fault)
	}

	begin(t, l, "maybe", "")
	check(t, l.Fail(t.Context(), "maybe", fault.New(fault.Timeout, "too late").Unknown()))
	begin(t, l, "maybe", Unknown)

	begin(t, l, "unsent", "")
	check(t, l.Release(t.Context(), "unsent"))
	begin(t, l, "unsent", "")

	if err := l.Complete(t.Context(), "maybe", Result{}); err == nil {
		t.Error("a call that has ended was completed")
	}
	if e, err := l.Find(t.Context(), "maybe"); err != nil || e.State != Unknown {
		t.Errorf("then it is %+v, %v", e, err)
	}
	if e, err := l.Find(t.Context(), "never"); e != nil || err != nil {
		t.Errorf("a key that was not used: %+v, %v", e, err)
	}
}

func TestOfALargeResultTheHashIsKept(t *testing.T) {
	l := open(t, Options{})
	begin(t, l, "k", "")
	raw := json.RawMessage(`"` + strings.Repeat("x", MaxResult) + `"`)
	check(t, l.Complete(t.Context(), "k", Result{Raw: raw, IsError: true}))
	if e := begin(t, l, "k", Completed); e.Result != nil || e.Size != int64(len(raw)) || e.SHA256 == "" || !e.IsError {
		t.Errorf("kept: %d bytes, size %d", len(e.Result), e.Size)
	}
}

func TestAfterARestartACallInFlightIsUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.db")
	first := openDB(t, path)
	l := openOn(t, first, Options{})
	begin(t, l, "cut", "")
	begin(t, l, "done", "")
	check(t, l.Complete(t.Context(), "done", Result{Raw: json.RawMessage(`1`)}))
	check(t, first.Close())
	l = openOn(t, openDB(t, path), Options{})
	begin(t, l, "cut", Unknown)
	begin(t, l, "done", Completed)
}

func TestACallWhoseEndCannotBeWrittenIsUnknown(t *testing.T) {
	d := openDB(t, filepath.Join(t.TempDir(), "policy.db"))
	l := openOn(t, d, Options{})
	begin(t, l, "k", "")
	if _, err := d.Exec("CREATE TRIGGER full BEFORE UPDATE ON calls BEGIN SELECT RAISE(FAIL, 'disk full'); END"); err != nil {
		t.Fatal(err)
	}
	if err := l.Complete(t.Context(), "k", Result{Raw: json.RawMessage(`1`)}); err == nil {
		t.Fatal("it was written")
	}
	begin(t, l, "k", Unknown)
	if e, err := l.Find(t.Context(), "k"); err != nil || e.State != Unknown {
		t.Errorf("found %+v, %v", e, err)
	}
}

func TestACallThatCannotBeRecordedIsNotBegun(t *testing.T) {
	d := openDB(t, filepath.Join(t.TempDir(), "policy.db"))
	l := openOn(t, d, Options{})
	if _, err := d.Exec("CREATE TRIGGER full BEFORE INSERT ON calls BEGIN SELECT RAISE(FAIL, 'disk full'); END"); err != nil {
		t.Fatal(err)
	}
	if e, err := l.Begin(t.Context(), call("k")); err == nil {
		t.Fatalf("begun: %+v", e)
	}
	if _, err := d.Exec("DROP TRIGGER full"); err != nil {
		t.Fatal(err)
	}
	begin(t, l, "k", "")
	if _, err := l.Begin(t.Context(), Call{Server: "bank"}); err == nil {
		t.Error("a call without a key was begun")
	}
}

func TestOfManyCallersWithOneKeyOneMaySend(t *testing.T) {
	l := open(t, Options{})
	var sent atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			e, err := l.Begin(t.Context(), call("k"))
			switch {
			case err != nil:
				t.Error(err)
			case e == nil:
				sent.Add(1)
				if err := l.Complete(t.Context(), "k", Result{Raw: json.RawMessage(`1`)}); err != nil {
					t.Error(err)
				}
			case e.State != InFlight && e.State != Completed:
				t.Errorf("it is %s", e.State)
			}
		})
	}
	wg.Wait()
	if sent.Load() != 1 {
		t.Errorf("%d were sent", sent.Load())
	}
}

func TestWhatCameOfACallIsToldToAllWhoAskAtOnce(t *testing.T) {
	l := open(t, Options{})
	begin(t, l, "k", "")
	check(t, l.Complete(t.Context(), "k", Result{Raw: json.RawMessage(`{"n":1}`)}))
	other := call("k")
	other.Hash = "of something else"
	var askers sync.WaitGroup
	for i := range 8 {
		askers.Go(func() {
			for range 50 {
				c := call("k")
				if i%4 == 0 {
					c = other // finds that the key was used, and does not get in the way of those who may know
				}
				e, err := l.Begin(t.Context(), c)
				if i%4 == 1 {
					e, err = l.Find(t.Context(), "k")
				}
				if err != nil || e == nil || e.State != Completed || !e.Same(call("k")) {
					t.Errorf("found %+v (%v)", e, err)
					return
				}
			}
		})
	}
	askers.Wait()
}

func TestWhatIsOldIsForgottenAndWhatIsInFlightIsNot(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := open(t, Options{Keep: time.Hour, MaxEntries: 3, Now: func() time.Time { return now }})
	begin(t, l, "running", "")
	for i := range 5 {
		now = now.Add(time.Minute)
		key := fmt.Sprint(i)
		begin(t, l, key, "")
		check(t, l.Complete(t.Context(), key, Result{}))
	}
	check(t, l.Prune(t.Context()))
	for key, want := range map[string]bool{"0": false, "1": false, "2": true, "4": true, "running": true} {
		if e, err := l.Find(t.Context(), key); (e != nil) != want || err != nil {
			t.Errorf("%s is kept: %v (%v)", key, e != nil, err)
		}
	}
	now = now.Add(2 * time.Hour)
	check(t, l.Prune(t.Context()))
	if e, _ := l.Find(t.Context(), "4"); e != nil {
		t.Error("an entry outlived its time")
	}
	begin(t, l, "running", InFlight)
}

func BenchmarkBeginComplete(b *testing.B) {
	l := open(b, Options{})
	for i := 0; b.Loop(); i++ {
		key := fmt.Sprint(i)
		begin(b, l, key, "")
		check(b, l.Complete(b.Context(), key, Result{Raw: json.RawMessage(`{}`)}))
	}
}
