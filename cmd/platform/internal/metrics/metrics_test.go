package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func scrape(t *testing.T, m *Metrics) (all string, ours []string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	all = w.Body.String()
	for line := range strings.Lines(all) {
		if strings.HasPrefix(line, "aurora_") {
			ours = append(ours, strings.TrimSpace(line))
		}
	}
	return all, ours
}

func TestAScrapeTellsOfEventsBusServersAndCalls(t *testing.T) {
	m := New(Sources{
		Version: "v1",
		Events: func() bridge.Counts {
			return bridge.Counts{Accepted: 7, Duplicate: 1, Rejected: 2, Expired: 3, Waiting: 4}
		},
		Bus: func() Bus {
			return Bus{Degraded: true, Recorded: 5, Delivered: 6, Spilled: -1, Syncs: 8, Backlog: 9, Pending: -1, PendingBytes: -1, IDs: 10}
		},
		Servers: func() []Server { return []Server{{Name: "dice", Phase: "ready", Restarts: 2, Tools: 3}} },
	})
	sink := m.Watch(signal.Discard)
	step := func(kind signal.Kind, s signal.Step) {
		if err := sink.Observe(t.Context(), signal.Signal{Kind: kind, Data: &s}); err != nil {
			t.Fatal(err)
		}
	}
	step(signal.CallStarted, signal.Step{Server: "dice", Tool: "dice.roll"})
	step(signal.CallCompleted, signal.Step{Server: "dice", Tool: "dice.roll", DurationMS: 4})
	step(signal.ToolCompleted, signal.Step{Server: "dice", Tool: "dice.roll", DurationMS: 4})
	step(signal.ToolFailed, signal.Step{Server: "dice", Tool: "dice.roll", DurationMS: 2000, IsError: true})
	step(signal.CallFailed, signal.Step{Server: "dice", Tool: "dice.roll", Outcome: "unknown"})
	step(signal.ToolFailed, signal.Step{Server: "dice", Tool: "dice.roll", Outcome: "unknown"})
	step(signal.ToolFailed, signal.Step{Server: "dice", Tool: "dice.roll", Outcome: "failed"})
	step(signal.AmbiguousCall, signal.Step{Tool: "roll"})

	all, got := scrape(t, m)
	want := []string{
		`aurora_build_info{version="v1"} 1`,
		`aurora_bus_backlog 9`, `aurora_bus_degraded 1`, `aurora_bus_delivered_total 6`, `aurora_bus_recorded_total 5`, `aurora_bus_remembered_ids 10`,
		`aurora_call_duration_seconds_bucket{server="dice",le="0.001"} 0`, `aurora_call_duration_seconds_bucket{server="dice",le="0.0025"} 0`,
		`aurora_call_duration_seconds_bucket{server="dice",le="0.005"} 1`, `aurora_call_duration_seconds_bucket{server="dice",le="0.01"} 1`,
		`aurora_call_duration_seconds_bucket{server="dice",le="0.025"} 1`, `aurora_call_duration_seconds_bucket{server="dice",le="0.05"} 1`,
		`aurora_call_duration_seconds_bucket{server="dice",le="0.1"} 1`, `aurora_call_duration_seconds_bucket{server="dice",le="0.25"} 1`,
		`aurora_call_duration_seconds_bucket{server="dice",le="0.5"} 1`, `aurora_call_duration_seconds_bucket{server="dice",le="1"} 1`,
		`aurora_call_duration_seconds_bucket{server="dice",le="2.5"} 2`, `aurora_call_duration_seconds_bucket{server="dice",le="5"} 2`,
		`aurora_call_duration_seconds_bucket{server="dice",le="10"} 2`, `aurora_call_duration_seconds_bucket{server="dice",le="30"} 2`,
		`aurora_call_duration_seconds_bucket{server="dice",le="60"} 2`, `aurora_call_duration_seconds_bucket{server="dice",le="300"} 2`,
		`aurora_call_duration_seconds_bucket{server="dice",le="+Inf"} 2`,
		`aurora_call_duration_seconds_sum{server="dice"} 2.004`, `aurora_call_duration_seconds_count{server="dice"} 2`,
		`aurora_calls_total{outcome="completed",server="dice",tool="roll"} 1`, `aurora_calls_total{outcome="failed",server="",tool=""} 1`,
		`aurora_calls_total{outcome="failed",server="dice",tool="roll"} 1`, `aurora_calls_total{outcome="tool_error",server="dice",tool="roll"} 1`,
		`aurora_calls_total{outcome="unknown",server="dice",tool="roll"} 1`,
		`aurora_events_total{fate="accepted"} 7`, `aurora_events_total{fate="duplicate"} 1`, `aurora_events_total{fate="expired"} 3`, `aurora_events_total{fate="rejected"} 2`,
		`aurora_events_waiting 4`,
		`aurora_inbox_syncs_total 8`,
		`aurora_server_phase{phase="backoff",server="dice"} 0`, `aurora_server_phase{phase="degraded",server="dice"} 0`,
		`aurora_server_phase{phase="disabled",server="dice"} 0`, `aurora_server_phase{phase="failed",server="dice"} 0`,
		`aurora_server_phase{phase="needs_auth",server="dice"} 0`, `aurora_server_phase{phase="ready",server="dice"} 1`,
		`aurora_server_phase{phase="starting",server="dice"} 0`, `aurora_server_phase{phase="stopped",server="dice"} 0`,
		`aurora_server_phase{phase="stopping",server="dice"} 0`,
		`aurora_server_restarts_total{server="dice"} 2`, `aurora_server_tools{server="dice"} 3`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	problems, err := promlint.New(strings.NewReader(all)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("the form is bad: %v, %v", problems, err)
	}
}

func TestToolsBeyondTheBoundShareALabel(t *testing.T) {
	m := New(Sources{Events: func() bridge.Counts { return bridge.Counts{} }, Bus: func() Bus { return Bus{} }, Servers: func() []Server { return nil }})
	sink := m.Watch(signal.Discard)
	for i := range maxTools + 7 {
		for range 2 {
			if err := sink.Observe(t.Context(), signal.Signal{Kind: signal.ToolCompleted, Data: &signal.Step{Server: "s", Tool: fmt.Sprintf("s.t%d", i)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, _ := scrape(t, m)
	if n := strings.Count(all, `aurora_calls_total{`); n != maxTools+1 || !strings.Contains(all, `aurora_calls_total{outcome="completed",server="s",tool="other"} 14`) {
		t.Errorf("%d series", n)
	}
}
