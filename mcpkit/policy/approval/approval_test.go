package approval

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func open(t testing.TB, o Options) *Desk {
	t.Helper()
	return openOn(t, openDB(t, filepath.Join(t.TempDir(), "policy.db")), o)
}

func openOn(t testing.TB, d *sql.DB, o Options) *Desk {
	t.Helper()
	desk, err := Open(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	return desk
}

var send = Call{Server: "mail", Tool: "send", Hash: "h1", Definition: "d1", Causes: 1}

func question(c Call) Question {
	return Question{Call: c, Arguments: json.RawMessage(`{"to":"x"}`), Reason: "because", Risk: "high", CallID: "c1"}
}

// ask asks about c and expects no answer yet.
func ask(t testing.TB, d *Desk, c Call) Approval {
	t.Helper()
	a, granted, err := d.Ask(t.Context(), question(c))
	if err != nil || granted || a.State != Pending {
		t.Fatalf("asking: %s, granted %v, %v", a.State, granted, err)
	}
	return a
}

func approve(t testing.TB, d *Desk, id string, s Scope) {
	t.Helper()
	if _, err := d.Approve(t.Context(), id, s, "anna"); err != nil {
		t.Fatal(err)
	}
}

func TestAnApprovalIsForOneCallAndNoOther(t *testing.T) {
	for _, scope := range []Scope{Once, Session, Always} {
		d := open(t, Options{})
		a := ask(t, d, send)
		approve(t, d, a.ID, scope)
		for what, other := range map[string]func(*Call){
			"other arguments":         func(c *Call) { c.Hash = "h2" },
			"another tool":            func(c *Call) { c.Tool = "delete" },
			"another server":          func(c *Call) { c.Server = "post" },
			"another definition":      func(c *Call) { c.Definition = "d2" },
			"one more reason":         func(c *Call) { c.Causes = 1 | 4 },
			"another reason":          func(c *Call) { c.Causes = 2 },
			"names that run together": func(c *Call) { c.Server, c.Tool = "mails", "end" },
		} {
			c := send
			other(&c)
			if _, err := d.Use(t.Context(), a.ID, c); !errors.Is(err, ErrOther) {
				t.Errorf("%s, %s: Use says %v", scope, what, err)
			}
			if b, granted, err := d.Ask(t.Context(), question(c)); granted || b.ID == a.ID || err != nil {
				t.Errorf("%s, %s: Ask found %s, granted %v, %v", scope, what, b.ID, granted, err)
			}
		}
		if got, err := d.Use(t.Context(), a.ID, send); err != nil || got.Actor != "anna" {
			t.Errorf("%s: the call itself: %v", scope, err)
		}
	}
}

func TestWhoMayApproveCallsOnceUnlessAnAnswerStands(t *testing.T) {
	d := open(t, Options{MaxPending: 1})
	others := ask(t, d, send)
	grant := func() (Approval, bool) {
		t.Helper()
		a, granted, err := d.Grant(t.Context(), question(send), "ada")
		if err != nil {
			t.Fatal(err)
		}
		return a, granted
	}
	a, granted := grant()
	if kept, err := d.Show(t.Context(), a.ID); !granted || err != nil || kept.State != Used || kept.Scope != Once || kept.Actor != "ada" || kept.Decided.IsZero() || a.ID == others.ID {
		t.Fatalf("granted %v: %+v, %v", granted, kept, err)
	}
	if _, err := d.Use(t.Context(), a.ID, send); !errors.Is(err, ErrDecided) {
		t.Errorf("it can be used once more: %v", err)
	}
	if still, err := d.Show(t.Context(), others.ID); err != nil || still.State != Pending {
		t.Errorf("the question of others is %s, %v", still.State, err)
	}
	approve(t, d, others.ID, Once)
	if a, granted := grant(); !granted || a.ID != others.ID || a.State != Used || a.Actor != "anna" {
		t.Errorf("an answer that waits to be used: granted %v, %+v", granted, a)
	}
	denied := ask(t, d, send)
	if _, err := d.Deny(t.Context(), denied.ID, "", "no"); err != nil {
		t.Fatal(err)
	}
	if a, granted := grant(); granted || a.ID != denied.ID || a.State != Denied || a.Actor != Somebody {
		t.Errorf("what was denied: granted %v, %+v", granted, a)
	}
	if _, err := d.Revoke(t.Context(), denied.ID, "bob"); err != nil {
		t.Fatal(err)
	}
	standing := ask(t, d, send)
	approve(t, d, standing.ID, Always)
	if a, granted := grant(); !granted || a.ID != standing.ID || a.State != Approved {
		t.Errorf("what stands: granted %v, %+v", granted, a)
	}
}

func TestOnceIsOnceHoweverManyTry(t *testing.T) {
	d := open(t, Options{})
	a := ask(t, d, send)
	approve(t, d, a.ID, Once)
	var used atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if i%2 == 0 {
				if _, err := d.Use(t.Context(), a.ID, send); err == nil {
					used.Add(1)
				} else if !errors.Is(err, ErrDecided) {
					t.Error(err)
				}
				return
			}
			switch _, granted, err := d.Ask(t.Context(), question(send)); {
			case err != nil:
				t.Error(err)
			case granted:
				used.Add(1)
			}
		})
	}
	wg.Wait()
	if used.Load() != 1 {
		t.Errorf("it was used %d times", used.Load())
	}
	if got, _ := d.Show(t.Context(), a.ID); got.State != Used {
		t.Errorf("it is %s", got.State)
	}
}

