package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// instant is a client whose one tool answers at once: what a call takes with it
// is the gate's own.
type instant struct {
	tools  *client.Snapshot
	answer *features.Result
}

func (instant) Ready(string) (*session.Session, error) { return nil, errors.New("it has no session") }

func (instant) Infos() []session.Info { return nil }

func (instant) Watch(context.Context, string, string, bool) (*client.Watch, error) {
	return nil, errors.New("it has no session")
}

func (c instant) Tools() *client.Snapshot { return c.tools }

func (c instant) Call(context.Context, features.CallRequest) (*features.Result, error) {
	return c.answer, nil
}

// cpu is what the process has used: on a busy machine the clock says little.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkGate(b *testing.B) {
	store, err := policy.OpenStore(b.Context(), filepath.Join(b.TempDir(), "policy.db"), policy.StoreOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	r, err := rules.Parse("policy.yaml", []byte("unlisted: {unknown: low}\nreview: {first: {unknown: pin}}\n"))
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("Tomorrow is cloudy with a light breeze from the west, and between 12 and 19 degrees. ", 12)
	args, _ := json.Marshal(map[string]string{"message": text})
	answer, _ := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}})
	tool := &catalog.Tool{Name: "s.echo", Source: catalog.Source{Server: "s", OriginalName: "echo"},
		InputSchema: json.RawMessage(`{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`)}
	redactor := redact.New([]string{"hunter2-secret", "tok_0123456789"})
	h := host.New(host.Options{
		Client: instant{&client.Snapshot{Tools: []*catalog.Tool{tool}}, &features.Result{Raw: answer}},
		Sink:   signal.Discard, Gate: policy.NewGate(store, r, nil),
		Redact: func(raw []byte) ([]byte, []string) { out, hits := redactor.JSON(raw); return out, hits.Rules() },
	})
	b.ReportAllocs()
	begun := cpu()
	defer func() { b.ReportMetric(float64((cpu()-begun).Nanoseconds())/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		if _, err := h.Call(b.Context(), host.Call{Name: "s.echo", Arguments: args}); err != nil {
			b.Fatal(err)
		}
	}
}
