package base

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

// loaded is a tree of input.
func loaded(t *testing.T, input string) *Tree {
	t.Helper()
	tree := New()
	if err := tree.Load(json.RawMessage(input)); err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestWhatIsNoSchemaIsAnObjectWithoutParameters(t *testing.T) {
	for input, code := range map[string]string{"": "missing_schema", "null": "missing_schema", "true": "boolean_schema", "false": "false_schema", "7": "invalid_schema"} {
		tree := loaded(t, input)
		if got := string(jsonvalue.Append(nil, tree.Root)); got != `{"type":"object","properties":{}}` {
			t.Errorf("%q became %s", input, got)
		}
		if len(tree.Changes) != 1 || tree.Changes[0].Code != code || tree.AnyKey != (input == "true") {
			t.Errorf("%q: %+v, any key: %v", input, tree.Changes, tree.AnyKey)
		}
	}
	for input, code := range map[string]string{"{": "invalid_json", strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000): "depth_limit", `"` + strings.Repeat("x", MaxBytes) + `"`: "too_large"} {
		err := New().Load(json.RawMessage(input))
		if f, ok := err.(*Failure); !ok || f.Code != code {
			t.Errorf("%.20s: %v, want %s", input, err, code)
		}
	}
}

func TestAWalkMeetsSchemasAndNotWhatLooksLikeThem(t *testing.T) {
	tree := loaded(t, `{"title":"root","properties":{"type":{"title":"p"}},"items":[{"title":"old tuple"}],"anyOf":[{"title":"branch"}],
		"default":{"title":"data"},"enum":[{"title":"data"}],"dependencies":{"a":{"title":"dependency"},"b":["c"]},"extends":{"title":"extended"},"x":{"title":"unknown"}}`)
	var met []string
	Walk(tree.Root, func(n *Node) { met = append(met, n.String("title")) })
	if want := []string{"root", "p", "old tuple", "branch", "dependency", "extended"}; !slices.Equal(met, want) {
		t.Errorf("it met %q", met)
	}
}

func TestPlacesAreJSONPointers(t *testing.T) {
	tree := loaded(t, `{"properties":{"a/b~c":{"anyOf":[{},{"not":{}}]}}}`)
	var at []string
	var walk func(n *Node, ptr string)
	walk = func(n *Node, ptr string) {
		Each(n, func(p Place, child any) any {
			at = append(at, p.Pointer(ptr))
			walk(child.(*Node), p.Pointer(ptr))
			return child
		})
	}
	walk(tree.Root, "")
	if want := []string{"/properties/a~1b~0c", "/properties/a~1b~0c/anyOf/0", "/properties/a~1b~0c/anyOf/1", "/properties/a~1b~0c/anyOf/1/not"}; !slices.Equal(at, want) {
		t.Errorf("%q", at)
	}
}

func TestTypesOfANodeAreThoseThatAllItsKeywordsTake(t *testing.T) {
	for input, want := range map[string]string{
		`{}`:                                 "string number boolean object array null",
		`{"type":["string","null"]}`:         "string null",
		`{"type":"integer","nullable":true}`: "integer null",
		`{"enum":["a",null]}`:                "string null",
		`{"const":1.0}`:                      "integer",
		`{"allOf":[{"type":["string","object"]},{"type":"object"}]}`:          "object",
		`{"type":["string","array"],"anyOf":[{"const":"x"},{"enum":[true]}]}`: "string",
	} {
		tree := loaded(t, input)
		if got := strings.Join(tree.Takes(tree.Root, 0).Names(), " "); got != want {
			t.Errorf("%s takes %s, not %s", input, got, want)
		}
	}
}

func TestReportAndBudgetAreBounded(t *testing.T) {
	tree := loaded(t, `{}`)
	for i := range 2 * maxChanges {
		tree.Report("/x", "code", fmt.Sprint(i), strings.Repeat("é", maxShown), true)
	}
	last := tree.Changes[len(tree.Changes)-1]
	if len(tree.Changes) != maxChanges+1 || last.Code != "report_truncated" {
		t.Errorf("%d changes, the last %+v", len(tree.Changes), last)
	}
	if after := tree.Changes[0].After; len(after) > maxShown+10 || !json.Valid(after) {
		t.Errorf("%d bytes are shown: %s", len(after), after)
	}
	for tree.Step() {
		if tree.Steps > 10*maxNodes {
			t.Fatal("the budget has no end")
		}
	}
	if f, ok := tree.Err.(*Failure); !ok || f.Code != "too_many_nodes" {
		t.Errorf("it ended with %v", tree.Err)
	}
}

func TestACloneSharesNothingAndKeepsOriginsAndHints(t *testing.T) {
	tree := loaded(t, `{"properties":{"a":{"enum":[1]}}}`)
	a := tree.Root.Object("properties").Object("a")
	hint := &Hint{Nulls: map[string]bool{"x": true}}
	tree.Origin[a], tree.Hints[a] = "/properties/a", hint
	c := tree.Clone(tree.Root).Object("properties").Object("a")
	c.Set("enum", []any{})
	if len(a.List("enum")) != 1 || tree.Origin[c] != "/properties/a" || tree.Hints[c] != hint {
		t.Errorf("the clone's origin is %q, the original is %s", tree.Origin[c], jsonvalue.Append(nil, a))
	}
}

func TestConstraintsThatAreRemovedAreSaid(t *testing.T) {
	for input, want := range map[string]string{
		`{"pattern":"^a"}`:                           "Must match the pattern ^a.",
		`{"minLength":2,"description":"A name"}`:     "A name. At least 2 characters.",
		`{"uniqueItems":true,"description":"Done!"}`: "Done! No item twice.",
		`{"not":{"const":1}}`:                        `Must not match {"const":1}.`,
	} {
		tree := loaded(t, input)
		for _, kw := range slices.Clone(tree.Root.Keys()) {
			if kw != "description" {
				tree.Remove(tree.Root, kw, "keyword_removed")
			}
		}
		if got := tree.Root.String("description"); got != want || len(tree.Changes) != 1 || !tree.Changes[0].Lossy {
			t.Errorf("%s became %q, %s", input, got, fmt.Sprint(tree.Changes))
		}
	}
}
