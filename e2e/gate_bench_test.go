//go:build bench

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
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
	echo := baseline(t, "echo")
	m := sessions(t)
	connect(t, m, "usual", echo)
	connect(t, m, "fast", fastEcho())
	redactor := redact.New([]string{"hunter2-secret", "tok_0123456789"})
	recording := func(o bridge.Options) *bridge.Bridge {
		o.Redact = func(raw []byte) []byte { out, _ := redactor.JSON(raw); return out }
		o.RedactText = func(s string) string { out, _ := redactor.String(s); return out }
		return bridge.New(o)
	}
	br := recording(bridge.Options{Bus: taken{}})
	defer br.Close(context.Background())
	dir := benchDisk(t, 4<<10)
	disk, err := inbox.Open(inbox.Options{Dir: filepath.Join(dir, "inbox"), Journal: journal.Options{Dir: filepath.Join(dir, "journal")}})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	onDisk := recording(bridge.Options{Bus: disk, Routes: map[string]bus.Route{
		"mcp.*": bus.Journal, "tool.*": bus.Journal, "permission.*": bus.Journal,
	}})
	defer onDisk.Close(context.Background())
	store, err := policy.OpenStore(t.Context(), filepath.Join(t.TempDir(), "policy.db"), policy.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r, err := rules.Parse("policy.yaml", []byte("unlisted: {unknown: low}\nreview: {first: {unknown: pin}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	decides := policy.NewGate(store, r, nil)
	through := func(sink signal.Sink) *host.Host {
		return host.New(host.Options{Client: m, Sink: sink, Gate: decides, Redact: func(raw []byte) ([]byte, []string) {
			out, hits := redactor.JSON(raw)
			return out, hits.Rules()
		}})
	}

	message := prose(1 << 10)
	args, err := json.Marshal(map[string]string{"message": message})
	if err != nil {
		t.Fatal(err)
	}
	const (
		calls      = 3200
		answerTime = 2 * time.Second
	)
	// On a busy machine one of some hundred thousand calls of such a load is answered
	// later than that: a thread of the server did not run.
	late := func(err error) bool {
		f := fault.From(err)
		return f != nil && f.Code == fault.Timeout || errors.Is(err, context.DeadlineExceeded)
	}
	micros := func(atOnce int, call func() error) func() float64 {
		return func() float64 {
			begun := cpu(t)
			var wg sync.WaitGroup
			for range atOnce {
				wg.Go(func() {
					for range calls / atOnce {
						switch err := call(); {
						case late(err):
							t.Log(err)
						case err != nil:
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
	gate := func(sink signal.Sink, server string) func() error {
		h := through(sink)
		return func() error {
			_, err := h.Call(context.Background(), host.Call{Name: server, Arguments: args, Timeout: answerTime})
			return err
		}
	}
	bare := func(server string) func() error {
		return func() error {
			_, err := m.Call(context.Background(), features.CallRequest{Server: server, Tool: "echo", Arguments: args, Timeout: answerTime})
			return err
		}
	}
	session := sdkSession(t, echo)
	sdk := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": message}})
		return err
	}
	micros(1, bare("usual"))() // warm
	for _, c := range []struct {
		figure         string
		atOnce         int
		gate, baseline func() error
		aim            string
	}{
		{"CPU of a call with a result of 1 KB through the whole gate, its record made into envelopes for a bus that keeps none, to a server written with the SDK; the SDK's session bare (ClientSession.CallTool)", 1, gate(br, "usual.echo"), sdk, "<= 1"},
		{"the same; our session bare", 1, gate(br, "usual.echo"), bare("usual"), ""},
		{"the same, 64 at once", 64, gate(br, "usual.echo"), bare("usual"), ""},
		{"the same, its record in a journal on a disk, one at a time", 1, gate(onDisk, "usual.echo"), bare("usual"), ""},
		{"the same, 64 at once", 64, gate(onDisk, "usual.echo"), bare("usual"), ""},
		{"the gate alone: the same calls to a server that answers as fast as it can, their record discarded, 64 at once", 64, gate(signal.Discard, "fast.echo"), bare("fast"), ""},
	} {
		a, b, ratio := paired(micros(c.atOnce, c.gate), micros(c.atOnce, c.baseline))
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