func TestAQuestionIsOpenOnceAndItsAnswerWakesAllWhoWait(t *testing.T) {
	d := open(t, Options{})
	a := ask(t, d, send)
	if b := ask(t, d, send); b.ID != a.ID {
		t.Errorf("the same question is open twice: %s and %s", a.ID, b.ID)
	}
	results := make(chan Approval, 3)
	for range cap(results) {
		go func() {
			got, err := d.Wait(t.Context(), a.ID)
			if err != nil {
				t.Error(err)
			}
			results <- got
		}()
	}
	if _, err := d.Deny(t.Context(), a.ID, "anna", "not today"); err != nil {
		t.Fatal(err)
	}
	for range cap(results) {
		if got := <-results; got.State != Denied || got.Note != "not today" || got.Actor != "anna" {
			t.Errorf("a waiter got %+v", got)
		}
	}
	// The same question finds the denial, and no other does.
	if got, granted, err := d.Ask(t.Context(), question(send)); got.State != Denied || granted || err != nil {
		t.Errorf("asked again: %s, %v", got.State, err)
	}
	if _, err := d.Approve(t.Context(), a.ID, Once, "bob"); !errors.Is(err, ErrDecided) {
		t.Errorf("approving what is denied: %v", err)
	}
	if _, err := d.Revoke(t.Context(), a.ID, "anna"); err != nil {
		t.Fatal(err)
	}
	ask(t, d, send)
	if len(d.waiters) != 0 {
		t.Errorf("%d waiters are left", len(d.waiters))
	}
}

func TestWhatNobodyAnswersExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Options{Expire: time.Hour})
		a := ask(t, d, send)
		start := time.Now()
		got, err := d.Wait(t.Context(), a.ID)
		if err != nil || got.State != Expired || time.Since(start) < time.Hour {
			t.Errorf("%s after %s, %v", got.State, time.Since(start), err)
		}
		if _, err := d.Approve(t.Context(), a.ID, Always, "anna"); !errors.Is(err, ErrDecided) {
			t.Errorf("approving what has expired: %v", err)
		}
		// So does an answer that nobody used; a standing one does not.
		once, always := ask(t, d, send), Call{Server: "mail", Tool: "read", Definition: "d"}
		approve(t, d, once.ID, Once)
		approve(t, d, ask(t, d, always).ID, Always)
		time.Sleep(time.Hour)
		if _, err := d.Use(t.Context(), once.ID, send); !errors.Is(err, ErrDecided) {
			t.Errorf("using what has expired: %v", err)
		}
		time.Sleep(1000 * time.Hour)
		if _, granted, err := d.Ask(t.Context(), question(always)); !granted || err != nil {
			t.Errorf("a standing approval: granted %v, %v", granted, err)
		}
	})
}

func TestWaitingEndsWithItsCallerAndTheQuestionStays(t *testing.T) {
	d := open(t, Options{})
	a := ask(t, d, send)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := d.Wait(ctx, a.ID); !errors.Is(err, context.Canceled) || got.State != Pending {
		t.Errorf("%s, %v", got.State, err)
	}
	approve(t, d, a.ID, Once)
	if _, granted, err := d.Ask(ctx, question(send)); !granted || err != nil {
		t.Errorf("granted %v, %v", granted, err)
	}
}

