package single

import (
	"encoding/json"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/merge"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

func TestEveryNodeHasOneTypeOrIsAUnion(t *testing.T) {
	r := &rules.Rules{SingleType: true, Keywords: rules.Set("type", "description", "nullable", "enum", "items", "properties", "required", "minimum", "anyOf")}
	for property, want := range map[string]string{
		`{"type":["string","null"]}`:                                         `{"type":"string","nullable":true}`,
		`{"type":["string","integer"]}`:                                      `{"anyOf":[{"type":"string"},{"type":"integer"}]}`,
		`{"anyOf":[{"type":"integer"},{"type":"null"}]}`:                     `{"type":"integer","nullable":true}`,
		`{"const":"x"}`:                                                      `{"enum":["x"],"type":"string"}`,
		`{"type":"integer","enum":[1,2]}`:                                    `{"type":"integer","description":"One of [1,2]."}`,
		`{"type":"integer","exclusiveMinimum":1}`:                            `{"type":"integer","minimum":2}`,
		`{"type":"object","properties":{},"required":["x"]}`:                 `{"type":"object","properties":{},"required":[],"description":"Needs the key \"x\"."}`,
		`{"allOf":[{"type":"integer"},{"minimum":3}]}`:                       `{"type":"integer","minimum":3}`,
		`{"type":"null"}`:                                                    `{"type":"string","description":"Always null.","nullable":true}`,
		`{"description":"d","anyOf":[{"type":"string"},{"type":"boolean"}]}`: `{"anyOf":[{"type":"string","description":"d"},{"type":"boolean"}]}`,
	} {
		tree := base.New()
		if err := tree.Load(json.RawMessage(`{"type":"object","properties":{"a":` + property + `}}`)); err != nil {
			t.Fatal(err)
		}
		Apply(&merge.Conversion{Tree: tree, Rules: r})
		if got := string(jsonvalue.Append(nil, tree.Root.Object("properties").Object("a"))); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", property, got, want)
		}
	}
}
