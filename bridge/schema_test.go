package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/internal/large"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

var update = flag.Bool("update", false, "write events.schema.json from the Go types, and the examples")

// dataOf is the Go type of payload.data per kind. An app's event has its own.
var dataOf = map[signal.Kind]reflect.Type{
	signal.CapabilityChanged: reflect.TypeFor[signal.Capability](),
	signal.ResourceRequested: reflect.TypeFor[signal.Resource](),
	signal.ResourceObserved:  reflect.TypeFor[signal.Resource](),
	signal.ResourceFailed:    reflect.TypeFor[signal.Resource](),
	signal.PromptRequested:   reflect.TypeFor[signal.Prompt](),
	signal.PromptExpanded:    reflect.TypeFor[signal.Prompt](),
	signal.PromptFailed:      reflect.TypeFor[signal.Prompt](),
	signal.InputRequired:     reflect.TypeFor[signal.Input](),
	signal.InputResolved:     reflect.TypeFor[signal.Input](),
	signal.Notification:      reflect.TypeFor[notification](),
	signal.Problem:           reflect.TypeFor[signal.Fault](),
}

func init() {
	for kind, method := range methods {
		switch method {
		case amp.MethodLifecycle:
			dataOf[kind] = reflect.TypeFor[signal.Lifecycle]()
		case amp.MethodCall, amp.MethodToolResult:
			if dataOf[kind] == nil {
				dataOf[kind] = reflect.TypeFor[signal.Step]()
			}
		}
	}
}

// describe makes the schema: the envelope's, and a condition for each type.
func describe(t *testing.T) []byte {
	t.Helper()
	var envelope jsonschema.Schema
	if err := json.Unmarshal(amp.Schema, &envelope); err != nil {
		t.Fatal(err)
	}
	envelope.Schema = ""
	truncated := object(t, reflect.TypeFor[large.Data]())
	truncated.Description = "Stands in for data that is too large for an envelope."
	artifactRef := object(t, reflect.TypeFor[artifact.Ref]())
	artifactRef.Description = "Where something large is kept whole."
	truncated.Properties["artifact"] = ref("artifact")
	s := &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", ID: "https://aurorabot.dev/schema/amp/events.json",
		Title: "AMP event", Description: "An envelope of Aurora Platform with what each of the platform's types holds. Other types are the apps' own.",
		Ref:  "#/$defs/envelope",
		Defs: map[string]*jsonschema.Schema{"envelope": &envelope, "truncated": truncated, "artifact": artifactRef},
	}
	for _, kind := range slices.Sorted(maps.Keys(methods)) {
		if kind == signal.AppEvent {
			continue
		}
		goType := dataOf[kind]
		if goType == nil {
			t.Fatalf("no data is known of %s", kind)
		}
		def := strings.ToLower(goType.Name())
		if s.Defs[def] == nil {
			s.Defs[def] = object(t, goType)
		}
		var method any = methods[kind]
		is := func(name string, sub *jsonschema.Schema) *jsonschema.Schema {
			return &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{name: sub}}
		}
		data := []*jsonschema.Schema{ref(def), ref("truncated")}
		if kind == signal.Problem {
			s.Defs["rejection"] = object(t, reflect.TypeFor[rejection]())
			data = append(data, ref("rejection"))
		}
		typ := &jsonschema.Schema{}
		if kind == signal.Notification {
			typ.Pattern = `^mcp\.notification\.`
		} else {
			var name any = string(kind)
			typ.Const = &name
		}
		s.AllOf = append(s.AllOf, &jsonschema.Schema{
			If: is("payload", is("type", typ)),
			Then: &jsonschema.Schema{
				Properties: map[string]*jsonschema.Schema{
					"header":  is("method", &jsonschema.Schema{Const: &method}),
					"payload": {Required: []string{"data"}, Properties: map[string]*jsonschema.Schema{"data": {AnyOf: data}}},
				},
			},
		})
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func ref(def string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + def} }

