package rules

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

func TestACheckFindsWhatBreaksARule(t *testing.T) {
	const object = `{"type":"object","properties":{"a":`
	strict := &Rules{Strict: &Limits{Depth: 2, Properties: 2, EnumValues: 2, NameChars: 100, LongEnum: 100}}
	for _, x := range []struct {
		rules *Rules
		bad   string
		why   string
		good  string
	}{
		{&Rules{}, `{"type":"object"}`, "root", `{"type":"object","properties":{}}`},
		{&Rules{}, `{"type":"object","properties":{},"anyOf":[{}]}`, "root", `{"type":"object","properties":{"a":{"anyOf":[{}]}}}`},
		{&Rules{}, object + `{"minLength":-1}}}`, "minLength", object + `{"minLength":1}}}`},
		{&Rules{}, object + `{"type":"array"}}}`, "array", object + `{"type":"array","items":{}}}}`},
		{&Rules{}, object + `{"$ref":"#/$defs/x"}}}`, "nowhere", object + `{"$ref":"#"}}}`},
		{&Rules{}, object + `true}}`, "boolean", object + `{"additionalProperties":true}}}`},
		{&Rules{NoRef: true}, object + `{"$ref":"#"}}}`, "reference", object + `{}}}`},
		{&Rules{Typed: true}, object + `{}}}`, "no type", object + `{"type":"string"}}}`},
		{&Rules{SingleType: true}, object + `{"type":["string","null"]}}}`, "list", object + `{"type":"string"}}}`},
		{&Rules{SingleType: true}, object + `{"type":"integer","enum":[1]}}}`, "enum", object + `{"type":"string","enum":["1"]}}}`},
		{&Rules{NoBesides: true}, object + `{"properties":{},"anyOf":[{}]}}}`, "beside", object + `{"anyOf":[{}]}}}`},
		{&Rules{Keywords: Set("type", "properties")}, object + `{"title":"t"}}}`, "title", object + `{"type":"string"}}}`},
		{&Rules{Without: Set("not")}, object + `{"not":{}}}}`, "not", object + `{}}}`},
		{&Rules{Formats: Set("date")}, object + `{"format":"uri"}}}`, "format", object + `{"format":"date"}}}`},
		{&Rules{}, object + `{"pattern":"(?=x)"}}}`, "pattern", object + `{"pattern":"^x"}}}`},
		{strict, object + `{"type":"string"}}}`, "open", object + `{"type":"string"}},"required":["a"],"additionalProperties":false}`},
		{strict, object + `{"enum":["1","2","3"],"type":"string"}},"required":["a"],"additionalProperties":false}`, "enum values",
			object + `{"enum":["1","2"],"type":"string"}},"required":["a"],"additionalProperties":false}`},
	} {
		check := func(input string) error {
			tree := base.New()
			if err := tree.Load(json.RawMessage(input)); err != nil {
				t.Fatal(err)
			}
			return Check(tree, x.rules)
		}
		if err := check(x.bad); err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: %v, want something about %s", x.bad, err, x.why)
		}
		if err := check(x.good); err != nil {
			t.Errorf("%s: %v", x.good, err)
		}
	}
}
