package externalizer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/externalizer"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/modeltest"
)

// signed is a call with a thought signature, as Gemini's endpoint gives them.
func signed(id, signature string) modeltest.Call {
	c := call(id, "mcp__plain__echo", `{"message":"<`+id+`> & 12345678901234567890"}`)
	if signature != "" {
		c.Extra = map[string]any{"extra_content": map[string]any{"google": map[string]any{"thought_signature": signature}}}
	}
	return c
}

// Without its signatures Gemini refuses the request that has the results.
func TestWhatAnEndpointGaveACallGoesBackWithIt(t *testing.T) {
	both(t, func(t *testing.T, mode func(*externalizer.Options)) {
		caller, _ := serve(t, map[string]string{"plain": "echo"})
		model := modeltest.New(t,
			calls(signed("a", "c2lnbmF0dXJl+/=="), signed("b", "")), // of parallel calls the first alone is signed
			calls(signed("c", strings.Repeat("long", 1<<16))),
			modeltest.Turn{Text: "one"},
			calls(modeltest.Call{ID: "d", Name: "mcp__plain__echo", Arguments: `{}`, Extra: map[string]any{"thought_signature": "other form"}}),
			modeltest.Turn{Text: "two"},
		)
		l, _ := loop(t, caller, model, mode, func(o *externalizer.Options) { o.Profile = "gemini" })
		one := ask(t, l)
		if len(one.Extras) != 2 || one.Extras["a"] == nil || one.Extras["c"] == nil {
			t.Errorf("the result has extras of %d calls", len(one.Extras))
		}
		// The transcript is all that it takes to go on.
		raw, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		var again externalizer.Result
		if err := json.Unmarshal(raw, &again); err != nil {
			t.Fatal(err)
		}
		if two, err := l.Continue(t.Context(), &again, "And then?"); err != nil || two.Answer != "two" {
			t.Errorf("%v: %q", err, two.Answer)
		}
		if got := model.Requests()[1].Messages[2].ToolCalls[0].Function.Arguments; got != `{"message":"<a> & 12345678901234567890"}` {
			t.Errorf("beside a signature the arguments became %s", got)
		}
	})
}

func TestSignaturesFindTheirCallsInEveryKindOfStream(t *testing.T) {
	const args = `"{\"message\":\"x\"}"`
	sign := func(s string) string { return `"extra_content":{"google":{"thought_signature":"` + s + `"}}` }
	for name, chunks := range map[string][]string{
		"whole calls without an index": {
			`{"id":"a","type":"function",` + sign("A") + `,"function":{"name":"mcp__plain__echo","arguments":` + args + `}}`,
			`{"id":"b","type":"function",` + sign("B") + `,"function":{"name":"mcp__plain__echo","arguments":` + args + `}}`,
		},
		"all with the index 0": {
			`{"index":0,"id":"a","type":"function",` + sign("A") + `,"function":{"name":"mcp__plain__echo","arguments":` + args + `}}`,
			`{"index":0,"id":"b","type":"function",` + sign("B") + `,"function":{"name":"mcp__plain__echo","arguments":` + args + `}}`,
		},
		"two in one piece": {
			`{"id":"a","type":"function",` + sign("A") + `,"function":{"name":"mcp__plain__echo","arguments":` + args + `}},` +
				`{"id":"b","type":"function",` + sign("B") + `,"function":{"name":"mcp__plain__echo","arguments":` + args + `}}`,
		},
		"after the arguments, and again": {
			`{"index":0,"id":"a","type":"function","extra_content":null,"function":{"name":"mcp__plain__echo"}}`,
			`{"index":1,"id":"b","type":"function","function":{"name":"mcp__plain__echo","arguments":` + args + `}}`,
			`{"index":0,"function":{"arguments":` + args + `}}`,
			`{"index":1,` + sign("B") + `,"function":{}},{"index":0,` + sign("A") + `,"function":{}}`,
			`{"index":1,` + sign("B") + `,"function":{}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			turn := calls(signed("a", "A"), signed("b", "B")) // what has to come back
			for _, c := range chunks {
				turn.Events = append(turn.Events, `{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[`+c+`]}}]}`)
			}
			turn.Events = append(turn.Events, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]")
			caller, _ := serve(t, map[string]string{"plain": "echo"})
			model := modeltest.New(t, turn, modeltest.Turn{Text: "done"})
			l, _ := loop(t, caller, model, streaming)
			ask(t, l)
		})
	}
}

// The rule of the scripted model is one that can be broken.
func TestAScriptedModelMissesItsSignatures(t *testing.T) {
	r := modeltest.Rules{Extra: map[string]map[string]any{"a": {"extra_content": map[string]any{"google": "A"}}}}
	request := func(extra string) []byte {
		return []byte(`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function"` + extra +
			`,"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"y"}]}`)
	}
	for extra, broken := range map[string]bool{``: true, `,"extra_content":{"google":"B"}`: true, `,"extra_content":{"google":"A"}`: false} {
		if found := r.Check(request(extra)); len(found) > 0 != broken {
			t.Errorf("%s: found %q", extra, found)
		}
	}
}