// object is the schema of a Go struct as encoding/json writes it. Members may be
// added later, and what is null in Go is absent in a file.
func object(t *testing.T, typ reflect.Type) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.ForType(typ, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.AdditionalProperties = nil
	for name, p := range s.Properties {
		if len(p.Types) == 2 && p.Types[0] == "null" {
			p.Type, p.Types = p.Types[1], nil
		}
		if name == "artifact" {
			s.Properties[name] = ref("artifact")
		}
	}
	return s
}

func TestTheEventSchemaInTheRepositoryMatchesTheGoTypes(t *testing.T) {
	want := describe(t)
	if *update {
		if err := os.WriteFile("events.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(Schema)); diff != "" {
		t.Errorf("events.schema.json differs (-types +file); run go test ./bridge -update\n%s", diff)
	}
}

// whole is a value of a struct type with every member set, so that the examples
// show all there is.
func whole(t *testing.T, typ reflect.Type) any {
	t.Helper()
	v := reflect.New(typ)
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		f := v.Elem().Field(i)
		raw, ok := examples[name]
		if !ok {
			t.Fatalf("there is no example for %s.%s", typ, name)
		}
		if err := json.Unmarshal([]byte(raw), f.Addr().Interface()); err != nil {
			t.Fatalf("%s.%s: %v", typ, name, err)
		}
	}
	return v.Interface()
}

// examples are values of members, by name.
var examples = map[string]string{
	"pid": `1546`, "attempt": `1`, "cause": `"exit"`, "reason": `"exited with code 1"`, "exit_code": `1`, "exit_signal": `"SIGKILL"`,
	"stderr": `["TOKEN is missing"]`, "backoff_ms": `512`, "uptime_ms": `109`, "start_ms": `42`, "protocol_version": `"2025-11-25"`,
	"server_name": `"dice"`, "server_version": `"1.0.0"`, "tools": `2`,
	"list": `"tools"`, "added": `["shell"]`, "removed": `["rm"]`, "changed": `["echo"]`, "count": `2`, "fingerprint": `"508230b0"`,
	"call_id": `"01M8MQPYK60HTSJTRV6YJN0499"`, "server": `"com.example.dice"`, "tool": `"com.example.dice.roll"`, "entrance": `"api"`,
	"risk": `"low"`, "decision": `"ask"`, "approval": `"01M8MV6HB6K4JMQ1910ZSS2G07"`, "actor": `"policy"`, "arguments": `{"sides":6}`,
	"preview": `"[1 4 3], 8 together"`, "size": `268`, "duration_ms": `4`, "waited_ms": `5100`, "replayed": `true`, "is_error": `true`, "error_code": `"timeout"`, "outcome": `"unknown"`,
	"retryable": `true`, "candidates": `["com.example.dice.roll"]`, "artifact": `{"sha256":"5a","size":70000,"mime":"application/json","path":"artifacts/5a"}`,
	"result": `{"content":[{"type":"text","text":"[1 4 3], 8 together"}]}`, "flags": `["hidden_characters"]`,
	"prompt": `"review"`, "messages": `2`, "subject": `"com.example.dice.roll"`, "round": `1`, "asked_at": `"2026-06-17T14:30:00+08:00"`, "expires_at": `"2026-06-17T14:35:00+08:00"`,
	"questions": `[{"id":"q","kind":"form","message":"How many dice?","schema":{"type":"object","properties":{"dice":{"type":"integer"}}}}]`,
	"uri":       `"diary://index"`, "mime_type": `"application/json"`, "sha256": `"5a"`,
	"code": `"stdout_junk"`, "detail": `"a line that is no JSON-RPC message"`, "sample": `"Welcome to my server v1"`,
}

