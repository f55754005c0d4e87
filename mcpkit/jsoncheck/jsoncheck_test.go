package jsoncheck

import (
	"errors"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func decode(t testing.TB, s string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compile(t testing.TB, s string, o Options) *Schema {
	t.Helper()
	c, err := Compile(decode(t, s), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSchemasOfEveryDraftAreChecked(t *testing.T) {
	for _, draft := range []string{
		"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
		"https://json-schema.org/draft/2020-12/schema",
	} {
		s := compile(t, `{"$schema":"`+draft+`","type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, Options{})
		if err := s.Check(decode(t, `{"n":9007199254740993}`), 22); err != nil {
			t.Errorf("%s: %v", draft, err)
		}
		var invalid *jsonschema.ValidationError
		if err := s.Check(decode(t, `{"n":"x"}`), 9); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", draft, err)
		}
	}
}

func TestANumberBeyondAllUseIsRefusedBeforeItIsComputed(t *testing.T) {
	s := compile(t, `{"properties":{"n":{"multipleOf":3}}}`, Options{})
	for _, n := range []string{"1e999999999", "1E-999999999", "1e99999999999999999999"} {
		if err := s.Check(decode(t, `{"n":`+n+`}`), 20); err == nil || !strings.Contains(err.Error(), "beyond all use") {
			t.Errorf("%s: %v", n, err)
		}
	}
}

func TestARecursiveUnionThatExplodesEndsSoon(t *testing.T) {
	for _, draft := range []string{"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"} {
		s := compile(t, `{"$schema":"`+draft+`","properties":{"d":{"oneOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]}}}`, Options{})
		deep := strings.Repeat(`{"d":`, 60) + "1" + strings.Repeat("}", 60)
		if err := s.Check(decode(t, deep), len(deep)); !errors.Is(err, errBudget) {
			t.Errorf("%s: %v", draft, err)
		}
	}
}

func TestOtherDocumentsAreNotFetched(t *testing.T) {
	if _, err := Compile(decode(t, `{"$ref":"http://127.0.0.1:1/x.json"}`), Options{}); err == nil || !strings.Contains(err.Error(), "not fetched") {
		t.Errorf("got %v", err)
	}
}

func TestAPatternBeyondGosExpressionsIsRefusedOrLetThrough(t *testing.T) {
	const schema = `{"pattern":"^(?=x)"}`
	if _, err := Compile(decode(t, schema), Options{}); err == nil {
		t.Error("the pattern compiled")
	}
	if err := compile(t, schema, Options{LenientPatterns: true}).Check("y", 3); err != nil {
		t.Error(err)
	}
}
