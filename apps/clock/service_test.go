package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/apps/clock/walltime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a running service and everything that rang.
type desk struct {
	*Service
	opt  Options
	stop func() // ends Run and waits for it

	mu      sync.Mutex
	rings   []Ring
	changes int
	refuse  error         // what Ring answers
	ahead   time.Duration // of the wall clock
}

// open starts a service in dir, at the time it is plus ahead.
func open(t *testing.T, dir string, ahead time.Duration) *desk {
	t.Helper()
	d := &desk{ahead: ahead}
	d.opt = Options{
		Dir: dir, Zone: "Europe/Berlin",
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Now: func() time.Time {
			d.mu.Lock()
			defer d.mu.Unlock()
			return time.Now().Add(d.ahead)
		},
		Changed: func() { d.mu.Lock(); d.changes++; d.mu.Unlock() },
		Ring: func(_ context.Context, r Ring) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.refuse == nil {
				d.rings = append(d.rings, r)
			}
			return d.refuse
		},
	}
	var err error
	if d.Service, err = Open(d.opt); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go d.Run(ctx)
	d.stop = func() { cancel(); <-d.done }
	t.Cleanup(d.stop)
	return d
}

func (d *desk) rung() []Ring {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Ring(nil), d.rings...)
}

func (d *desk) set(refuse error, jump time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = refuse
	d.ahead += jump
}

func (d *desk) timer(t *testing.T, length string) Item {
	t.Helper()
	it, err := d.AddTimer(t.Context(), length, "tea", "s1")
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func (d *desk) alarm(t *testing.T, text string) Item {
	t.Helper()
	it, err := d.AddAlarm(t.Context(), walltime.Request{Text: text}, "up", "")
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// until is the way from the fake clock's start, 2000-01-01, to a later day.
func until(t *testing.T, s string) time.Duration { return time.Until(instant(t, s)) }

func TestATimerRingsOnceWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir(), 0)
		it := d.timer(t, "25m")
		time.Sleep(25*time.Minute - time.Millisecond)
		synctest.Wait()
		if got := d.rung(); len(got) != 0 {
			t.Fatalf("it rang early: %+v", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []Ring{{ID: it.ID, Kind: "timer", Label: "tea", SessionID: "s1", DueAt: it.DueAt, RungAt: it.DueAt}}
		if diff := cmp.Diff(want, d.rung()); diff != "" {
			t.Errorf("what rang (-want +got):\n%s", diff)
		}
		if items, err := d.List(t.Context(), ""); err != nil || len(items) != 0 {
			t.Errorf("still active: %v, %v", items, err)
		}
		if d.changes != 2 {
			t.Errorf("%d changes, want one for setting and one for ringing", d.changes)
		}
	})
}

func TestADailyAlarmKeepsToTheWallClockThroughDaylightSaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir(), until(t, "2026-03-27T12:00:00+01:00"))
		d.alarm(t, "每天 02:30")
		time.Sleep(4 * 24 * time.Hour)
		synctest.Wait()
		var got []string
		for _, r := range d.rung() {
			if r.Late || r.Missed != 0 || r.NextDueAt == nil {
				t.Errorf("on time, and yet %+v", r)
			}
			got = append(got, r.DueAt.Format(time.RFC3339))
		}
		want := []string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rings (-want +got):\n%s", diff)
		}
	})
}

func TestWhatCameDueWhileDownRingsLateAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		start := until(t, "2026-06-01T12:00:00+02:00")
		d := open(t, dir, start)
		timer := d.timer(t, "10m")
		daily := d.alarm(t, "每天 07:30")
		once := d.alarm(t, "2026-06-03 08:00")
		d.stop()

		down := 3*24*time.Hour + time.Hour // until the 4th, 13:00
		d = open(t, dir, start+down)
		synctest.Wait()
		now := daily.CreatedAt.Add(down)
		firstDue, nextDue := daily.DueAt, instant(t, "2026-06-05T07:30:00+02:00")
		late := func(it Item, due time.Time, missed int) Ring {
			return Ring{ID: it.ID, Kind: it.Kind, Label: it.Label, SessionID: it.SessionID, DueAt: due, RungAt: now, Late: true, LateByMS: now.Sub(due).Milliseconds(), Missed: missed}
		}
		repeated := late(daily, instant(t, "2026-06-04T07:30:00+02:00"), 3)
		repeated.FirstDueAt, repeated.NextDueAt, repeated.Repeat = &firstDue, &nextDue, walltime.Daily
		single := late(once, once.DueAt, 1)
		single.Repeat = walltime.Once
		want := []Ring{late(timer, timer.DueAt, 1), repeated, single}
		if diff := cmp.Diff(want, d.rung(), cmpopts.EquateApproxTime(time.Second), cmpopts.IgnoreFields(Ring{}, "LateByMS")); diff != "" {
			t.Errorf("what rang at the start (-want +got):\n%s", diff)
		}
		for i, r := range d.rung() {
			if off := r.LateByMS - want[i].LateByMS; off < -1000 || off > 1000 {
				t.Errorf("%s is late by %d ms, want %d", r.ID, r.LateByMS, want[i].LateByMS)
			}
		}
		time.Sleep(20 * time.Hour) // the 5th, 09:00
		synctest.Wait()
		rest := d.rung()[3:]
		if len(rest) != 1 || !rest[0].DueAt.Equal(nextDue) || rest[0].Late {
			t.Errorf("afterwards: %+v", rest)
		}
	})
}

func TestATimerDueAMomentBeforeTheStartIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := open(t, dir, 0)
		d.timer(t, "10s")
		d.stop()
		time.Sleep(10*time.Second + 5*time.Millisecond)
		d = open(t, dir, 0)
		synctest.Wait()
		if got := d.rung(); len(got) != 1 || !got[0].Late || got[0].Missed != 1 || got[0].LateByMS > 5 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestACrashAtTheHandoverRepeatsTheSameRingUnderTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, crashed := t.TempDir(), t.TempDir()
		d := open(t, dir, 0)
		d.alarm(t, "every day 02:30")
		ring := d.opt.Ring
		d.stop()
		opt := d.opt
		opt.Ring = func(ctx context.Context, r Ring) error {
			// What a process that dies here leaves behind.
			raw, err := os.ReadFile(filepath.Join(dir, stateFile))
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(filepath.Join(crashed, stateFile), raw, 0o600), ring(ctx, r))
		}
		s, err := Open(opt)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		cancel()
		<-s.done

		time.Sleep(3 * 24 * time.Hour)
		again := open(t, crashed, 0)
		synctest.Wait()
		before, after := d.rung(), again.rung()
		if len(before) != 1 || len(after) < 1 {
			t.Fatalf("rang %d times, and %d after the crash", len(before), len(after))
		}
		if diff := cmp.Diff(before[0], after[0]); diff != "" || before[0].Key() != after[0].Key() {
			t.Errorf("the ring changed through the crash (-before +after):\n%s", diff)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if after = again.rung(); len(after) != 2 || after[1].Missed != 3 || after[1].Key() == after[0].Key() {
			t.Errorf("the days after it: %+v", after[1:])
		}
	})
}

func TestARingThatIsRefusedWaitsAndKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := open(t, dir, 0)
		d.set(errors.New("the outbox is full"), 0)
		for i := range 3 {
			d.timer(t, fmt.Sprintf("%ds", i+1))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		d.stop()
		if st, err := load(dir); err != nil || len(st.Rings) != 3 || len(st.Items) != 0 {
			t.Fatalf("on disk: %+v, %v", st, err)
		}
		d = open(t, dir, 0)
		d.set(nil, 0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var got []string
		for _, r := range d.rung() {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff([]string{"timer-1", "timer-2", "timer-3"}, got); diff != "" {
			t.Errorf("rings (-want +got):\n%s", diff)
		}
		if st, err := load(dir); err != nil || len(st.Rings) != 0 {
			t.Errorf("on disk afterwards: %+v, %v", st, err)
		}
	})
}

func TestAlarmsFollowTheWallClockAndTimersTheirLengthWhenItIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir(), until(t, "2026-06-01T12:00:00+02:00"))
		timer := d.timer(t, "10m")
		d.alarm(t, "every day 14:00")

		d.set(nil, -24*time.Hour) // May 31st, 12:00
		time.Sleep(time.Minute)
		synctest.Wait()
		items, err := d.List(t.Context(), "")
		if err != nil || len(items) != 2 {
			t.Fatal(items, err)
		}
		if got := items[0]; got.ID != timer.ID || got.RemainingSeconds != 9*60 {
			t.Errorf("set back, the timer has %d s to go, want %d", got.RemainingSeconds, 9*60)
		}
		if want := instant(t, "2026-05-31T14:00:00+02:00"); !items[1].DueAt.Equal(want) {
			t.Errorf("set back, the alarm is due at %s, want %s", items[1].DueAt, want)
		}

		d.set(nil, 48*time.Hour+3*time.Hour) // June 2nd, 15:01
		time.Sleep(time.Minute)
		synctest.Wait()
		rings := d.rung()
		if len(rings) != 2 || !rings[0].Late || !rings[1].Late || rings[1].Missed != 3 {
			t.Errorf("set forward: %+v", rings)
		}
	})
}

func TestAnInstantThatRangDoesNotRingAgainWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir(), until(t, "2026-06-01T12:00:00+02:00"))
		d.alarm(t, "every day 12:10")
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		d.set(nil, -5*time.Minute)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := d.rung(); len(got) != 1 {
			t.Errorf("rang %d times: %+v", len(got), got)
		}
	})
}

func TestAChangeThatCannotBeStoredFailsAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		d := open(t, dir, 0)
		kept := d.timer(t, "1h")
		if err := os.Rename(dir, dir+".gone"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.AddTimer(t.Context(), "5m", "", ""); code(err) != "CLOCK_STORAGE" || strings.Contains(err.Error(), dir) {
			t.Errorf("setting: got %v", err)
		}
		if _, err := d.Cancel(t.Context(), kept.ID); code(err) != "CLOCK_STORAGE" {
			t.Errorf("cancelling: got %v", err)
		}
		if items, err := d.List(t.Context(), ""); err != nil || len(items) != 1 || items[0].ID != kept.ID {
			t.Errorf("active: %v, %v", items, err)
		}
		// What rings meanwhile still rings, once, and is written down later.
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := d.rung(); len(got) != 1 {
			t.Errorf("rang %d times without storage", len(got))
		}
		if err := os.Rename(dir+".gone", dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		d.stop()
		if st, err := load(dir); err != nil || len(st.Items)+len(st.Rings) != 0 {
			t.Errorf("on disk: %+v, %v", st, err)
		}
	})
}

func TestAStateThatCannotBeReadIsRefusedAndKept(t *testing.T) {
	for _, text := range []string{"", "{", `{"version": 9}`} {
		dir := t.TempDir()
		path := filepath.Join(dir, stateFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Dir: dir, Zone: "UTC"}); err == nil {
			t.Errorf("%q was taken for a state", text)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != text {
			t.Errorf("%q became %q, %v", text, kept, err)
		}
	}
}

func TestTwoClocksDoNotShareAFolder(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, 0)
	if _, err := Open(d.opt); err == nil || !strings.Contains(err.Error(), "another clock") {
		t.Errorf("a second clock: %v", err)
	}
	d.stop()
	open(t, dir, 0)
}

func TestThereIsALimitToWhatIsActive(t *testing.T) {
	dir := t.TempDir()
	st := &state{Version: 1, LastID: maxActive}
	for i := range maxActive - 1 {
		st.Items = append(st.Items, Item{ID: fmt.Sprintf("timer-%d", i), Kind: kindTimer, DueAt: time.Now().Add(time.Hour), DurationMS: 7_200_000})
	}
	if err := st.save(dir); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir, 0)
	last := d.timer(t, "1h")
	if _, err := d.AddTimer(t.Context(), "1h", "", ""); code(err) != "CLOCK_LIMIT" {
		t.Errorf("one too many: %v", err)
	}
	if _, err := d.Cancel(t.Context(), last.ID); err != nil {
		t.Error(err)
	}
	if next := d.timer(t, "1h"); next.ID == last.ID {
		t.Errorf("the number %s was given twice", next.ID)
	}
}

func TestWhatIsNotActiveCannotBeCancelled(t *testing.T) {
	d := open(t, t.TempDir(), 0)
	it := d.timer(t, "1h")
	if was, err := d.Cancel(t.Context(), it.ID); err != nil || was.ID != it.ID {
		t.Errorf("got %v, %v", was, err)
	}
	for _, id := range []string{it.ID, "", "timer-99"} {
		if _, err := d.Cancel(t.Context(), id); code(err) != "CLOCK_NOT_FOUND" {
			t.Errorf("%q: got %v", id, err)
		}
	}
}

func TestALabelIsCleanedAndBounded(t *testing.T) {
	d := open(t, t.TempDir(), 0)
	it, err := d.AddTimer(t.Context(), "1h", " a\nb\x00c ", "")
	if err != nil || it.Label != "a b c" {
		t.Errorf("got %q, %v", it.Label, err)
	}
	long := make([]rune, maxLabel+1)
	for i := range long {
		long[i] = '茶'
	}
	if _, err := d.AddTimer(t.Context(), "1h", string(long), ""); code(err) != "CLOCK_INVALID_ARGUMENT" {
		t.Errorf("a long label: %v", err)
	}
	if _, err := d.AddTimer(t.Context(), "1h", string(long[1:]), ""); err != nil {
		t.Errorf("the longest label: %v", err)
	}
}

func TestManyMayAskAtOnce(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, 0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				it, err := d.AddTimer(t.Context(), "1h", "", "")
				if err != nil {
					t.Error(err)
				}
				if _, err := d.List(t.Context(), ""); err != nil {
					t.Error(err)
				}
				d.timer(t, "2h")
				if _, err := d.Cancel(t.Context(), it.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	d.stop()
	if st, err := load(dir); err != nil || len(st.Items) != 40 || st.LastID != 80 {
		t.Errorf("on disk: %d items, last id %d, %v", len(st.Items), st.LastID, err)
	}
	if _, err := d.List(t.Context(), ""); code(err) != "CLOCK_STOPPED" {
		t.Errorf("after the end: %v", err)
	}
}

func TestTheTimeIsToldInAnyZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir(), until(t, "2026-06-01T12:00:00+02:00"))
		own, err := d.Time("")
		want := Time{Local: "2026-06-01T12:00:00+02:00", UTC: "2026-06-01T10:00:00Z", Weekday: "Monday", Timezone: "Europe/Berlin", Offset: "+02:00", DST: true, UnixMS: 1780308000000}
		if diff := cmp.Diff(want, own); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		there, err := d.Time("Asia/Shanghai")
		if err != nil || there.Local != "2026-06-01T18:00:00+08:00" || there.DST {
			t.Errorf("got %+v, %v", there, err)
		}
		if _, err := d.Time("Mars"); code(err) != "CLOCK_UNKNOWN_TIMEZONE" {
			t.Errorf("got %v", err)
		}
	})
}
