package schema

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

func converted(t *testing.T, in string, r *rules.Rules) *Result {
	t.Helper()
	out := Convert(json.RawMessage(in), r)
	if !json.Valid(out.Parameters) {
		t.Fatalf("%s became %s", in, out.Parameters)
	}
	return out
}

func TestAValidSchemaPassesUnchanged(t *testing.T) {
	for _, in := range []string{
		`{"type":"object","properties":{"b":{"type":"string","x-more":[1.50]},"a":{"oneOf":[{"type":"integer"},{"const":null}]}},"required":["b"]}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}}},"unused":{"type":"null"}}}`,
		`{"type":"object","properties":{},"additionalProperties":{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"number"}}}`,
		`{"title":"T","type":"object","properties":{"type":{"type":"string"},"properties":{"type":"object"},"required":{"type":"boolean"}},"patternProperties":{"^x":{"type":"string"}},"if":{"required":["type"]},"then":{"required":["properties"]}}`,
	} {
		if out := converted(t, in, &rules.Rules{}); string(out.Parameters) != in || len(out.Changes) > 0 {
			t.Errorf("%s\nbecame %s\n%+v", in, out.Parameters, out.Changes)
		}
	}
}

func TestReferencesAreFoundWhereverTheyLead(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"object","properties":{"a":{"$anchor":"q","type":"string"},"b":{"$ref":"#q"}}}`:                                                                       `{"type":"object","properties":{"a":{"$ref":"#/$defs/q"},"b":{"$ref":"#/$defs/q"}},"$defs":{"q":{"type":"string"}}}`,
		`{"$id":"http://h/root.json","type":"object","properties":{"b":{"$ref":"sub.json#/$defs/S"}},"$defs":{"x":{"$id":"sub.json","$defs":{"S":{"type":"null"}}}}}`:  `{"type":"object","properties":{"b":{"$ref":"#/$defs/S"}},"$defs":{"x":{},"S":{"type":"null"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/definitions/A"}},"definitions":{"A":{"$ref":"#/definitions/B"},"B":{"type":"string"}}}`:                         `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"type":"string"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/components/schemas/A"}},"components":{"schemas":{"A":{"properties":{"n":{"$ref":"#/components/schemas/A"}}}}}}`: `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"components":{"schemas":{"A":{"properties":{"n":{"$ref":"#/components/schemas/A"}}}}},"$defs":{"A":{"properties":{"n":{"$ref":"#/$defs/A"}}}}}`,
		`{"type":"object","properties":{"a":{"properties":{"b":{"type":"null"}}},"c":{"$ref":"#/properties/a/properties/b"},"d":{"$ref":"#/properties/a"}}}`:           `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"},"c":{"$ref":"#/$defs/b"},"d":{"$ref":"#/$defs/a"}},"$defs":{"b":{"type":"null"},"a":{"properties":{"b":{"$ref":"#/$defs/b"}}}}}`,
		`{"type":"object","properties":{"a":{"$ref":"http://elsewhere/x.json"},"b":{"$ref":7},"c":{"$dynamicRef":"#m"},"d":{"$dynamicAnchor":"m"}}}`:                   `{"type":"object","properties":{"a":{},"b":{},"c":{"$ref":"#/$defs/m"},"d":{"$ref":"#/$defs/m"}},"$defs":{"m":{}}}`,
	} {
		if out := converted(t, in, &rules.Rules{}); string(out.Parameters) != want {
			t.Errorf("%s\nbecame %s\nwant   %s\n%+v", in, out.Parameters, want, out.Changes)
		}
	}
}

func TestAReferenceToTheRootKeepsItsMeaningWhenTheRootChanges(t *testing.T) {
	out := converted(t, `{"anyOf":[{"type":"object","properties":{"leaf":{"type":"string"}},"required":["leaf"]},{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}},"required":["kids"]}]}`, &rules.Rules{})
	const want = `{"type":"object","properties":{"leaf":{"type":"string"},"kids":{"type":"array","items":{"$ref":"#/$defs/root"}}},"$defs":{"root":{"anyOf":[{"type":"object","properties":{"leaf":{"type":"string"}},"required":["leaf"]},{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/root"}}},"required":["kids"]}]}}}`
	if string(out.Parameters) != want {
		t.Errorf("became %s", out.Parameters)
	}
	if !slices.Equal(out.Notes, []string{"Arguments come in one of these combinations: (leaf) or (kids)."}) {
		t.Errorf("notes %q", out.Notes)
	}
}

func TestOlderDraftsBecome202012(t *testing.T) {
	for in, want := range map[string]string{
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/A","description":"d","minimum":5}},"definitions":{"A":{"type":"integer"}}}`: `{"type":"object","properties":{"a":{"$ref":"#/$defs/A","description":"d"}},"$defs":{"A":{"type":"integer"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},true],"additionalItems":false}}}`:                                                                           `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"},{}],"items":{},"maxItems":2}}}`,
		`{"type":"object","properties":{"a":{"type":"string"}},"dependencies":{"a":["b"],"c":{"required":["d"]}}}`:                                                                                 `{"type":"object","properties":{"a":{"type":"string"}},"dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"required":["d"]}}}`,
		`{"$schema":"http://json-schema.org/draft-03/schema#","type":"object","properties":{"a":{"type":"any","required":true,"divisibleBy":2,"disallow":"string","extends":{"type":"number"}}}}`:  `{"type":"object","properties":{"a":{"multipleOf":2,"not":{"type":"string"},"allOf":[{"type":"number"}]}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}],"nullable":true,"description":"d"},"b":{"enum":["x"],"type":"string","nullable":true}}}`:                                  `{"type":"object","properties":{"a":{"anyOf":[{"anyOf":[{"type":"string"}]},{"type":"null"}],"description":"d"},"b":{"enum":["x",null],"type":["string","null"]}}}`,
	} {
		if out := converted(t, in, &rules.Rules{}); string(out.Parameters) != want {
			t.Errorf("%s\nbecame %s\nwant   %s", in, out.Parameters, want)
		}
	}
}

func TestWhatNegationTurnsAroundIsRemovedWhole(t *testing.T) {
	in := `{"type":"object","properties":{"a":{"type":"string","not":{"pattern":"(?=x)"}},"b":{"oneOf":[{"type":"string","pattern":"\\p{L}"},{"type":"string","maxLength":1}]},"c":{"if":{"pattern":"(?!y)"},"then":{"maxLength":2}}}}`
	out := converted(t, in, &rules.Rules{})
	const want = `{"type":"object","properties":{"a":{"type":"string","description":"Must not match {\"pattern\":\"(?=x)\"}."},"b":{"anyOf":[{"type":"string","description":"Must match the pattern \\p{L}."},{"type":"string","maxLength":1}]},"c":{"description":"If it matches {\"pattern\":\"(?!y)\"}. then also {\"maxLength\":2}."}}}`
	if string(out.Parameters) != want {
		t.Errorf("became %s", out.Parameters)
	}
}

func TestAlternativesThatExcludeEachOthersKeysStayUsable(t *testing.T) {
	out := converted(t, `{"type":"object","oneOf":[{"properties":{"a":{"type":"string"},"b":false},"required":["a"]},{"properties":{"a":false,"b":{"type":"string"}},"required":["b"]}]}`, &rules.Rules{})
	if want := `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`; string(out.Parameters) != want {
		t.Errorf("became %s", out.Parameters)
	}
	if !slices.Equal(out.Notes, []string{"Arguments come in exactly one of these combinations: (a) or (b)."}) {
		t.Errorf("notes %q", out.Notes)
	}
}
