package jsoncheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// known are schemas that Accepts knows, with values that fit and such that do not.
var known = []struct {
	schema      string
	fits, not   []string
	unbeknownst []string // fit, but only Check knows
}{
	{`{}`, []string{`{}`, ` [1, {"a":"b"}, null] `, `"\u0041"`, `12.5`}, []string{``, `{`, `{} {}`, "\"\xff\""}, []string{`1e3`}},
	{`{"type":"object","properties":{"message":{"type":"string","description":"d","format":"uri"}},"required":["message"]}`,
		[]string{`{"message":"hello"}`, `{ "message" : "say \"天气\"" , "more":[] }`, `{"message":"y","message":"x"}`},
		[]string{`{}`, `{"message":1}`, `[]`, `{"message":"x"`, `{"message":"x",}`, `{"message":"x"}}`, `{"message":"` + "\x01" + `"}`, `{"message":"\x"}`, `{"message":"x","message":1}`},
		[]string{`{"message":1,"message":"x"}`, `{"mess\u0061ge":"x"}`}},
	{`{"properties":{"a":{"type":["integer","null"]}},"required":["a","b"],"additionalProperties":{"type":"boolean"}}`,
		[]string{`{"a":1,"b":true}`, `{"a":null,"b":false,"c":true}`, `"no object"`}, []string{`{"a":1}`, `{"a":1.5,"b":true}`, `{"a":"1","b":true}`, `{"a":1,"b":1}`, `{"a":1,"b":true,"c":null}`},
		[]string{`{"a":1.0,"b":true}`}},
	{`{"properties":{"a":true},"additionalProperties":false}`, []string{`{}`, `{"a":{"b":[]}}`}, []string{`{"b":1}`, `{"a":1,"b":1}`}, nil},
	{`{"enum":["rain","天气"]}`, []string{`"rain"`, `"天气"`}, []string{`"Rain"`, `1`, `null`, `["rain"]`}, []string{`"r\u0061in"`}},
	{`{"const":"x"}`, []string{`"x"`}, []string{`"y"`}, nil},
	{`{"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-z天气]+$"}`, []string{`"ab"`, `"天气a"`}, []string{`"a"`, `"abcd"`, `"AB"`, `"天"`}, []string{`"\u0061b"`}},
	{`{"type":"number","minimum":-90,"maximum":90}`, []string{`-90`, `90`, `12.25`, `89.99999`}, []string{`-90.0001`, `91`, `1000000000000000000000`, `"1"`, `90.00000000000000000001`}, []string{`90.0`, `9e1`}},
	{`{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}`, []string{`1`, `9`}, []string{`0`, `10`, `-1`, `1.5`, `01`, `-`}, []string{`1.0`}},
	{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2}`, []string{`[1]`, `[1, 2]`}, []string{`[]`, `[1,2,3]`, `["1"]`, `[1,]`, `[1`, `{}`}, nil},
	{`{"anyOf":[{"type":"string"},{"type":"null"},{"type":"array","items":{"type":"string"}}]}`, []string{`"x"`, `null`, `["x","y"]`, `[]`}, []string{`1`, `[1]`, `["x",1]`, `true`}, nil},
	{`{"allOf":[{"required":["a"]},{"properties":{"a":{"type":"string"}}}],"type":"object"}`, []string{`{"a":"x"}`}, []string{`{}`, `{"a":1}`, `[]`}, nil},
	{`{"$defs":{"p":{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#/$defs/p"}},"required":["n"]}},"properties":{"p":{"$ref":"#/$defs/p"}},"required":["p"]}`,
		[]string{`{"p":{"n":1,"next":{"n":2}}}`}, []string{`{"p":{"n":1,"next":{}}}`, `{"p":{}}`, `{}`}, nil},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/w","type":"string"},"l":{"items":{"type":"boolean"}}},"definitions":{"w":{"type":"integer"}}}`,
		[]string{`{"a":1,"l":[true]}`}, []string{`{"a":"x"}`, `{"l":[1]}`}, nil},
	{`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"type":"number","minimum":1,"exclusiveMinimum":true}}}`, []string{`{"n":2}`}, []string{`{"n":1}`}, nil},
}

// unknown are schemas that Accepts leaves to Check.
var unknown = []string{
	`false`, `{"not":{}}`, `{"oneOf":[{"type":"string"}]}`, `{"enum":[1,"a"]}`, `{"const":{"a":1}}`, `{"if":{"type":"string"},"then":{"minLength":1}}`,
	`{"multipleOf":2}`, `{"uniqueItems":true}`, `{"prefixItems":[{"type":"string"}]}`, `{"contains":{"type":"string"}}`, `{"propertyNames":{"minLength":1}}`,
	`{"patternProperties":{"^a":{"type":"string"}}}`, `{"dependentRequired":{"a":["b"]}}`, `{"minProperties":1}`, `{"unevaluatedProperties":false}`,
	`{"$dynamicRef":"#"}`, `{"minimum":0.1}`, `{"required":["a"],"additionalProperties":false}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","format":"date"}`, `{"properties":{"a":{"anyOf":[{"type":"string"},{"not":{}}]}}}`,
}

func TestAValueThatFitsASimpleSchemaIsAcceptedAsItIsWritten(t *testing.T) {
	for _, k := range known {
		s := compile(t, k.schema, Options{})
		for _, raw := range k.fits {
			if !s.Accepts([]byte(raw)) {
				t.Errorf("%s does not accept %s", k.schema, raw)
			}
		}
		for _, raw := range append(k.not, k.unbeknownst...) {
			if s.Accepts([]byte(raw)) {
				t.Errorf("%s accepts %s", k.schema, raw)
			}
		}
		for _, raw := range append(k.fits, k.unbeknownst...) {
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

func TestASchemaThatIsNotSimpleAcceptsNothingByItself(t *testing.T) {
	for _, schema := range unknown {
		s := compile(t, schema, Options{})
		for _, raw := range []string{`{}`, `{"a":"b"}`, `[]`, `[1,1]`, `"a"`, `1`, `2`, `null`, `true`} {
			if s.Accepts([]byte(raw)) {
				t.Errorf("%s accepts %s", schema, raw)
			}
		}
	}
}

func TestAcceptingEndsSoonWhateverTheSchema(t *testing.T) {
	union := `{"type":"integer"}`
	for range 8 {
		union = `{"anyOf":[` + union + `,` + union + `]}`
	}
	loop := compile(t, `{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"properties":{"a":{"$ref":"#"}},"required":["b"]}]}`, Options{})
	wide := compile(t, union, Options{})
	text := []byte(`"` + strings.Repeat("a", 1<<20) + `"`)
	for name, c := range map[string]struct {
		schema *Schema
		raw    []byte
		runOut bool // its visits do, and not only its depth
	}{
		"a loop in a union":   {loop, []byte(strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)), false},
		"a loop in the value": {loop, []byte(strings.Repeat("[", 1<<16)), false},
		"a text read anew":    {wide, text, true},
	} {
		ok, left := c.schema.accepts(c.raw)
		if ok || left < 0 != c.runOut || left < -1-len(c.raw)/64 { // the text that is read last may be dearer than what is left
			t.Errorf("%s: it ended with %d visits left, accepted: %v", name, left, ok)
		}
	}
	if !compile(t, `{"type":"string"}`, Options{}).Accepts(text) {
		t.Error("a long text is not accepted")
	}
}

func TestAcceptingAllocatesNothing(t *testing.T) {
	s := compile(t, known[1].schema, Options{})
	raw := []byte(`{"message":"hello", "more":[1,{"a":null}]}`)
	if n := testing.AllocsPerRun(100, func() {
		if !s.Accepts(raw) {
			t.Fatal("it is not accepted")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// checked is what Decode and Check say.
func checked(s *Schema, raw []byte) error {
	v, err := Decode(raw)
	if err == nil && !utf8.Valid(raw) {
		err = fmt.Errorf("it is not valid UTF-8")
	}
	if err != nil {
		return err
	}
	return s.Check(v, len(raw))
}

func FuzzWhatIsAcceptedFits(f *testing.F) {
	var schemas []*Schema
	for i, k := range known {
		schemas = append(schemas, compile(f, k.schema, Options{}))
		for _, raw := range append(append(k.fits, k.not...), k.unbeknownst...) {
			f.Add(i, []byte(raw))
		}
	}
	f.Fuzz(func(t *testing.T, i int, raw []byte) {
		s := schemas[uint(i)%uint(len(schemas))]
		if !s.Accepts(raw) {
			return
		}
		if err := checked(s, raw); err != nil {
			t.Errorf("%s is accepted by schema %d: %v", raw, i, err)
		}
	})
}

func TestAStringIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	for i := range 0x120 {
		for _, s := range []string{string(rune(i)), "12345678" + string(rune(i)) + "90", string([]byte{byte(i), 'x'}), "\u2027\u2028\u2029\u202a 😀\xe2\x80" + string(rune(i))} {
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(s); err != nil {
				t.Fatal(err)
			}
			if got := string(AppendString(nil, s)) + "\n"; got != want.String() {
				t.Errorf("%q is written %s, want %s", s, got, want.String())
			}
		}
	}
}
