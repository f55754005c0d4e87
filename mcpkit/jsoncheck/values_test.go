package jsoncheck

import (
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

// known are schemas, with values that fit and such that do not.
var known = []struct {
	schema    string
	fits, not []string
}{
	{`{}`, []string{`{}`, ` [1, {"a":"b"}, null] `, `"\u0041"`, `12.5`, `1e3`}, []string{``, `{`, `{} {}`, "\"\xff\""}},
	{`{"type":"object","properties":{"message":{"type":"string","description":"d","format":"uri"}},"required":["message"]}`,
		[]string{`{"message":"hello"}`, `{ "message" : "say \"天气\"" , "more":[] }`, `{"message":"y","message":"x"}`, `{"message":1,"message":"x"}`, `{"mess\u0061ge":"x"}`},
		[]string{`{}`, `{"message":1}`, `[]`, `{"message":"x"`, `{"message":"x",}`, `{"message":"x"}}`, `{"message":"` + "\x01" + `"}`, `{"message":"\x"}`, `{"message":"x","message":1}`}},
	{`{"properties":{"a":{"type":["integer","null"]}},"required":["a","b"],"additionalProperties":{"type":"boolean"}}`,
		[]string{`{"a":1,"b":true}`, `{"a":null,"b":false,"c":true}`, `"no object"`, `{"a":1.0,"b":true}`}, []string{`{"a":1}`, `{"a":1.5,"b":true}`, `{"a":"1","b":true}`, `{"a":1,"b":1}`, `{"a":1,"b":true,"c":null}`}},
	{`{"properties":{"a":true},"additionalProperties":false}`, []string{`{}`, `{"a":{"b":[]}}`}, []string{`{"b":1}`, `{"a":1,"b":1}`}},
	{`{"enum":["rain","天气"]}`, []string{`"rain"`, `"天气"`, `"r\u0061in"`}, []string{`"Rain"`, `1`, `null`, `["rain"]`}},
	{`{"const":"x"}`, []string{`"x"`}, []string{`"y"`}},
	{`{"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-z天气]+$"}`, []string{`"ab"`, `"天气a"`, `"\u0061b"`}, []string{`"a"`, `"abcd"`, `"AB"`, `"天"`}},
	{`{"type":"number","minimum":-90,"maximum":90}`, []string{`-90`, `90`, `12.25`, `89.99999`, `90.0`, `9e1`}, []string{`-90.0001`, `91`, `1000000000000000000000`, `"1"`, `90.00000000000000000001`}},
	{`{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}`, []string{`1`, `9`, `1.0`}, []string{`0`, `10`, `-1`, `1.5`, `01`, `-`}},
	{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2}`, []string{`[1]`, `[1, 2]`}, []string{`[]`, `[1,2,3]`, `["1"]`, `[1,]`, `[1`, `{}`}},
	{`{"anyOf":[{"type":"string"},{"type":"null"},{"type":"array","items":{"type":"string"}}]}`, []string{`"x"`, `null`, `["x","y"]`, `[]`}, []string{`1`, `[1]`, `["x",1]`, `true`}},
	{`{"allOf":[{"required":["a"]},{"properties":{"a":{"type":"string"}}}],"type":"object"}`, []string{`{"a":"x"}`}, []string{`{}`, `{"a":1}`, `[]`}},
	{`{"$defs":{"p":{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#/$defs/p"}},"required":["n"]}},"properties":{"p":{"$ref":"#/$defs/p"}},"required":["p"]}`,
		[]string{`{"p":{"n":1,"next":{"n":2}}}`}, []string{`{"p":{"n":1,"next":{}}}`, `{"p":{}}`, `{}`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/w","type":"string"},"l":{"items":{"type":"boolean"}}},"definitions":{"w":{"type":"integer"}}}`,
		[]string{`{"a":1,"l":[true]}`}, []string{`{"a":"x"}`, `{"l":[1]}`}},
	{`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"type":"number","minimum":1,"exclusiveMinimum":true}}}`, []string{`{"n":2}`}, []string{`{"n":1}`}},
}

func TestAValueFitsItsSchemaOrDoesNot(t *testing.T) {
	for _, k := range known {
		s := compile(t, k.schema, Options{})
		for _, raw := range k.fits {
			if err := checked(s, []byte(raw)); err != nil {
				t.Errorf("%s: %s: %v", k.schema, raw, err)
			}
		}
		for _, raw := range k.not {
			if checked(s, []byte(raw)) == nil {
				t.Errorf("%s: %s passes", k.schema, raw)
			}
		}
	}
}

// checked is what reading raw and Check say.
func checked(s *Schema, raw []byte) error {
	v, err := jsonvalue.Decode(raw)
	if err == nil && !utf8.Valid(raw) {
		err = fmt.Errorf("it is not valid UTF-8")
	}
	if err != nil {
		return err
	}
	return s.Check(v, len(raw))
}
