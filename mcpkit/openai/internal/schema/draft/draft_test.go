package draft

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// modern is input in 2020-12, and the codes of what was changed.
func modern(t *testing.T, input string, dropURI bool) (string, []string) {
	t.Helper()
	tree := base.New()
	if err := tree.Load(json.RawMessage(input)); err != nil {
		t.Fatal(err)
	}
	if err := Modernize(tree, dropURI); err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	var codes []string
	for _, c := range tree.Changes {
		codes = append(codes, c.Code)
	}
	return string(jsonvalue.Append(nil, tree.Root)), codes
}

func TestSlipsOfServersAreMended(t *testing.T) {
	for input, want := range map[string][2]string{
		`{"type":"dict","properties":{"a":{"type":"str"}}}`: {`{"type":"object","properties":{"a":{"type":"string"}}}`, "type_alias type_alias"},
		`{"properties":[]}`:        {`{"properties":{}}`, "properties_empty"},
		`{"required":["a",1,"a"]}`: {`{"required":["a"]}`, "required_invalid"},
		`{"enum":[1,1]}`:           {`{"enum":[1]}`, "enum_duplicates"},
		`{"enum":[]}`:              {`{}`, "enum_empty"},
		`{"minLength":-1,"multipleOf":0,"description":7}`:         {`{}`, "invalid_keyword invalid_keyword invalid_keyword"},
		`{"properties":{"a":{"required":true}}}`:                  {`{"properties":{"a":{}},"required":["a"]}`, "required_lifted"},
		`{"properties":{"a":false,"b":3}}`:                        {`{"properties":{"a":{"not":{}},"b":{}}}`, "boolean_schema invalid_schema"},
		`{"anyOf":[{"not":{}},{"type":"string"}]}`:                {`{"type":"string"}`, "never_branch"},
		`{"type":"array"}`:                                        {`{"type":"array","items":{}}`, "items_missing"},
		`{"description":"a\u200bb"}`:                              {`{"description":"ab"}`, "hidden_characters"},
		`{"minimum":1,"exclusiveMinimum":true}`:                   {`{"exclusiveMinimum":1}`, "draft04_exclusive"},
		`{"$defs":{"A":{"$ref":"#/$defs/A"}},"$ref":"#/$defs/A"}`: {`{"$defs":{"A":{}},"$ref":"#/$defs/A"}`, "ref_loop"},
	} {
		got, codes := modern(t, input, false)
		if got != want[0] || strings.Join(codes, " ") != want[1] {
			t.Errorf("%s\nbecame %s, %s\nwant   %s, %s", input, got, strings.Join(codes, " "), want[0], want[1])
		}
	}
}

func TestTheURIOfTheDraftIsKeptWhereItIsTrueAndAllowed(t *testing.T) {
	const uri = `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`
	if got, codes := modern(t, uri, false); got != uri || codes != nil {
		t.Errorf("it became %s, %q", got, codes)
	}
	if got, codes := modern(t, uri, true); got != `{}` || len(codes) != 1 {
		t.Errorf("it became %s, %q", got, codes)
	}
	if got, _ := modern(t, `{"$schema":"http://json-schema.org/draft-07/schema#"}`, false); got != `{}` {
		t.Errorf("it became %s", got)
	}
}

func TestModernizingTwiceChangesNothing(t *testing.T) {
	once, _ := modern(t, `{"type":"object","properties":{"a":{"$ref":"#/definitions/A"},"b":{"type":"array","items":[{"type":"int"}]}},"definitions":{"A":{"nullable":true,"type":"string"}}}`, false)
	if twice, codes := modern(t, once, false); twice != once || codes != nil {
		t.Errorf("%s\nbecame %s, %q", once, twice, codes)
	}
}

func TestASchemaThatIsCheckedWithoutEndIsRefused(t *testing.T) {
	// Each definition uses the next one twice in place.
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range 20 {
		next := string(rune('a' + i + 1))
		b.WriteString(`"` + string(rune('a'+i)) + `":{"allOf":[{"$ref":"#/$defs/` + next + `"},{"$ref":"#/$defs/` + next + `"}]},`)
	}
	b.WriteString(`"u":{},"d0":{"$ref":"#/$defs/a"}}}`)
	tree := base.New()
	if err := tree.Load(json.RawMessage(b.String())); err != nil {
		t.Fatal(err)
	}
	err := Modernize(tree, false)
	if f, ok := err.(*base.Failure); !ok || f.Code != "too_complex" {
		t.Errorf("it ended with %v", err)
	}
}