func compiled(t *testing.T) *santhosh.Schema {
	t.Helper()
	doc, err := santhosh.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := santhosh.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("events.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("events.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func satisfies(t *testing.T, s *santhosh.Schema, raw []byte) error {
	t.Helper()
	v, err := santhosh.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// largeStore keeps nothing and says where it would be.
type largeStore struct{}

func (largeStore) Put(context.Context, []byte, string) (any, error) {
	return json.RawMessage(examples["artifact"]), nil
}

// specimens are one signal of each kind, and of one whose data is too large.
func specimens(t *testing.T) map[string]signal.Signal {
	t.Helper()
	at := time.Date(2026, 6, 17, 14, 30, 0, 0, time.FixedZone("", 8*3600))
	out := make(map[string]signal.Signal)
	add := func(name string, s signal.Signal) {
		s.Server, s.Instance, s.Time, s.ID = "com.example.dice", "3", at, "01M8MQPYK60HTSJTRV6YJN0500"
		out[name] = s
	}
	for kind := range methods {
		switch kind {
		case signal.AppEvent:
			add("dice.rolled", signal.Signal{Kind: kind, Params: json.RawMessage(
				`{"type":"dice.rolled","message_id":"01M8MQPYK60HTSJTRV6YJN0501","session_id":"s1","summary":"8","data":{"text":"8"},"expire_at":"2026-06-18T00:00:00Z"}`)})
		case signal.Notification:
			add("mcp.notification.resources.updated", signal.Signal{Kind: kind, Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"diary://index"}`)})
			add("mcp.notification.message", signal.Signal{Kind: kind, Method: logMethod, Params: json.RawMessage(`{"level":"warning","logger":"dice","data":"a die is missing"}`)})
		default:
			s := signal.Signal{Kind: kind, Summary: "what happened, for a person", Data: whole(t, dataOf[kind])}
			if dataOf[kind] == reflect.TypeFor[signal.Step]() {
				s.CallID = "01M8MQPYK60HTSJTRV6YJN0499"
			}
			add(string(kind), s)
		}
	}
	add("mcp.error.event_rejected", signal.Signal{Kind: signal.AppEvent, Params: json.RawMessage(`{"type":"tool.completed","message_id":"01M8MQPYK60HTSJTRV6YJN0501"}`)})
	add("truncated", signal.Signal{Kind: signal.Problem, Data: &signal.Fault{Code: "stdout_junk", Sample: strings.Repeat("x", 4096)}})
	return out
}

func TestEveryTypeOfEventHasAnExampleThatSatisfiesTheSchema(t *testing.T) {
	s := compiled(t)
	specimens := specimens(t)
	for name, sig := range specimens {
		m := through(t, Options{MaxData: 2048, Store: largeStore{}}, sig)
		if len(m.items) != 1 {
			t.Fatalf("%s: %d envelopes", name, len(m.items))
		}
		h := &m.items[0].Envelope.Header
		h.Seq, h.MessageID = 17, "01M8MQPYK60HTSJTRV6YJN0500"
		line, err := m.items[0].Envelope.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := satisfies(t, s, line); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got bytes.Buffer
		if err := json.Indent(&got, bytes.TrimSpace(line), "", "  "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
		file := filepath.Join("testdata", "events", name+".json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-file +now); run go test ./bridge -update and see who relies on it:\n%s", file, diff)
		}
	}
	files, err := filepath.Glob("testdata/events/*.json")
	if err != nil || len(files) != len(specimens) {
		t.Errorf("%d examples for %d specimens, %v", len(files), len(specimens), err)
	}
}

func TestTheEventSchemaRefusesDataOfAnotherType(t *testing.T) {
	s := compiled(t)
	for _, kind := range slices.Sorted(maps.Keys(dataOf)) {
		typ, method := string(kind), methods[kind]
		if kind == signal.Notification {
			typ += ".x"
		}
		for what, line := range map[string]string{
			"no data":        fmt.Sprintf(`{"type":%q}`, typ),
			"data of a list": fmt.Sprintf(`{"type":%q,"data":[]}`, typ),
			"empty data":     fmt.Sprintf(`{"type":%q,"data":{"pid":"x","call_id":3,"list":1,"uri":2,"code":3,"method":4}}`, typ),
		} {
			env := fmt.Sprintf(`{"header":{"protocol":"amp/1.0","method":%q,"message_id":"m","timestamp":"2026-06-17T14:30:00Z","source":{"app":"a"}},"payload":%s}`, method, line)
			if satisfies(t, s, []byte(env)) == nil {
				t.Errorf("%s with %s passes", kind, what)
			}
		}
	}
}
