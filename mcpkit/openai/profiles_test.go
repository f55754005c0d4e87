package openai

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// converted is the schema that a profile makes of one tool's.
func converted(t *testing.T, profile, schema string) (x *Export, doc map[string]any) {
	t.Helper()
	x = export(t, profile, newTool("s", "t", "d", schema))
	if len(x.items) != 1 {
		t.Fatalf("%s: the tool is left out: %+v", profile, x.Report)
	}
	return x, decodePlain(t, x.items[0].result.Parameters).(map[string]any)
}

func TestWhatOneProviderRefusesIsSaidInAnotherWay(t *testing.T) {
	for _, c := range []struct{ profile, schema, want string }{
		{"gemini", `{"type":"string","enum":["a",""]}`, `{"type":"string","enum":["a"],"description":"An empty string is allowed, too."}`},
		{"vertex", `{"type":["string","null"],"enum":[""]}`, `{"type":"string","description":"An empty string is allowed, too.","nullable":true}`},
		{"openai", `{"type":"string","enum":["a",""]}`, `{"type":"string","enum":["a",""]}`},
		{"gemini", `{"type":"object","description":"JsonLogic"}`, `{"type":"string","description":"JsonLogic. A JSON object, written as a string."}`},
		{"gemini", `{"type":"string","format":"int32"}`, `{"type":"string","description":"Format: int32."}`},
		{"gemini", `{"type":"integer","format":"int64"}`, `{"type":"integer","format":"int64"}`},
		{"kimi", `{"type":"object","anyOf":[{"required":["a"]},{"type":"object","properties":{"b":{"type":"string"}}}]}`, `{"anyOf":[{"required":["a"],"type":"object"},{"type":"object","properties":{"b":{"type":"string"}}}]}`},
		{"kimi", `{"type":"string","enum":["a",1,null]}`, `{"type":"string","enum":["a"]}`},
		{"llamacpp", `{"type":"string","pattern":"^https?:\\/\\/\\S+$"}`, `{"type":"string","pattern":"^https?://[^ \\t\\n\\r\\x0C\\x0B]+$"}`},
	} {
		_, doc := converted(t, c.profile, `{"type":"object","properties":{"p":`+c.schema+`}}`)
		p, _ := json.Marshal(doc["properties"].(map[string]any)["p"])
		if !sameJSON(t, p, []byte(c.want)) {
			t.Errorf("%s: %s became\n%s, want\n%s", c.profile, c.schema, p, c.want)
		}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, _ := json.Marshal(decodePlain(t, a))
	y, _ := json.Marshal(decodePlain(t, b))
	return string(x) == string(y)
}

func TestAnObjectThatWasSentAsTextReachesTheServerAsAnObject(t *testing.T) {
	x, _ := converted(t, "gemini", `{"type":"object","properties":{"q":{"type":"object"},"l":{"type":"array","items":{"type":"object"}},"s":{"type":"string"}},"required":["q"]}`)
	call, err := x.Decode("mcp__s__t", `{"q":"{\"==\":[1,2]}","l":["{\"a\":\"{}\"}"],"s":"{}"}`)
	if err != nil || string(call.Arguments) != `{"q":{"==":[1,2]},"l":[{"a":"{}"}],"s":"{}"}` {
		t.Errorf("they became %+v, %v", call, err)
	}
	if call, err = x.Decode("mcp__s__t", `{"q":{"a":1}}`); err != nil || string(call.Arguments) != `{"q":{"a":1}}` {
		t.Errorf("an object as it is became %+v, %v", call, err)
	}
	if call, err = x.Decode("mcp__s__t", `{"q":"no object"}`); err == nil {
		t.Errorf("a text that is no object became %s", call.Arguments)
	}
}

func TestBedrocksKeysAreRenamedAndComeBack(t *testing.T) {
	x, doc := converted(t, "bedrock", `{"type":"object","properties":{"filter[name]":{"type":"string"},"$top":{"type":"integer"}},"required":["$top"]}`)
	args := map[string]any{}
	for key, p := range doc["properties"].(map[string]any) {
		if !regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`).MatchString(key) {
			t.Errorf("the key %q is refused", key)
		}
		if strings.Contains(p.(map[string]any)["description"].(string), "$top") {
			args[key] = 3
		} else {
			args[key] = "x"
		}
	}
	sent, _ := json.Marshal(args)
	call, err := x.Decode("mcp__s__t", string(sent))
	if err != nil || !sameJSON(t, call.Arguments, []byte(`{"filter[name]":"x","$top":3}`)) {
		t.Errorf("%s became %+v, %v", sent, call, err)
	}
}

func TestAzuresStrictSchemasHaveNoneOfTheKeywordsItRefuses(t *testing.T) {
	x, doc := converted(t, "azure-strict", `{"type":"object","properties":{"s":{"type":"string","minLength":1,"maxLength":9,"pattern":"^a","format":"email"},
		"n":{"type":"number","minimum":1,"exclusiveMaximum":7,"multipleOf":2},"l":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3,"uniqueItems":true}},
		"required":["s","n","l"],"additionalProperties":false}`)
	if !x.items[0].result.Strict || !x.OneCall() {
		t.Errorf("strict %v, one call at a time %v", x.items[0].result.Strict, x.OneCall())
	}
	eachNode(doc, "", func(n map[string]any, at string) {
		for _, kw := range []string{"minLength", "maxLength", "pattern", "format", "minimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems"} {
			if _, has := n[kw]; has {
				t.Errorf("%s has %s", at, kw)
			}
		}
	})
	if y, _ := converted(t, "openai-strict", `{"type":"object","properties":{}}`); y.OneCall() {
		t.Error("OpenAI's strict mode is told to make one call at a time")
	}
}

func TestKimisDefinitionsHaveNamesWithoutEscapes(t *testing.T) {
	_, doc := converted(t, "kimi", `{"type":"object","properties":{"a":{"$ref":"#/$defs/x~1y"},"b":{"type":"array","items":{"$ref":"#/$defs/z"}}},"$defs":{"x/y":{"type":"string"},"z":{"type":"integer"}}}`)
	defs := doc["$defs"].(map[string]any)
	ref := doc["properties"].(map[string]any)["a"].(map[string]any)["$ref"].(string)
	name := strings.TrimPrefix(ref, "#/$defs/")
	if def, _ := defs[name].(map[string]any); strings.ContainsAny(name, "/~") || def["type"] != "string" || defs["z"] == nil {
		t.Errorf("the reference is %s, the definitions are %v", ref, defs)
	}
}
