//go:build bench

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// cpu is what this process has used, without its children.
func cpu(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// prose is text of a result, n bytes or some more.
func prose(n int) string {
	const line = "Tomorrow is cloudy with a light breeze from the west, and between 12 and 19 degrees. "
	return strings.Repeat(line, n/len(line)+1)
}

// taken is a bus that takes every envelope and keeps none: what it costs to
// write them is the bus's own, and has rows of its own.
type taken struct{}

func (taken) Publish(_ context.Context, items ...bus.Item) ([]bus.Receipt, error) {
	return make([]bus.Receipt, len(items)), nil
}
func (taken) Reject(context.Context, bus.Rejected) (string, error) { return "", nil }
func (taken) Close() error                                         { return nil }

func TestTheGatesShareOfACall(t *testing.T) {
	m := fastEcho(t)
	redactor := redact.New([]string{"hunter2-secret", "tok_0123456789"})
	br := bridge.New(bridge.Options{Bus: taken{},
		Redact:     func(raw []byte) []byte { out, _ := redactor.JSON(raw); return out },
		RedactText: func(s string) string { out, _ := redactor.String(s); return out },
	})
	defer br.Close(context.Background())
	store, err := policy.OpenStore(t.Context(), filepath.Join(t.TempDir(), "policy.db"), policy.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r, err := rules.Parse("policy.yaml", []byte("unlisted: {unknown: low}\nreview: {first: {unknown: pin}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	door := policy.NewGate(store, r, nil)
	through := func(sink signal.Sink) *host.Host {
		return host.New(host.Options{Client: m, Sink: sink, Gate: door, Redact: func(raw []byte) ([]byte, []string) {
			out, hits := redactor.JSON(raw)
			return out, hits.Rules()
		}})
	}

	args, err := json.Marshal(map[string]string{"message": prose(1 << 10)})
	if err != nil {
		t.Fatal(err)
	}
	const calls = 6400
	micros := func(atOnce int, call func() error) func() float64 {
		return func() float64 {
			begun := cpu(t)
			var wg sync.WaitGroup
			for range atOnce {
				wg.Go(func() {
					for range calls / atOnce {
						if err := call(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			return float64((cpu(t) - begun).Nanoseconds()) / 1000 / calls
		}
	}
	gate := func(sink signal.Sink) func() error {
		h := through(sink)
		return func() error {
			_, err := h.Call(context.Background(), host.Call{Name: "s.echo", Arguments: args})
			return err
		}
	}
	bare := func() error {
		_, err := m.Call(context.Background(), client.CallRequest{Server: "s", Tool: "echo", Arguments: args})
		return err
	}
	micros(1, bare)() // warm
	for _, c := range []struct {
		figure string
		atOnce int
		sink   signal.Sink
		aim    string
	}{
		{"CPU of a call with a result of 1 KB through the whole gate, its record made into envelopes for a bus that keeps none; the session bare", 1, br, "<= 1.5"},
		{"the same, 64 at once", 64, br, ""},
		{"the same, one at a time, its record discarded", 1, signal.Discard, ""},
		{"the same, 64 at once, its record discarded", 64, signal.Discard, ""},
	} {
		a, b, ratio := paired(micros(c.atOnce, gate(c.sink)), micros(c.atOnce, bare))
		rows = append(rows, row{c.figure, fmt.Sprintf("%.0f µs", a), fmt.Sprintf("%.0f µs", b), fmt.Sprintf("%.2f", ratio), c.aim})
	}
}

func TestRedactionOfALargeResult(t *testing.T) {
	doc, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": prose(1 << 20)}}})
	if err != nil {
		t.Fatal(err)
	}
	redactor := redact.New([]string{"hunter2-secret", "another-secret-value", "third-secret-value", "tok_0123456789"})
	millis := func(f func()) func() float64 {
		return func() float64 {
			const times = 50
			begun := cpu(t)
			for range times {
				f()
			}
			return float64((cpu(t) - begun).Nanoseconds()) / 1e6 / times
		}
	}
	a, b, ratio := paired(millis(func() { redactor.JSON(doc) }), millis(func() { json.Valid(doc) }))
	rows = append(rows, row{"redaction of a result of 1 MB; encoding/json's Valid of the same bytes",
		fmt.Sprintf("%.2f ms", a), fmt.Sprintf("%.2f ms", b), fmt.Sprintf("%.2f", ratio), "<= 1"})
}
