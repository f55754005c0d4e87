package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/appkit/appkittest"
)

func TestTheAppKeepsItsContract(t *testing.T) {
	appkittest.CheckContract(t, appkittest.Start(t, manifest, setup), manifest)
}

func TestATimerIsSetListedAndRingsAsAnEvent(t *testing.T) {
	s := appkittest.Start(t, manifest, setup)
	it := appkittest.Call[Item](t, s, "create_timer", map[string]any{"seconds": 1, "label": "茶", "session_id": "group_1"})
	list := appkittest.Call[listed](t, s, "list_timers", map[string]any{"kind": "timer"})
	if list.Total != 1 || list.Items[0].ID != it.ID {
		t.Errorf("listed %+v, want %s", list, it.ID)
	}
	e := s.Events.Wait(t, "timer.triggered")
	var r Ring
	e.Decode(t, &r)
	if r.ID != it.ID || r.Label != "茶" || !r.DueAt.Equal(it.DueAt) || e.SessionID != "group_1" || e.Key != r.Key() {
		t.Errorf("got %+v in %+v", r, e)
	}
}

func TestAnAlarmIsSetAndCancelled(t *testing.T) {
	s := appkittest.Start(t, manifest, setup, appkittest.Settings(map[string]any{"timezone": "Asia/Shanghai"}))
	it := appkittest.Call[Item](t, s, "create_alarm", map[string]any{"time": "每周一三五 07:30"})
	if it.DueAt.Format("15:04 -07:00") != "07:30 +08:00" || strings.Join(it.Rule.Days, " ") != "mon wed fri" {
		t.Errorf("got %+v", it)
	}
	if was := appkittest.Call[Item](t, s, "cancel_timer", map[string]any{"id": it.ID}); was.ID != it.ID {
		t.Errorf("cancelled %+v", was)
	}
	if list := appkittest.Call[listed](t, s, "list_timers", nil); list.Total != 0 || list.Items == nil {
		t.Errorf("still there: %+v", list)
	}
	if got := appkittest.Call[Time](t, s, "get_time", nil); got.Timezone != "Asia/Shanghai" || got.Offset != "+08:00" {
		t.Errorf("the time in the configured zone: %+v", got)
	}
}

func TestWhatCannotBeDoneIsAStructuredFailure(t *testing.T) {
	s := appkittest.Start(t, manifest, setup)
	for _, tt := range []struct {
		tool string
		args map[string]any
		code string
	}{
		{"get_time", map[string]any{"timezone": "Mars/Base"}, "CLOCK_UNKNOWN_TIMEZONE"},
		{"create_timer", map[string]any{}, "CLOCK_INVALID_DURATION"},
		{"create_timer", map[string]any{"duration": "soon"}, "CLOCK_INVALID_DURATION"},
		{"create_timer", map[string]any{"duration": "5m", "seconds": 300}, "CLOCK_INVALID_DURATION"},
		{"create_alarm", map[string]any{"time": "25:00"}, "CLOCK_INVALID_TIME"},
		{"create_alarm", map[string]any{"time": "2001-01-01 07:30"}, "CLOCK_INVALID_TIME"},
		{"create_alarm", map[string]any{"time": "07:30", "timezone": "Nowhere"}, "CLOCK_UNKNOWN_TIMEZONE"},
		{"cancel_timer", map[string]any{"id": "timer-99"}, "CLOCK_NOT_FOUND"},
	} {
		if e := appkittest.CallFails(t, s, tt.tool, tt.args); e.Code != tt.code || e.Retryable || e.Message == "" {
			t.Errorf("%s %v: got %+v, want %s", tt.tool, tt.args, e, tt.code)
		}
	}
	for tool, args := range map[string]map[string]any{
		"create_timer": {"seconds": 0.5},
		"create_alarm": {"repeat": "daily"},
		"list_timers":  {"limit": 0},
		"cancel_timer": {"id": 12},
		"get_time":     {"zone": "UTC"},
	} {
		appkittest.CallRefused(t, s, tool, args)
	}
}

func TestTheResourceShowsWhatIsActiveAndSaysWhenThatChanges(t *testing.T) {
	for _, version := range []string{"2025-11-25", ""} {
		s := appkittest.Start(t, manifest, setup, appkittest.Protocol(version))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Client.Subscribe(ctx, &mcp.SubscribeParams{URI: resourceURI}); err != nil {
			t.Fatal(err)
		}
		it := appkittest.Call[Item](t, s, "create_timer", map[string]any{"duration": "1h"})
		s.Events.WaitUpdated(t, resourceURI, 1)
		var list listed
		s.ReadJSON(t, resourceURI, &list)
		if list.Total != 1 || list.Items[0].ID != it.ID || list.Items[0].RemainingSeconds == 0 {
			t.Errorf("%s: got %+v", version, list)
		}
		appkittest.Call[Item](t, s, "cancel_timer", map[string]any{"id": it.ID})
		s.Events.WaitUpdated(t, resourceURI, 2)
	}
}

