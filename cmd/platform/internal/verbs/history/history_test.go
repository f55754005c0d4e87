package history

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// hostile steers a terminal, turns text around and breaks lines.
const hostile = "\x1b[2J\x1b]0;owned\a\u202eevil\u2066\r\nfake line\u200b"

// memory is a history of one call, whose every text is hostile.
type memory struct{}

func (memory) call() entry.Entry {
	return entry.Entry{
		ID: 2048, Time: time.Now(), Started: time.Now(), Kind: entry.Call, Type: hostile, Server: hostile, Tool: "=" + hostile, Caller: hostile, Session: hostile,
		Outcome: entry.OK, CallID: "+" + hostile, Summary: hostile, Risk: hostile, Decision: hostile, Actor: hostile, ErrorCode: hostile, Records: []uint64{2},
	}
}

func (m memory) List(context.Context, store.Filter, store.Page) (history.Page, error) {
	return history.Page{Entries: []entry.Entry{m.call()}, Behind: 3}, nil
}

func (memory) Stats(context.Context, string, store.Filter) ([]store.Stat, error) {
	return []store.Stat{{Key: hostile, Calls: 1, Errors: 1}}, nil
}

func (m memory) Call(context.Context, string) (*history.Chain, error) {
	c := &history.Chain{Call: m.call(), Others: 1}
	for i, typ := range []string{"permission.requested", "permission.resolved", "tool.input_required", "tool.failed"} {
		raw, err := json.Marshal(map[string]any{
			"header": map[string]any{"protocol": "amp/1.0", "method": "mcp.call", "message_id": "m", "timestamp": time.Now().Add(time.Duration(i) * time.Second).Format(time.RFC3339Nano), "source": map[string]any{"app": "s"}},
			"payload": map[string]any{"type": typ, "data": map[string]any{
				"arguments": map[string]any{"a": hostile}, "decision": hostile, "reason": hostile, "actor": hostile, "risk": hostile, "preview": hostile, "flags": []string{hostile},
				"artifact": map[string]any{"path": hostile, "size": 7}, "questions": []any{map[string]any{"id": "q", "kind": "form", "message": hostile}},
			}},
		})
		if err != nil {
			return nil, err
		}
		c.Events = append(c.Events, history.Event{Position: uint64(i + 1), Envelope: raw})
	}
	return c, nil
}

func (memory) Close() error { return nil }

func TestTextsOfOthersSteerNoTerminalAndMakeNoLines(t *testing.T) {
	for name, c := range map[string]struct {
		json  bool
		lines int
		run   func(ctx context.Context, c *cli.Env) error
	}{
		"list":      {false, 2, func(ctx context.Context, c *cli.Env) error { return runList(ctx, c, memory{}, listOptions{limit: 7}) }},
		"list JSON": {true, 1, func(ctx context.Context, c *cli.Env) error { return runList(ctx, c, memory{}, listOptions{limit: 7}) }},
		"line":      {false, 1, func(_ context.Context, c *cli.Env) error { e := memory{}.call(); return showLine(c, &e) }},
		"show":      {false, 20, func(ctx context.Context, c *cli.Env) error { return runShow(ctx, c, memory{}, "x") }},
		"show JSON": {true, 1, func(ctx context.Context, c *cli.Env) error { return runShow(ctx, c, memory{}, "x") }},
		"stats": {false, 2, func(ctx context.Context, c *cli.Env) error {
			return runStats(ctx, c, memory{}, statsOptions{by: "tool"})
		}},
		"export": {false, 1, func(ctx context.Context, c *cli.Env) error {
			return runExport(ctx, c, memory{}, exportOptions{format: "jsonl"})
		}},
	} {
		var out, errs bytes.Buffer
		env := cli.New(nil, &out, &errs)
		env.JSON = c.json
		if err := c.run(t.Context(), env); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := out.String()
		if n := strings.Count(text, "\n"); n != c.lines || !strings.Contains(text, "evil") {
			t.Errorf("%s: %d lines, not %d:\n%s", name, n, c.lines, text)
		}
		if i := strings.IndexFunc(text+errs.String(), func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }); i >= 0 {
			t.Errorf("%s: %q", name, text[i:])
		}
	}
}

func TestNoCellOfAnExportIsAFormula(t *testing.T) {
	var out, errs bytes.Buffer
	if err := runExport(t.Context(), cli.New(nil, &out, &errs), memory{}, exportOptions{format: "csv"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"'=`) || !strings.Contains(out.String(), `"'+`) || strings.ContainsAny(out.String(), "\x1b\a\r\u202e") {
		t.Errorf("the export is %q", out.String())
	}
	if !strings.Contains(errs.String(), "3 records of the journal") {
		t.Errorf("what is missing is told as %q", errs.String())
	}
}
