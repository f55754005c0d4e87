package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// gated is a host with the whole policy over fake servers.
func gated(t *testing.T, rec *recorder, file string, servers map[string]string) (*host.Host, *policy.Gate) {
	t.Helper()
	r, err := rules.Parse("policy.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	store, err := policy.OpenStore(t.Context(), filepath.Join(t.TempDir(), "policy.db"), policy.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g := policy.NewGate(store, r, nil)
	return host.New(host.Options{Client: serve(t, rec, servers), Sink: rec, Gate: g}), g
}

const testPolicy = `
trust:
  mine: official
risk:
  mine.echo: low
  other.kept: critical
`

// transcript is the chain of signals as text: one step a line, with ids
// made equal and durations left out.
func (r *recorder) transcript() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	names := map[string]string{}
	for _, s := range r.steps {
		raw, err := json.Marshal(s.Data)
		if err != nil {
			panic(err)
		}
		line := fmt.Sprintf("%s %s %s\n", s.Kind, s.CallID, raw)
		line = ulids.ReplaceAllStringFunc(line, func(id string) string {
			if names[id] == "" {
				names[id] = fmt.Sprintf("<id%d>", len(names)+1)
			}
			return names[id]
		})
		b.WriteString(durations.ReplaceAllString(line, ""))
	}
	return b.String()
}