func TestATimerDueWhileTheProgramWasKilledRingsLate(t *testing.T) {
	program, dir := appkittest.Build(t, "."), t.TempDir()
	s := appkittest.StartBinary(t, program, appkittest.DataDir(dir))
	it := appkittest.Call[Item](t, s, "create_timer", map[string]any{"seconds": 1.5, "label": "tea"})
	s.Kill(t)
	<-time.After(time.Until(it.DueAt))

	s = appkittest.StartBinary(t, program, appkittest.DataDir(dir), appkittest.Silent())
	e := s.Events.Wait(t, "timer.triggered")
	var r Ring
	e.Decode(t, &r)
	if r.ID != it.ID || !r.Late || r.Missed != 1 || !r.DueAt.Equal(it.DueAt) {
		t.Errorf("got %+v", r)
	}
	s.Kill(t) // before anybody acknowledged it

	s = appkittest.StartBinary(t, program, appkittest.DataDir(dir))
	if again := s.Events.Wait(t, "timer.triggered"); again.ID != e.ID || again.Key != e.Key {
		t.Errorf("sent again as %+v, first as %+v", again, e)
	}
}

func TestEveryTimerThatWasConfirmedOutlivesAKill(t *testing.T) {
	program, dir := appkittest.Build(t, "."), t.TempDir()
	confirmed := map[string]bool{}
	for round := range 6 {
		s := appkittest.StartBinary(t, program, appkittest.DataDir(dir))
		list := appkittest.Call[listed](t, s, "list_timers", map[string]any{"limit": 1000})
		for _, it := range list.Items {
			delete(confirmed, it.ID)
		}
		if len(confirmed) > 0 {
			t.Fatalf("round %d: lost %v", round, confirmed)
		}
		for _, it := range list.Items {
			confirmed[it.ID] = true
		}
		var (
			mu      sync.Mutex
			setters sync.WaitGroup
			first   = make(chan struct{}, 64)
		)
		for range 4 {
			setters.Go(func() {
				for {
					res, err := s.CallRaw("create_timer", map[string]any{"duration": "1h"})
					if err != nil {
						return // killed
					}
					data, _ := res.StructuredContent.(map[string]any)["data"].(map[string]any)
					id, _ := data["id"].(string)
					if id == "" {
						t.Errorf("no id in %v", res.StructuredContent)
						return
					}
					mu.Lock()
					confirmed[id] = true
					mu.Unlock()
					select {
					case first <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 1 + rand.IntN(30) {
			<-first
		}
		s.Kill(t)
		setters.Wait()
	}
}

func TestEveryTimerRingsUnderOneKeyHoweverOftenTheProgramIsKilled(t *testing.T) {
	program, dir := appkittest.Build(t, "."), t.TempDir()
	set, rang := map[string]bool{}, map[string]map[string]bool{} // by timer; of message ids
	collect := func(s *appkittest.Session) {
		for _, e := range s.Events.All() {
			var r Ring
			e.Decode(t, &r)
			if rang[r.ID] == nil {
				rang[r.ID] = map[string]bool{}
			}
			rang[r.ID][e.ID] = true
		}
	}
	for range 4 {
		// Nothing is acknowledged, so all that ever rang is sent in each session.
		s := appkittest.StartBinary(t, program, appkittest.DataDir(dir), appkittest.Silent())
		var last Item
		for i := range 20 {
			last = appkittest.Call[Item](t, s, "create_timer", map[string]any{"seconds": 1 + float64(i)/50})
			set[last.ID] = true
		}
		<-time.After(time.Until(last.DueAt) - rand.N(400*time.Millisecond))
		collect(s)
		s.Kill(t)
	}
	s := appkittest.StartBinary(t, program, appkittest.DataDir(dir))
	for range set {
		s.Events.Wait(t, "timer.triggered") // each another event
	}
	collect(s)
	for id := range set {
		if len(rang[id]) != 1 {
			t.Errorf("%s rang under %d ids", id, len(rang[id]))
		}
	}
	if len(rang) != len(set) {
		t.Errorf("%d timers were set and %d rang", len(set), len(rang))
	}
}
