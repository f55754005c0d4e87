package merge

import (
	"encoding/json"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// conversion is one of input, whose $defs are those of the tree.
func conversion(t *testing.T, input string) *Conversion {
	t.Helper()
	tree := base.New()
	if err := tree.Load(json.RawMessage(input)); err != nil {
		t.Fatal(err)
	}
	tree.Defs = tree.Root.Object("$defs")
	return &Conversion{Tree: tree, Rules: &rules.Rules{}}
}

func text(n any) string { return string(jsonvalue.Append(nil, n)) }

func TestAnIntersectionDemandsWhatBothDemand(t *testing.T) {
	for _, x := range []struct {
		a, b, want string
		fits       bool
	}{
		{`{"minimum":1}`, `{"minimum":2,"maximum":3}`, `{"minimum":2,"maximum":3}`, true},
		{`{"type":["string","null"]}`, `{"type":"string"}`, `{"type":"string"}`, true},
		{`{"type":"number"}`, `{"type":"integer"}`, `{"type":"integer"}`, true},
		{`{"required":["a"]}`, `{"required":["b","a"]}`, `{"required":["a","b"]}`, true},
		{`{"enum":[1,2,3]}`, `{"enum":[3,2.0]}`, `{"enum":[2,3]}`, true},
		{`{"properties":{"a":{"minLength":1}}}`, `{"properties":{"a":{"maxLength":2}}}`, `{"properties":{"a":{"minLength":1,"maxLength":2}}}`, true},
		{`{"title":"a"}`, `{"title":"b"}`, `{"title":"a"}`, true},
		{`{"type":"string"}`, `{"type":"object"}`, "", false},
		{`{"pattern":"^a"}`, `{"pattern":"b$"}`, "", false},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"properties":{"b":{}},"additionalProperties":false}`, "", false},
	} {
		c := conversion(t, x.a)
		b := conversion(t, x.b).Root
		if fits := c.Intersect(c.Root, b, true); fits != x.fits || fits && text(c.Root) != x.want {
			t.Errorf("%s with %s: %v, %s", x.a, x.b, fits, text(c.Root))
		}
	}
}

func TestWhatDoesNotFitIsDroppedAndReportedWhereThatIsAllowed(t *testing.T) {
	c := conversion(t, `{"pattern":"^a"}`)
	if c.Intersect(c.Root, conversion(t, `{"pattern":"b$","minLength":1}`).Root, false) {
		t.Error("it fits")
	}
	if text(c.Root) != `{"pattern":"^a","minLength":1}` || len(c.Changes) != 1 || c.Changes[0].Code != "conflict_dropped" {
		t.Errorf("%s, %+v", text(c.Root), c.Changes)
	}
}

func TestConstantsBecomeOneEnum(t *testing.T) {
	node := func(input string) *base.Node { return conversion(t, input).Root }
	for _, x := range []struct {
		nodes []*base.Node
		want  string
	}{
		{[]*base.Node{node(`{"const":"a"}`), node(`{"enum":["b","a"]}`)}, `{"enum":["a","b"]}`},
		{[]*base.Node{node(`{"const":"a"}`), node(`{"type":"integer"}`)}, `{"anyOf":[{"const":"a"},{"type":"integer"}]}`},
		{[]*base.Node{node(`{"type":"integer"}`), node(`{}`)}, `{}`},
	} {
		if got := text(AnyOf(x.nodes)); got != x.want {
			t.Errorf("it became %s, not %s", got, x.want)
		}
	}
}

func TestAUnionAtTheRootBecomesOneObjectThatTakesWhatAnyBranchTakes(t *testing.T) {
	c := conversion(t, `{"oneOf":[{"properties":{"a":{"type":"string"},"k":{"const":"x"}},"required":["a","k"]},{"$ref":"#/$defs/B"}],
		"$defs":{"B":{"properties":{"k":{"const":"y"}},"required":["k"]},"unused":{}}}`)
	c.FlattenRoot()
	const want = `{"type":"object","properties":{"a":{"type":"string"},"k":{"enum":["x","y"]}},"required":["k"],"$defs":{"unused":{}}}`
	if text(c.Root) != want {
		t.Errorf("it became %s", text(c.Root))
	}
	if len(c.Notes) != 1 || c.Notes[0] != `Arguments come in exactly one of these combinations: (a, k: "x") or (k: "y").` {
		t.Errorf("notes %q", c.Notes)
	}
}
