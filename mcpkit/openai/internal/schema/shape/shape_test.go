package shape

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// shaped is the tree of input under rules.
func shaped(t *testing.T, input string, r *rules.Rules) *base.Tree {
	t.Helper()
	tree := base.New()
	if err := tree.Load(json.RawMessage(input)); err != nil {
		t.Fatal(err)
	}
	tree.Defs = tree.Root.Object("$defs")
	if err := Apply(tree, r); err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	return tree
}

func TestOnlyWhatTheRulesDemandIsChanged(t *testing.T) {
	const all = `{"type":"object","properties":{"a":{"prefixItems":[{"type":"string"}],"type":"array","items":{}},"b":{"not":{"type":"null"}},
		"c":{"format":"uri","maxLength":300},"d":{"minimum":1.5,"type":"number"},"e":{"additionalProperties":{}},"f":{}}}`
	var compact strings.Builder
	for line := range strings.Lines(all) {
		compact.WriteString(strings.TrimSpace(line))
	}
	if tree := shaped(t, all, &rules.Rules{}); string(jsonvalue.Append(nil, tree.Root)) != compact.String() || tree.Changes != nil {
		t.Errorf("it became %s", jsonvalue.Append(nil, tree.Root))
	}
	for _, x := range []struct {
		rules    rules.Rules
		property string
		want     string
	}{
		{rules.Rules{NoTuples: true}, "a", `{"type":"array","items":{},"description":"Items by position: [{\"type\":\"string\"}]."}`},
		{rules.Rules{Without: rules.Set("not")}, "b", `{"description":"Must not match {\"type\":\"null\"}."}`},
		{rules.Rules{NotFormats: rules.Set("uri")}, "c", `{"maxLength":300,"description":"Format: uri."}`},
		{rules.Rules{MaxRepeat: 256}, "c", `{"format":"uri","description":"At most 300 characters."}`},
		{rules.Rules{WholeBounds: true}, "d", `{"type":"number","description":"Not less than 1.5."}`},
		{rules.Rules{OpenMaps: true}, "e", `{"additionalProperties":true}`},
		{rules.Rules{Typed: true}, "f", `{"type":["string","number","boolean","object","array","null"],"items":{"$ref":"#/$defs/any_value"}}`},
	} {
		tree := shaped(t, all, &x.rules)
		if got := string(jsonvalue.Append(nil, tree.Root.Object("properties").Object(x.property))); got != x.want {
			t.Errorf("%s became %s, not %s", x.property, got, x.want)
		}
	}
}

func TestReferencesAreReplacedByTheirTargetsToABoundedDepth(t *testing.T) {
	tree := shaped(t, `{"type":"object","properties":{"a":{"$ref":"#/$defs/L","description":"d"}},"$defs":{"L":{"type":"object","properties":{"next":{"$ref":"#/$defs/L"}}}}}`, &rules.Rules{NoRef: true})
	const want = `{"type":"object","properties":{"a":{"type":"object","properties":{"next":{"type":"object","properties":{"next":{"type":"object"}}}},"description":"d"}}}`
	if got := string(jsonvalue.Append(nil, tree.Root)); got != want {
		t.Errorf("it became %s", got)
	}
}

func TestKeysThatTheAPIDoesNotTakeAreRenamedAndTheHintsSaySo(t *testing.T) {
	r := &rules.Rules{Keys: regexp.MustCompile(`^[a-z_0-9]{1,64}$`)}
	tree := shaped(t, `{"type":"object","properties":{"ok":{},"größe":{"type":"integer"}},"required":["größe"]}`, r)
	props := tree.Root.Object("properties")
	renamed := props.Keys()[1]
	if props.Keys()[0] != "ok" || !r.Keys.MatchString(renamed) {
		t.Fatalf("the keys are %q", props.Keys())
	}
	if h := tree.Hints[tree.Root]; h == nil || h.Keys[renamed] != "größe" {
		t.Errorf("the hint is %+v", h)
	}
	if l := tree.Root.List("required"); len(l) != 1 || l[0] != renamed {
		t.Errorf("required is %v", l)
	}
	again := shaped(t, `{"type":"object","properties":{"größe":{}}}`, r)
	if again.Root.Object("properties").Keys()[0] != renamed {
		t.Error("the name depends on more than the key")
	}
}

func TestWhatIsRequiredIsDeclared(t *testing.T) {
	for input, want := range map[string]string{
		`{"type":"object","properties":{"a":{}},"required":["a","b"]}`:                                      `{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}`,
		`{"type":"object","properties":{"a":{}},"required":["a","b"],"additionalProperties":false}`:         `{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{}},"required":["b"],"additionalProperties":{"type":"string"}}`: `{"type":"object","properties":{"a":{},"b":{"type":"string"}},"required":["b"],"additionalProperties":{"type":"string"}}`,
	} {
		if got := string(jsonvalue.Append(nil, shaped(t, input, &rules.Rules{}).Root)); got != want {
			t.Errorf("%s\nbecame %s", input, got)
		}
	}
}
