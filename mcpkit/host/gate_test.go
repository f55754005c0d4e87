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
	durations = regexp.MustCompile(`,"duration_ms":\d+`)
)

func TestTranscriptsOfCalls(t *testing.T) {
	servers := map[string]string{"mine": "echo", "other": "echo", "dies": "crash-third"}
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