func TestARestartKeepsQuestionsAndAnswersAndEndsTheSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.db")
	calls := map[Scope]Call{}
	ids := map[Scope]string{}
	first := openDB(t, path)
	d := openOn(t, first, Options{})
	for _, s := range []Scope{"", Once, Session, Always} {
		c := send
		c.Hash = "hash of " + string(s)
		calls[s], ids[s] = c, ask(t, d, c).ID
		if s != "" {
			approve(t, d, ids[s], s)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	d = openOn(t, openDB(t, path), Options{})
	for s, want := range map[Scope]State{"": Pending, Once: Approved, Session: Expired, Always: Approved} {
		if a, err := d.Show(t.Context(), ids[s]); err != nil || a.State != want || a.Reason != "because" {
			t.Errorf("%q is %s, want %s (%v)", s, a.State, want, err)
		}
		_, granted, err := d.Ask(t.Context(), question(calls[s]))
		if granted != (want == Approved) || err != nil {
			t.Errorf("%q: granted %v, %v", s, granted, err)
		}
	}
}

func TestAFullDeskRefusesAndKeepsWhatItHas(t *testing.T) {
	d := open(t, Options{MaxPending: 3})
	for i := range 3 {
		c := send
		c.Hash = fmt.Sprint(i)
		ask(t, d, c)
	}
	_, _, err := d.Ask(t.Context(), question(send))
	if f := fault.From(err); f.Code != fault.Busy || !f.Retryable {
		t.Errorf("got %v", err)
	}
	list, err := d.List(t.Context(), Pending)
	if err != nil || len(list) != 3 || list[0].Hash != "2" {
		t.Errorf("%d are open, %v", len(list), err)
	}
	if _, err := d.Deny(t.Context(), list[0].ID, "anna", ""); err != nil {
		t.Fatal(err)
	}
	ask(t, d, send)
}

func TestArgumentsAreShownWithoutSecretsAndLongOnesCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.db")
	d := openOn(t, openDB(t, path), Options{Redact: func(b json.RawMessage) json.RawMessage {
		return json.RawMessage(strings.ReplaceAll(string(b), "hunter2", "[removed]"))
	}})
	q := question(send)
	q.Arguments = json.RawMessage(`{"password":"hunter2","n":9007199254740993}`)
	a, _, err := d.Ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := d.Show(t.Context(), a.ID); string(got.Arguments) != `{"password":"[removed]","n":9007199254740993}` {
		t.Errorf("shown: %s", got.Arguments)
	}
	q.Arguments = json.RawMessage(`{"x":"` + strings.Repeat("字", MaxArguments) + `"}`)
	q.Hash = "long"
	if a, _, err = d.Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	var beginning string
	got, err := d.Show(t.Context(), a.ID)
	if err != nil || !got.Cut || got.Size != int64(len(q.Arguments)) || json.Unmarshal(got.Arguments, &beginning) != nil ||
		!strings.HasPrefix(string(q.Arguments), beginning) || len(beginning) < MaxArguments-4 {
		t.Errorf("cut is %v, size %d, %d bytes are shown, %v", got.Cut, got.Size, len(beginning), err)
	}
}

func TestOldQuestionsAreForgottenAndStandingAnswersAreNot(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	d := open(t, Options{Now: func() time.Time { return now }, Expire: time.Minute})
	approve(t, d, ask(t, d, send).ID, Always)
	_, err := d.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 3000)
		INSERT INTO approvals (id, state, server, tool, hash, definition, causes, arguments, cut, size, reason, risk, entrance, call_id, created, expires)
		SELECT printf('0%025d', i), 'denied', 's', 't', i, '', 1, x'7b7d', 0, 2, '', '', '', '', 0, 1 FROM n`)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sweepAll {
		c := send
		c.Tool = fmt.Sprint(i)
		ask(t, d, c)
	}
	all, err := d.List(t.Context())
	if err != nil || len(all) > MaxHistory+sweepAll+1 {
		t.Errorf("%d are kept, %v", len(all), err)
	}
	if _, granted, err := d.Ask(t.Context(), question(send)); !granted || err != nil {
		t.Errorf("the standing approval: granted %v, %v", granted, err)
	}
}

func TestWhatIsNotThereIsSaidToBe(t *testing.T) {
	d := open(t, Options{})
	for what, err := range map[string]error{
		"Show":    second(d.Show(t.Context(), "x")),
		"Approve": second(d.Approve(t.Context(), "x", Once, "anna")),
		"Deny":    second(d.Deny(t.Context(), "x", "anna", "")),
		"Revoke":  second(d.Revoke(t.Context(), "x", "anna")),
		"Use":     second(d.Use(t.Context(), "x", send)),
		"Wait":    second(d.Wait(t.Context(), "x")),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := d.Approve(t.Context(), "x", "forever", "anna"); fault.From(err).Code != fault.InvalidArguments {
		t.Errorf("a scope that is none: %v", err)
	}
}

func second(_ Approval, err error) error { return err }
