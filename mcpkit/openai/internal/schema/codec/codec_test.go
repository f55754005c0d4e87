package codec

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// loaded is a tree of input.
func loaded(t *testing.T, input string) *base.Tree {
	t.Helper()
	tree := base.New()
	if err := tree.Load(json.RawMessage(input)); err != nil {
		t.Fatal(err)
	}
	return tree
}

// object is the value that text is JSON of.
func object(t *testing.T, text string) *base.Node {
	t.Helper()
	v, err := jsonvalue.Parse([]byte(text), jsonvalue.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return v.(*base.Node)
}

func TestArgumentsGetTheServersForm(t *testing.T) {
	shown := loaded(t, `{"type":"object","properties":{"k_1":{"type":"integer"},"gone":{"type":["string","null"]},"sure":{"type":["string","null"]},"list":{"type":"array","items":{"type":"number"}}}}`)
	shown.Hints[shown.Root] = &base.Hint{Keys: map[string]string{"k_1": "größe"}, Nulls: map[string]bool{"gone": true}}
	sent := loaded(t, `{"type":"object","properties":{"größe":{"type":"integer"},"gone":{"type":"string"},"list":{"type":"array","items":{"type":"number"}}},"required":["größe"]}`)
	made := 0
	k := New(func() (_, _ *base.Tree) { made++; return shown, sent })
	if made != 0 {
		t.Error("the trees were made before they were needed")
	}
	for args, want := range map[string]string{
		`{"k_1":1,"gone":null,"sure":null}`: `{"größe":1,"sure":null}`,
		`{"k_1":"7","list":"[1,2]"}`:        `{"größe":7,"list":[1,2]}`,
	} {
		out, _, err := k.Decode(object(t, args))
		if err != nil || string(jsonvalue.Append(nil, out)) != want {
			t.Errorf("%s became %v, %v", args, out, err)
		}
	}
	_, repairs, _ := k.Decode(object(t, `{"k_1":"7"}`))
	if !slices.Equal(repairs, []string{"/größe was sent as a string that holds JSON"}) {
		t.Errorf("repairs %q", repairs)
	}
	if _, _, err := k.Decode(object(t, `{}`)); err == nil || !strings.Contains(err.Error(), `required and missing: "k_1"`) {
		t.Errorf("the error names another key than the model's: %v", err)
	}
	if made != 1 || !k.Checked() {
		t.Errorf("the trees were made %d times, checked: %v", made, k.Checked())
	}
}

func TestANullThatMayStandForNothingIsLeftOutOnlyWhereTheServerRefusesIt(t *testing.T) {
	for sent, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":["string","null"]}}}`: `{"a":null}`,
		`{"type":"object","properties":{"a":{"type":"string"}}}`:          `{}`,
	} {
		shown := loaded(t, `{"type":"object","properties":{"a":{"type":["string","null"]}}}`)
		shown.Hints[shown.Root] = &base.Hint{Maybe: map[string]bool{"a": true}}
		k := New(func() (_, _ *base.Tree) { return shown, loaded(t, sent) })
		if out, _, err := k.Decode(object(t, `{"a":null}`)); err != nil || string(jsonvalue.Append(nil, out)) != want {
			t.Errorf("for %s it became %v, %v", sent, out, err)
		}
	}
}

func TestASchemaThatCannotBeReadChecksNothing(t *testing.T) {
	k := New(func() (_, _ *base.Tree) { return base.Opened(), nil })
	if out, _, err := k.Decode(object(t, `{"any":[1]}`)); err != nil || k.Checked() || string(jsonvalue.Append(nil, out)) != `{"any":[1]}` {
		t.Errorf("%v, %v", out, err)
	}
}
