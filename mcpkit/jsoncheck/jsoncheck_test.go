package jsoncheck

import (
	"errors"
	"fmt"
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

// Each of these would take minutes at the sizes of a large value. The sizes here
// are small, and a check would get through them if that kind of work were not paid
// for: it would end with the faults, or with none, and not for want of budget.
func TestSchemasThatAreDearInOtherWaysEndSoon(t *testing.T) {
	repeat := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	numbers, names := make([]string, 6000), make([]string, 6000)
	for i := range numbers {
		numbers[i], names[i] = fmt.Sprint(i), fmt.Sprintf(`"n%d"`, i)
	}
	for name, c := range map[string]struct{ schema, value string }{
		"many patterns":    {`{"allOf":[` + repeat(`{"pattern":"(x+x+)+y"}`, 300) + `]}`, `"` + strings.Repeat("x", 20_000) + `"`},
		"a large pattern":  {`{"pattern":"` + strings.Repeat("(x*)*", 5000) + `y"}`, `"` + strings.Repeat("x", 20_000) + `"`},
		"many numbers":     {`{"items":{"enum":[` + strings.Join(numbers, ",") + `]}}`, `[` + repeat("-1", 50_000) + `]`},
		"many names":       {`{"items":{"required":[` + strings.Join(names, ",") + `]}}`, `[` + repeat("{}", 5_000) + `]`},
		"dependent names":  {`{"items":{"dependentRequired":{"a":[` + strings.Join(names, ",") + `]}}}`, `[` + repeat(`{"a":1}`, 5_000) + `]`},
		"looked at anew":   {`{"allOf":[` + repeat(`{"contains":true}`, 300) + `],"unevaluatedItems":true}`, `[` + repeat("1", 2_000) + `]`},
		"all are faults":   {`{"items":{"type":"string"}}`, `[` + repeat("1", 600_000) + `]`},
		"a number of size": {`{"type":"integer","minimum":3}`, strings.Repeat("7", 1_000_000) + ".0"},
	} {
		s := compile(t, c.schema, Options{})
		err := s.Check(decode(t, c.value), len(c.value))
		if err == nil || !errors.Is(err, errBudget) && !strings.Contains(err.Error(), "beyond all use") {
			t.Errorf("%s: %.100v", name, err)
		}
	}
}

func TestTheBudgetGrowsWithTheValueAndHasAnEnd(t *testing.T) {
	for size, want := range map[int]int{0: 50_000, 20_000: 250_000, 1 << 24: 1 << 24, 1 << 40: 1 << 24} {
		if got := budget(size); got != want {
			t.Errorf("%d bytes may spend %d, want %d", size, got, want)
		}
	}
}

func TestPatternsThatStandForMuchMoreAreNotCompiled(t *testing.T) {
	for _, schema := range []string{`{"allOf":[` + strings.Repeat(`{"pattern":".{1000}"},`, 2000) + `true]}`, `{"pattern":"` + strings.Repeat("x", 100_000) + `"}`} {
		if _, err := Compile(decode(t, schema), Options{}); err == nil {
			t.Errorf("%.40s… compiled", schema)
		}
	}
	s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, Options{})
	for range 300 { // what is checked does not count as what the schema holds
		if err := s.Check(".{1000}", 9); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALargeHonestValueIsChecked(t *testing.T) {
	s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","items":{"type":"object","properties":{"id":{"type":"integer"},"tag":{"enum":["a","b","c"]},
		"when":{"type":"string","format":"date"},"image":{"type":"string","pattern":"^[A-Za-z0-9+/]*={0,2}$"}},"required":["id","tag"]}}`, Options{})
	row := `{"id":12,"tag":"c","when":"2026-01-01","image":"` + strings.Repeat("iVBORw0K", 50) + `"},`
	doc := `[` + strings.Repeat(row, 5000) + strings.TrimSuffix(row, ",") + `]`
	if err := s.Check(decode(t, doc), len(doc)); err != nil {
		t.Errorf("%.200v", err)
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
