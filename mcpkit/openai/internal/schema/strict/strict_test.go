package strict

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/merge"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// applied is the conversion of one property's schema.
func applied(t *testing.T, property string) *merge.Conversion {
	t.Helper()
	tree := base.New()
	if err := tree.Load(json.RawMessage(`{"type":"object","properties":{"a":` + property + `},"required":["a"]}`)); err != nil {
		t.Fatal(err)
	}
	c := &merge.Conversion{Tree: tree, Rules: &rules.Rules{Strict: &rules.Limits{}}}
	Apply(c)
	return c
}

func TestEveryObjectIsClosedAndEveryPropertyRequired(t *testing.T) {
	for property, want := range map[string]string{
		`{"type":"object","properties":{"b":{"type":"string"}}}`:   `{"type":"object","properties":{"b":{"type":["string","null"]}},"additionalProperties":false,"required":["b"]}`,
		`{"type":"object","properties":{"b":{"enum":["x"]}}}`:      `{"type":"object","properties":{"b":{"enum":["x",null],"type":["string","null"]}},"additionalProperties":false,"required":["b"]}`,
		`{"type":"object","properties":{"b":{"$ref":"#"}}}`:        `{"type":"object","properties":{"b":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"additionalProperties":false,"required":["b"]}`,
		`{"allOf":[{"type":"integer","minimum":1},{"maximum":3}]}`: `{"type":"integer","minimum":1,"maximum":3}`,
		`{"const":"x"}`:                                 `{"enum":["x"],"type":"string"}`,
		`{"type":"string","minLength":2}`:               `{"type":"string","description":"At least 2 characters."}`,
		`{"oneOf":[{"type":"string"},{"type":"null"}]}`: `{"anyOf":[{"type":"string"},{"type":"null"}]}`,
	} {
		c := applied(t, property)
		if c.Err != nil {
			t.Errorf("%s: %v", property, c.Err)
			continue
		}
		if got := string(jsonvalue.Append(nil, c.Root.Object("properties").Object("a"))); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", property, got, want)
		}
	}
}

func TestHintsTellNullsThatStandForNothing(t *testing.T) {
	c := applied(t, `{"type":"object","properties":{"must":{"type":"string"},"may":{"type":"string"},"unsure":{"type":["string","null"]}},"required":["must"]}`)
	h := c.Hints[c.Root.Object("properties").Object("a")]
	if h == nil || !h.Nulls["may"] || !h.Maybe["unsure"] || len(h.Nulls)+len(h.Maybe) != 2 {
		t.Errorf("%+v", h)
	}
}

func TestWhatStrictModeWouldMangleFails(t *testing.T) {
	for property, why := range map[string]string{
		`{}`:                "no type",
		`{"type":"object"}`: "any key",
		`{"type":"object","additionalProperties":{"type":"string"}}`:                   "a map",
		`{"type":"object","patternProperties":{"^x":{}}}`:                              "a map",
		`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"string"}}`: "a tuple",
		`{"allOf":[{"type":"string","pattern":"^a"},{"pattern":"b$"}]}`:                "an intersection",
	} {
		if c := applied(t, property); c.Err == nil || !strings.Contains(c.Err.Error(), why) {
			t.Errorf("%s: %v, want %s", property, c.Err, why)
		}
	}
}
