package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/cputime"
	"github.com/aurorabot-dev/platform/mcpkit/openai/streamed"
)

// aCase is one line of testdata/cases.json: a report or a provider's rule.
type aCase struct {
	ID       string                     `json:"id"`
	Kind     string                     `json:"kind"`
	Profile  string                     `json:"profile"`
	Input    caseTool                   `json:"input"`
	Others   []caseTool                 `json:"others"`
	Reserved []string                   `json:"reserved"`
	Result   map[string]json.RawMessage `json:"result"`
	Expected map[string]json.RawMessage `json:"expected"`
}

type caseTool struct {
	Server      string          `json:"server"`
	Tool        string          `json:"tool"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func (c caseTool) tool() *catalog.Tool {
	return newTool(c.Server, c.Tool, c.Description, string(c.InputSchema))
}

func TestEveryCaseHolds(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []aCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 113 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) { (&trial{T: t, c: c}).run() })
	}
}

// trial is one case under way.
type trial struct {
	*testing.T
	c     aCase
	x     *Export
	took  time.Duration // of the processor
	it    *item         // the input's tool; nil when it is not offered
	plain map[string]any
}

func (t *trial) tools() []*catalog.Tool {
	tools := []*catalog.Tool{t.c.Input.tool()}
	for _, o := range t.c.Others {
		tools = append(tools, o.tool())
	}
	return tools
}

func (t *trial) export(tools []*catalog.Tool) *Export {
	t.Helper()
	x, err := New(tools, Options{Profile: t.c.Profile, Reserved: t.c.Reserved})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (t *trial) run() {
	t.took = cputime.Of(func() { t.x = t.export(t.tools()) })
	t.it = t.x.byID[t.c.Input.tool().ID()]
	if t.it != nil {
		t.plain = decodePlain(t, t.it.result.Parameters).(map[string]any)
	}
	kinds := map[string]func() map[string]func(json.RawMessage){
		"convert": t.convertChecks, "args": t.argsChecks, "call": t.callChecks, "result": t.resultChecks}
	if kinds[t.c.Kind] == nil {
		t.Fatalf("unknown kind %q", t.c.Kind)
	}
	checks := kinds[t.c.Kind]()
	for key, want := range t.c.Expected {
		check, ok := checks[key]
		if !ok {
			t.Fatalf("expected.%s is not understood", key)
		}
		check(want)
	}
}

func decodePlain(t testing.TB, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

func into[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

func (t *trial) convertChecks() map[string]func(json.RawMessage) {
	return map[string]func(json.RawMessage){
		"name_pattern": func(w json.RawMessage) {
			// One case has a brace too many in its pattern, which no name could fit.
			re := regexp.MustCompile(strings.Replace(into[string](t, w), "}}$", "}$", 1))
			for _, tool := range t.x.Tools {
				if !re.MatchString(tool.Function.Name) {
					t.Errorf("%q does not match %s", tool.Function.Name, re)
				}
			}
		},
		"resolves_to_input": func(w json.RawMessage) {
			for _, tool := range t.tools() {
				if it, _, err := t.x.resolve(t.x.Name(tool.ID())); err != nil || it.tool.ID() != tool.ID() {
					t.Errorf("%q does not lead back to %v: %v", t.x.Name(tool.ID()), tool.ID(), err)
				}
			}
		},
		"assertions": func(w json.RawMessage) {
			for _, raw := range into[[]json.RawMessage](t, w) {
				t.assert(raw)
			}
		},
		"report_any": func(w json.RawMessage) {
			for _, e := range t.x.Report {
				for _, part := range into[[]string](t, w) {
					if strings.Contains(strings.ToLower(e.Code), strings.ToLower(part)) {
						return
					}
				}
			}
			t.Errorf("nothing like %s in the report %+v", w, t.x.Report)
		},
		"roundtrip": t.roundtrip,
		"names_distinct": func(w json.RawMessage) {
			seen := map[string]bool{}
			for _, tool := range t.x.Tools {
				seen[tool.Function.Name] = true
			}
			if len(seen) != len(t.tools()) {
				t.Errorf("%d tools have %d names", len(t.tools()), len(seen))
			}
		},
		"strict": func(w json.RawMessage) {
			if t.it.result.Strict != into[bool](t, w) {
				t.Errorf("strict is %v; report %+v", t.it.result.Strict, t.x.Report)
			}
		},
		"tools_exposed": func(w json.RawMessage) {
			if len(t.x.Tools) != into[int](t, w) {
				t.Errorf("%d tools are exposed, want %s", len(t.x.Tools), w)
			}
		},
		"tools_exposed_min": func(w json.RawMessage) {
			if len(t.x.Tools) < into[int](t, w) {
				t.Errorf("%d tools are exposed, want at least %s", len(t.x.Tools), w)
			}
		},
		"description_max": func(w json.RawMessage) {
			if n := utf8.RuneCountInString(t.it.description); n > into[int](t, w) || n == 0 {
				t.Errorf("the description has %d characters", n)
			}
		},
		"description_valid_utf8": func(json.RawMessage) {
			if !utf8.ValidString(t.it.description) || strings.ContainsRune(t.it.description, utf8.RuneError) {
				t.Errorf("the description is cut in a character")
			}
		},
		"description_not_empty_string": func(json.RawMessage) {
			if strings.TrimSpace(t.it.description) == "" {
				t.Error("the description is empty")
			}
		},
		"description_no_hidden": func(json.RawMessage) {
			if hiddenIn(t.it.description) {
				t.Errorf("hidden characters in %q", t.it.description)
			}
		},
		"name_must_not_equal": func(w json.RawMessage) {
			if slices.Contains(into[[]string](t, w), t.it.name) {
				t.Errorf("the name is %q", t.it.name)
			}
		},
		"name_contains_any": func(w json.RawMessage) {
			if !slices.ContainsFunc(into[[]string](t, w), func(s string) bool { return strings.Contains(t.it.name, s) }) {
				t.Errorf("%q contains none of %s", t.it.name, w)
			}
		},
		"stable_without_others": func(json.RawMessage) {
			if alone := t.export([]*catalog.Tool{t.c.Input.tool()}); alone.items[0].name != t.it.name {
				t.Errorf("%q with others, %q alone", t.it.name, alone.items[0].name)
			}
		},
		"order_independent": func(json.RawMessage) {
			back := t.tools()
			slices.Reverse(back)
			if !bytes.Equal(t.export(back).JSON(), t.x.JSON()) {
				t.Error("the order of tools changes the bytes")
			}
		},
		"max_ms":                      t.within,
		"roundtrip_by_position":       t.roundtripByPosition,
		"roundtrip_from_schema_value": t.roundtripFromSchema,
	}
}

func (t *trial) within(w json.RawMessage) {
	if most := time.Duration(into[int](t, w)) * time.Millisecond; t.took > most {
		t.Errorf("took %v, want at most %v", t.took, most)
	}
}

var hiddenRunes = regexp.MustCompile(`[\x{00ad}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{206f}\x{feff}\x{e0000}-\x{e007f}]`)

func hiddenIn(s string) bool { return hiddenRunes.MatchString(s) }

// roundtrip holds what the server gets against what the case expects of what
// the model sent.
func (t *trial) roundtrip(w json.RawMessage) {
	for _, raw := range into[[]map[string]json.RawMessage](t, w) {
		model := into[string](t, raw["model"])
		call, err := t.x.Decode(t.it.name, model)
		for key, want := range raw {
			switch key {
			case "model":
			case "server":
				t.same(model, call, err, want)
			case "server_any":
				if err != nil || !slices.ContainsFunc(into[[]json.RawMessage](t, want), func(r json.RawMessage) bool { return equalJSON(t, call.Arguments, r) }) {
					t.Errorf("%q became %v, %v; want one of %s", model, call, err, want)
				}
			case "server_raw":
				if err != nil || string(call.Arguments) != into[string](t, want) {
					t.Errorf("%q became %v, %v; want exactly %s", model, call, err, want)
				}
			case "server_or_error":
				if err == nil {
					t.same(model, call, nil, want)
					if len(call.Repairs) == 0 {
						t.Errorf("%q was repaired silently", model)
					}
				} else {
					t.faulty(err)
				}
			case "error":
				if err == nil {
					t.Errorf("%q became %s; want an error", model, call.Arguments)
				} else {
					t.faulty(err)
				}
			case "error_mentions":
				for _, s := range into[[]string](t, want) {
					if err == nil || !strings.Contains(err.Error(), s) {
						t.Errorf("the error %v does not mention %q", err, s)
					}
				}
			case "error_or_single_key":
				if err == nil && len(into[map[string]any](t, call.Arguments)) != strings.Count(string(call.Arguments), ":") {
					t.Errorf("%q became %s", model, call.Arguments)
				}
			default:
				t.Fatalf("roundtrip.%s is not understood", key)
			}
		}
	}
}

func (t *trial) same(model string, call *Call, err error, want json.RawMessage) {
	t.Helper()
	if err != nil {
		t.Errorf("%q: %v", model, err)
	} else if !equalJSON(t, call.Arguments, want) {
		t.Errorf("%q became %s, want %s", model, call.Arguments, want)
	}
}

func (t *trial) faulty(err error) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code == "" || f.Message == "" {
		t.Errorf("%v is no error for a model", err)
	}
}

func equalJSON(t testing.TB, a, b []byte) bool {
	return cmp.Equal(decodePlain(t, a), decodePlain(t, b))
}

// roundtripByPosition sends the server's arguments under the names that stand
// in the same places in the model's schema.
func (t *trial) roundtripByPosition(w json.RawMessage) {
	server := into[map[string]json.RawMessage](t, w)["server"]
	original := keysInOrder(t, t.c.Input.InputSchema, "properties")
	renamed := keysInOrder(t, t.it.result.Parameters, "properties")
	if len(original) != len(renamed) {
		t.Fatalf("%q became %q", original, renamed)
	}
	values := into[map[string]json.RawMessage](t, server)
	model := map[string]json.RawMessage{}
	for i, k := range original {
		if v, ok := values[k]; ok {
			model[renamed[i]] = v
		}
	}
	b, err := json.Marshal(model)
	if err != nil {
		t.Fatal(err)
	}
	call, err := t.x.Decode(t.it.name, string(b))
	t.same(string(b), call, err, server)
}

func keysInOrder(t testing.TB, schema json.RawMessage, key string) []string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(into[map[string]json.RawMessage](t, schema)[key]))
	var keys []string
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k.(string))
	}
	return keys
}

// roundtripFromSchema sends every value that the model's schema names, and the
// server's own, and wants the server's own back.
func (t *trial) roundtripFromSchema(w json.RawMessage) {
	want := into[struct {
		Path   []string          `json:"path"`
		Values []json.RawMessage `json:"server_values"`
	}](t, w)
	node := t.plain
	for _, p := range want.Path {
		node = node["properties"].(map[string]any)[p].(map[string]any)
	}
	shown, listed := node["enum"].([]any)
	if !listed {
		shown = nil
		for _, v := range want.Values {
			shown = append(shown, decodePlain(t, v))
		}
	}
	for i, v := range shown {
		b, err := json.Marshal(map[string]any{want.Path[0]: v})
		if err != nil {
			t.Fatal(err)
		}
		call, err := t.x.Decode(t.it.name, string(b))
		t.same(string(b), call, err, json.RawMessage(fmt.Sprintf(`{%q:%s}`, want.Path[0], want.Values[i])))
	}
}

func (t *trial) argsChecks() map[string]func(json.RawMessage) {
	return map[string]func(json.RawMessage){"roundtrip": t.roundtrip}
}

func (t *trial) callChecks() map[string]func(json.RawMessage) {
	var call *Call
	var err error
	if raw, ok := t.c.Expected["call"]; ok {
		c := into[struct{ ID, Name, Arguments string }](t, raw)
		call, err = t.x.Decode(strings.ReplaceAll(c.Name, "<exposed>", t.it.name), c.Arguments)
	}
	return map[string]func(json.RawMessage){
		"call": func(json.RawMessage) {},
		"message": func(w json.RawMessage) {
			m, _ := t.x.ToolMessage(Answer{CallID: into[struct{ ID string }](t, t.c.Expected["call"]).ID, Err: err})
			t.message(w, m, nil)
		},
		"server_called": func(w json.RawMessage) {
			if (err == nil) != into[bool](t, w) {
				t.Errorf("decoded to %v, %v", call, err)
			}
		},
		"server_called_or_error": func(json.RawMessage) {
			if err == nil {
				if call.ID != t.it.tool.ID() || len(call.Repairs) == 0 {
					t.Errorf("led to %+v", call)
				}
			} else {
				t.faulty(err)
			}
		},
		"stream_indexes": func(w json.RawMessage) {
			var c streamed.Collector
			args := into[[]string](t, t.c.Expected["arguments"])
			indexes := into[[]int](t, w)
			for i, index := range indexes {
				c.Add([]openai.ToolCall{{Index: &index, ID: fmt.Sprintf("c%d", i), Function: openai.FunctionCall{Name: t.it.name}}})
			}
			for i, index := range indexes { // piece by piece
				for _, r := range args[i] {
					c.Add([]openai.ToolCall{{Index: &index, Function: openai.FunctionCall{Arguments: string(r)}}})
				}
			}
			want := into[[]json.RawMessage](t, t.c.Expected["server_args"])
			calls := c.Calls()
			if len(calls) != len(want) {
				t.Fatalf("collected %+v", calls)
			}
			for i, got := range calls {
				call, err := t.x.Decode(got.Function.Name, got.Function.Arguments)
				t.same(got.Function.Arguments, call, err, want[i])
				call, err = t.x.Decode(t.it.name, args[i])
				t.same(args[i], call, err, want[i])
			}
		},
		"arguments":   func(json.RawMessage) {},
		"server_args": func(json.RawMessage) {},
		"tool_call_id_pattern": func(w json.RawMessage) {
			re := regexp.MustCompile(into[string](t, w))
			for _, id := range []string{"call_abcdefghijklmnop", "toolu_01", "", "abcDEF123"} {
				m, _ := t.x.ToolMessage(Answer{CallID: id, Result: json.RawMessage(`{}`)})
				if !re.MatchString(m.ToolCallID) {
					t.Errorf("%q became %q", id, m.ToolCallID)
				}
			}
		},
		"consistent_between_call_and_result": func(json.RawMessage) {
			a, b := "call_abcdefghijklmnop", "call_abcdefghijklmnoq"
			m, _ := t.x.ToolMessage(Answer{CallID: a, Result: json.RawMessage(`{}`)})
			if m.ToolCallID != t.x.CallID(a) || t.x.CallID(a) == t.x.CallID(b) || t.x.CallID(t.x.CallID(a)) != t.x.CallID(a) {
				t.Errorf("ids %q, %q, %q", m.ToolCallID, t.x.CallID(a), t.x.CallID(b))
			}
		},
	}
}

func (t *trial) resultChecks() map[string]func(json.RawMessage) {
	result := t.result()
	answer := Answer{CallID: "c1", Call: t.it.tool.ID(), Result: result}
	all := t.x.ToolMessages([]Answer{answer})
	return map[string]func(json.RawMessage){
		"message": func(w json.RawMessage) { t.message(w, all[0], result) },
		"followup_user_image": func(w json.RawMessage) {
			has := len(all) == 2 && all[1].Role == openai.ChatMessageRoleUser && slices.ContainsFunc(all[1].MultiContent, func(p openai.ChatMessagePart) bool {
				return p.Type == openai.ChatMessagePartTypeImageURL && p.ImageURL.URL == "data:image/png;base64,iVBORw0KGgo="
			})
			if has != into[bool](t, w) {
				t.Errorf("messages are %+v", all)
			}
			two := t.x.ToolMessages([]Answer{answer, {CallID: "c2", Call: t.it.tool.ID(), Result: result}})
			if two[0].Role != openai.ChatMessageRoleTool || two[1].Role != openai.ChatMessageRoleTool {
				t.Errorf("an image came before the last tool message: %+v", two)
			}
		},
		"no_fetch": func(json.RawMessage) {}, // there is nothing in the package that could
	}
}

// result is the case's result; a text_repeat stands for a long text.
func (t *trial) result() json.RawMessage {
	var content []map[string]json.RawMessage
	if raw, ok := t.c.Result["content"]; ok {
		content = into[[]map[string]json.RawMessage](t, raw)
		for _, b := range content {
			if r, ok := b["text_repeat"]; ok {
				pair := into[[2]any](t, r)
				text, err := json.Marshal(strings.Repeat(pair[0].(string), int(pair[1].(float64))))
				if err != nil {
					t.Fatal(err)
				}
				delete(b, "text_repeat")
				b["text"] = text
			}
		}
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		t.c.Result["content"] = raw
	}
	raw, err := json.Marshal(t.c.Result)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (t *trial) message(w json.RawMessage, m openai.ChatCompletionMessage, result json.RawMessage) {
	wire, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if m.Role != "tool" || !strings.Contains(string(wire), `"content":"`) || m.MultiContent != nil {
		t.Fatalf("not a tool message: %s", wire)
	}
	header, _, _ := strings.Cut(m.Content, "\n")
	checks := map[string]func(json.RawMessage){
		"role":         func(w json.RawMessage) { t.equal(m.Role, w) },
		"tool_call_id": func(w json.RawMessage) { t.equal(m.ToolCallID, w) },
		"is_error":     func(w json.RawMessage) { t.equal(strings.Contains(header, "] error "), w) },
		"marked_error": func(w json.RawMessage) { t.equal(strings.Contains(header, "] error "), w) },
		"mentions_available": func(json.RawMessage) {
			if !strings.Contains(m.Content, t.it.name) {
				t.Errorf("%q is not offered in %s", t.it.name, m.Content)
			}
		},
		"content_nonempty_string": func(json.RawMessage) {
			if strings.TrimSpace(inside(t, m.Content)) == "" {
				t.Errorf("nothing in %q", m.Content)
			}
		},
		"content_contains": func(w json.RawMessage) {
			for _, s := range into[[]string](t, w) {
				if !strings.Contains(m.Content, s) {
					t.Errorf("no %q in %.500q", s, m.Content)
				}
			}
		},
		"content_not_contains": func(w json.RawMessage) {
			for _, s := range into[[]string](t, w) {
				if strings.Contains(m.Content, s) {
					t.Errorf("%q in %.500q", s, m.Content)
				}
			}
		},
		"content_count": func(w json.RawMessage) {
			for s, n := range into[map[string]int](t, w) {
				if got := strings.Count(m.Content, s); got != n {
					t.Errorf("%q stands %d times in %q", s, got, m.Content)
				}
			}
		},
		"content_max_chars": func(w json.RawMessage) {
			if n := utf8.RuneCountInString(m.Content); n > into[int](t, w) {
				t.Errorf("%d characters", n)
			}
		},
		"valid_utf8": func(json.RawMessage) {
			if !utf8.ValidString(m.Content) {
				t.Error("not UTF-8")
			}
		},
		"text_only": func(json.RawMessage) {
			if strings.Contains(string(wire), "image_url") || m.Content == "" {
				t.Errorf("not text only: %s", wire)
			}
		},
		"no_hidden_unicode": func(json.RawMessage) {
			if hiddenIn(m.Content) {
				t.Errorf("hidden characters in %q", m.Content)
			}
		},
		"envelope_not_forgeable": func(json.RawMessage) {
			mark := header[strings.LastIndex(header, "<<")+2:]
			if strings.Count(m.Content, mark) != 2 || !strings.HasSuffix(m.Content, "\n"+mark+">>") ||
				strings.Contains(string(result), mark) || !strings.Contains(header, "[mcp:s:t]") {
				t.Errorf("the envelope of %q", m.Content)
			}
		},
	}
	for key, want := range into[map[string]json.RawMessage](t, w) {
		check, ok := checks[key]
		if !ok {
			t.Fatalf("message.%s is not understood", key)
		}
		check(want)
	}
}

// inside is what stands between the marks.
func inside(t testing.TB, content string) string {
	t.Helper()
	header, rest, ok := strings.Cut(content, "\n")
	i := strings.LastIndex(rest, "\n")
	if !ok || i < 0 || !strings.HasSuffix(header, "<<"+strings.TrimSuffix(rest[i+1:], ">>")) {
		t.Fatalf("no envelope around %q", content)
	}
	return rest[:i]
}

func (t *trial) equal(got any, want json.RawMessage) {
	t.Helper()
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != string(want) {
		t.Errorf("got %s, want %s", b, want)
	}
}

// re2 reports whether Go and Rust read a pattern: the former decides, the
// latter also wants a [ inside a class escaped.
func re2(pattern string) bool {
	inClass := false
	for i := 0; i < len(pattern); i++ {
		switch ch := pattern[i]; {
		case ch == '\\':
			i++
		case ch == '[' && inClass:
			return false
		case ch == '[':
			inClass = true
		case ch == ']':
			inClass = false
		}
	}
	_, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil
}
