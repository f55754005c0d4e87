package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// nowhere is a bus that takes everything.
type nowhere struct{}

func (nowhere) Publish(_ context.Context, items ...bus.Item) ([]bus.Receipt, error) {
	return make([]bus.Receipt, len(items)), nil
}
func (nowhere) Reject(context.Context, bus.Rejected) (string, error) { return "", nil }
func (nowhere) Close() error                                         { return nil }

// BenchmarkSteps is what the steps of one call cost, with a result of 1 KB.
func BenchmarkSteps(b *testing.B) {
	redactor := redact.New([]string{"hunter2-secret"})
	br := New(Options{Bus: nowhere{},
		Redact:     func(raw []byte) []byte { out, _ := redactor.JSON(raw); return out },
		RedactText: func(s string) string { out, _ := redactor.String(s); return out },
	})
	text := strings.Repeat("Tomorrow is cloudy with a light breeze from the west, and between 12 and 19 degrees. ", 12)
	args, _ := json.Marshal(map[string]string{"message": text})
	one := signal.Step{CallID: "01J00000000000000000000000", Tool: "s.echo", Server: "s", Risk: "low"}
	asked, ended := one, one
	asked.Decision, asked.Arguments = "allow", args
	ended.Preview, ended.Size = text, 1000
	var cpu syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &cpu)
	begun := cpu.Utime.Nano() + cpu.Stime.Nano()
	b.ReportAllocs()
	for b.Loop() {
		var steps []signal.Signal
		for _, s := range []struct {
			kind signal.Kind
			data *signal.Step
		}{{signal.PermissionRequested, &asked}, {signal.PermissionResolved, &one}, {signal.CallStarted, &one}, {signal.ToolStarted, &one}, {signal.CallCompleted, &one}, {signal.ToolCompleted, &ended}} {
			steps = append(steps, signal.Signal{Kind: s.kind, Server: "s", Time: time.Now(), CallID: one.CallID, Summary: strings.TrimSpace("s.echo: " + s.data.Preview), Data: s.data})
		}
		end := steps[5]
		end.Before = steps[:5]
		if err := br.Observe(b.Context(), end); err != nil {
			b.Fatal(err)
		}
	}
	if err := br.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &cpu)
	b.ReportMetric(float64(cpu.Utime.Nano()+cpu.Stime.Nano()-begun)/float64(b.N), "cpu-ns/op")
}