var (
	ulids     = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`)
	durations = regexp.MustCompile(`,"(duration|waited)_ms":\d+`)
)

func TestTranscriptsOfCalls(t *testing.T) {
	servers := map[string]string{"mine": "echo", "other": "echo", "dies": "crash-third", "errs": "error-call"}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, h *host.Host, g *policy.Gate)
	}{
		{"allowed", func(t *testing.T, h *host.Host, _ *policy.Gate) {
			h.Call(t.Context(), host.Call{Name: "mine.echo", Arguments: json.RawMessage(`{"message":"hello"}`), Entrance: "api"})
		}},
		{"wrong-arguments", func(t *testing.T, h *host.Host, _ *policy.Gate) {
			h.Call(t.Context(), host.Call{Name: "mine.echo", Arguments: json.RawMessage(`{"message":7}`)})
		}},
		{"unknown-tool", func(t *testing.T, h *host.Host, _ *policy.Gate) {
			h.Call(t.Context(), host.Call{Name: "mine.ecko"})
		}},
		{"ambiguous", func(t *testing.T, h *host.Host, _ *policy.Gate) {
			h.Call(t.Context(), host.Call{Name: "echo"})
		}},
		{"denied", func(t *testing.T, h *host.Host, _ *policy.Gate) {
			h.Call(t.Context(), host.Call{Name: "other.kept"})
		}},
		{"asked", func(t *testing.T, h *host.Host, _ *policy.Gate) {
			h.Call(t.Context(), host.Call{Name: "other.echo", Arguments: json.RawMessage(`{"message":"may I"}`)})
		}},
		{"approved-later", func(t *testing.T, h *host.Host, g *policy.Gate) {
			call := host.Call{Name: "other.echo", Arguments: json.RawMessage(`{"message":"may I"}`)}
			_, err := h.Call(t.Context(), call)
			if _, err := g.Approvals.Approve(t.Context(), handle(t, err), approval.Once, "Ada"); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Call(t.Context(), call); err != nil {
				t.Error(err)
			}
			if _, err := h.Call(t.Context(), call); err == nil {
				t.Error("an approval for one call allowed two")
			}
		}},
		{"approved-by-caller", func(t *testing.T, h *host.Host, _ *policy.Gate) {
			call := host.Call{Name: "other.echo", Arguments: json.RawMessage(`{"message":"I may"}`), ApprovedBy: "Ada", Entrance: "cli"}
			if _, err := h.Call(t.Context(), call); err != nil {
				t.Error(err)
			}
			call.Name = "other.kept" // which the policy denies
			if _, err := h.Call(t.Context(), call); err == nil {
				t.Error("the caller's word overruled the policy")
			}
		}},
		{"same-key-twice", func(t *testing.T, h *host.Host, _ *policy.Gate) {
			call := host.Call{Name: "mine.echo", Arguments: json.RawMessage(`{"message":"once"}`), IdempotencyKey: "order-1"}
			first, err := h.Call(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			second, err := h.Call(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			if first.Replayed || !second.Replayed || string(first.Raw) != string(second.Raw) {
				t.Errorf("first %+v, second %+v", first, second)
			}
		}},
		{"same-key-fails-twice", func(t *testing.T, h *host.Host, g *policy.Gate) {
			g.SetConfig(parse(t, testPolicy+"  errs.echo: medium\n"))
			call := host.Call{Name: "errs.echo", Arguments: json.RawMessage(`{"message":"once"}`), IdempotencyKey: "order-2"}
			for _, replayed := range []bool{false, true} {
				_, err := h.Call(t.Context(), call)
				if f := fault.From(err); f == nil || f.Code != fault.Protocol || f.Replayed != replayed {
					t.Errorf("replayed %v: %+v", replayed, f)
				}
			}
		}},
		{"crashed", func(t *testing.T, h *host.Host, g *policy.Gate) {
			g.SetConfig(parse(t, testPolicy+"  dies.echo: medium\n"))
			for range 3 {
				h.Call(t.Context(), host.Call{Name: "dies.echo", Arguments: json.RawMessage(`{"message":"x"}`), IdempotencyKey: "k" + fmt.Sprint(time.Now().UnixNano())})
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := &recorder{}
			h, g := gated(t, rec, testPolicy, servers)
			// What nobody has approved yet is pinned, so that risk alone decides.
			h.Table()
			for _, s := range g.Pins.Report().Servers {
				if !s.Pinned {
					pin(t, g, s.Server)
				}
			}
			c.do(t, h, g)
			golden := filepath.Join("testdata", "transcripts", c.name+".txt")
			got := rec.transcript()
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("run with -update if this is meant:\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, file string) *rules.Rules {
	t.Helper()
	r, err := rules.Parse("policy.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func handle(t *testing.T, err error) string {
	t.Helper()
	var f *fault.Error
	var data struct {
		ID string `json:"approval_id"`
	}
	if !errors.As(err, &f) || f.Code != fault.ApprovalRequired || json.Unmarshal(f.Data, &data) != nil || data.ID == "" {
		t.Fatalf("got %v, want a fault with a handle", err)
	}
	return data.ID
}

func TestACallThatWaitsGoesOnWhenAPersonAgrees(t *testing.T) {
	rec := &recorder{}
	h, g := gated(t, rec, testPolicy, map[string]string{"other": "echo"})
	done := make(chan error, 1)
	go func() {
		_, err := h.Call(t.Context(), host.Call{Name: "other.echo", Wait: true})
		done <- err
	}()
	var pending []approval.Approval
	for len(pending) == 0 {
		var err error
		if pending, err = g.Approvals.List(t.Context(), approval.Pending); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("the call did not wait: %v", err)
	default:
	}
	if _, err := g.Approvals.Approve(t.Context(), pending[0].ID, approval.Session, "Ada"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(t.Context(), host.Call{Name: "other.echo"}); err != nil {
		t.Errorf("an approval for the session was good once only: %v", err)
	}
}

func TestACallerThatGivesUpLeavesTheQuestionOpen(t *testing.T) {
	rec := &recorder{}
	h, g := gated(t, rec, testPolicy, map[string]string{"other": "echo"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := h.Call(ctx, host.Call{Name: "other.echo", Wait: true})
	id := handle(t, err)
	if _, err := g.Approvals.Approve(t.Context(), id, approval.Once, "Ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(t.Context(), host.Call{Name: "other.echo", Approval: id}); err != nil {
		t.Error(err)
	}
}

func TestTheTimeOfACallBoundsTheWaitForAPersonToo(t *testing.T) {
	rec := &recorder{}
	h, _ := gated(t, rec, testPolicy, map[string]string{"other": "echo"})
	_, err := h.Call(t.Context(), host.Call{Name: "other.echo", Wait: true, Timeout: 50 * time.Millisecond})
	id := handle(t, err)
	if got := rec.kinds(); got[len(got)-1] != signal.ToolFailed {
		t.Errorf("the chain of the call %s ends with %v", id, got)
	}
}

func TestAPersonsTimeIsNotTheCalls(t *testing.T) {
	rec := &recorder{}
	h, g := gated(t, rec, testPolicy, map[string]string{"other": "echo"})
	rec.on(signal.PermissionRequested, func(s signal.Signal) {
		id := s.Data.(*signal.Step).Approval
		time.AfterFunc(300*time.Millisecond, func() {
			if _, err := g.Approvals.Approve(context.Background(), id, approval.Once, "Ada"); err != nil {
				t.Error(err)
			}
		})
	})
	start := time.Now()
	res, err := h.Call(t.Context(), host.Call{Name: "other.echo", Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	if all := time.Since(start); res.Waited <= 0 || res.Duration+res.Waited > all {
		t.Errorf("waited %v, lasted %v, of %v", res.Waited, res.Duration, all)
	}
	last := rec.last()
	if last.WaitedMS != res.Waited.Milliseconds() || last.DurationMS != res.Duration.Milliseconds() {
		t.Errorf("the event says %+v", last)
	}
}

// Who answers by event, and had to go, makes the call again.
func TestACallThatIsCutOffWhileAPersonIsAskedIsNotEnded(t *testing.T) {
	rec := &recorder{}
	h, g := gated(t, rec, testPolicy, map[string]string{"other": "echo"})
	call := host.Call{ID: "req-1", Name: "other.echo", Wait: true, Answer: &host.Answer{ID: "answer-1"}}
	ctx, cancel := context.WithCancel(t.Context())
	var id string
	rec.on(signal.PermissionRequested, func(s signal.Signal) {
		id = s.Data.(*signal.Step).Approval
		cancel()
	})
	if _, err := h.Call(ctx, call); handle(t, err) != id {
		t.Errorf("the question is %s, the error %v", id, err)
	}
	if got, want := rec.kinds(), []signal.Kind{signal.PermissionRequested, signal.PermissionResolved}; !slices.Equal(got, want) {
		t.Errorf("it left %v, want %v", got, want)
	}
	rec.on(signal.PermissionRequested, func(signal.Signal) {
		if _, err := g.Approvals.Approve(context.Background(), id, approval.Once, "Ada"); err != nil {
			t.Error(err)
		}
	})
	if _, err := h.Call(t.Context(), call); err != nil {
		t.Error(err)
	}
}

func TestWhatIsOddAboutAResultReachesTheCaller(t *testing.T) {
	rec := &recorder{}
	m := serve(t, rec, map[string]string{"p": "poison"})
	h := host.New(host.Options{Client: m, Sink: rec, Redact: func(raw []byte) ([]byte, []string) {
		clean, hits := redact.New(nil).JSON(raw)
		return clean, hits.Rules()
	}})
	for tool, want := range map[string]string{"injection": "role_marker", "unicode": "hidden_characters", "secrets": "secret_aws-access-key", "echo": ""} {
		res, err := h.Call(t.Context(), host.Call{Name: "p." + tool})
		if err != nil {
			t.Fatal(err)
		}
		if want != "" && !slices.Contains(res.Flags, want) || want == "" && len(res.Flags) > 0 {
			t.Errorf("%s: the flags are %v, want %q among them", tool, res.Flags, want)
		}
		if !slices.Equal(rec.last().Flags, res.Flags) {
			t.Errorf("%s: the event has %v, the caller %v", tool, rec.last().Flags, res.Flags)
		}
	}
}

func TestADefinitionThatChangesIsAskedAboutAgain(t *testing.T) {
	rec := &recorder{}
	h, g := gated(t, rec, "trust: {s: internal}\nrisk: {s.echo: low}\n", map[string]string{"s": "rug-pull"})
	h.Table()
	pin(t, g, "s")
	if _, err := h.Call(t.Context(), host.Call{Name: "s.echo"}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for len(h.Table().Tools()) < 2 {
		if time.Now().After(deadline) {
			t.Fatal("the new list did not come")
		}
		time.Sleep(10 * time.Millisecond)
	}
	_, err := h.Call(t.Context(), host.Call{Name: "s.echo", Arguments: json.RawMessage(`{"key":"x"}`)})
	handle(t, err)
	if diffs := g.Pins.Diff("s"); len(diffs) != 2 {
		t.Errorf("the differences are %+v", diffs)
	}
}

// pin approves the tools of a server as they are.
func pin(t *testing.T, g *policy.Gate, server string) {
	t.Helper()
	if err := g.Pins.Approve(t.Context(), review.Approval{Server: server, Actor: "test"}); err != nil {
		t.Fatal(err)
	}
}
