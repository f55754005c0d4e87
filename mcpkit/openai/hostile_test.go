package openai

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/internal/cputime"
)

// hostile are schemas made to cost more than they weigh.
func hostile() map[string]string {
	chain := func(n int, node func(i int) string) string {
		var defs []string
		for i := range n {
			defs = append(defs, fmt.Sprintf(`"L%d":%s`, i, node(i)))
		}
		return fmt.Sprintf(`{"type":"object","properties":{"x":{"$ref":"#/$defs/L%d"}},"$defs":{%s}}`, n-1, strings.Join(defs, ","))
	}
	twice := func(format string) func(i int) string {
		return func(i int) string {
			if i == 0 {
				return `{"type":"string"}`
			}
			return fmt.Sprintf(format, i-1, i-1)
		}
	}
	wide := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	return map[string]string{
		"properties that double":  chain(60, twice(`{"type":"object","properties":{"l":{"$ref":"#/$defs/L%d"},"r":{"$ref":"#/$defs/L%d"}}}`)),
		"unions that double":      chain(60, twice(`{"anyOf":[{"$ref":"#/$defs/L%d"},{"$ref":"#/$defs/L%d"}]}`)),
		"intersections":           chain(60, twice(`{"allOf":[{"$ref":"#/$defs/L%d"},{"$ref":"#/$defs/L%d"}]}`)),
		"items and contains":      chain(60, twice(`{"type":"array","items":{"$ref":"#/$defs/L%d"},"contains":{"$ref":"#/$defs/L%d"}}`)),
		"words beside references": chain(60, twice(`{"type":"object","properties":{"l":{"$ref":"#/$defs/L%d","description":"l"},"r":{"$ref":"#/$defs/L%d","description":"r"}}}`)),
		"depth 2000":              strings.Repeat(`{"properties":{"a":`, 2000) + `{}` + strings.Repeat(`}}`, 2000),
		"depth 8000":              strings.Repeat(`{"items":`, 8000) + `{}` + strings.Repeat(`}`, 8000),
		"depth in data":           `{"properties":{"a":{"default":` + strings.Repeat(`[`, 3000) + strings.Repeat(`]`, 3000) + `}}}`,
		"a union of itself":       `{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#/anyOf/0"}]}`,
		"a wide union":            `{"type":"object","anyOf":[` + wide(1500, `{"properties":{"a":{"const":1},"b":{"type":"string"}}}`) + `]}`,
		"unions of unions":        `{"type":"object","properties":{"a":{"anyOf":[` + wide(60, `{"anyOf":[`+wide(60, `{"type":["string","integer","boolean"],"minLength":1}`)+`]}`) + `]}}}`,
		"many properties": `{"type":"object","properties":{` + func() string {
			var l []string
			for i := range 6_000 {
				l = append(l, fmt.Sprintf(`"p%d":{"type":"string"}`, i))
			}
			return strings.Join(l, ",")
		}() + `}}`,
		"a heavy pattern": `{"type":"object","properties":{"a":{"type":"string","pattern":"` + strings.Repeat(`(a{1,900}){1,900}`, 40) + `"}}}`,
		"a huge number":   `{"type":"object","properties":{"a":{"maximum":1e999999999,"minimum":-1e999999999,"multipleOf":1e-999999999}}}`,
		"megabytes":       `{"type":"object","description":"` + strings.Repeat("x", 2<<20) + `"}`,
	}
}

func TestHostileSchemasAreContainedInEveryProfile(t *testing.T) {
	const generous = 20 * time.Second // of the processor
	for name, schema := range hostile() {
		for _, profile := range []string{"openai", "openai-strict", "gemini", "llamacpp", "typed"} {
			var x *Export
			took := cputime.Of(func() {
				x = export(t, profile, newTool("evil", "bomb", "d", schema), newTool("good", "fine", "d", `{"type":"object","properties":{"q":{"type":"string"}}}`))
			})
			if took > generous {
				t.Errorf("%s, %s: took %v", name, profile, took)
			}
			if len(x.Tools) != 2 {
				t.Fatalf("%s, %s: %d tools", name, profile, len(x.Tools))
			}
			for _, it := range x.items {
				if n := len(it.result.Parameters); n > 256<<10 {
					t.Errorf("%s, %s: %d bytes", name, profile, n)
				}
				for _, p := range problems(t, profile, it) {
					t.Errorf("%s, %s: %s in %.300s", name, profile, p, it.result.Parameters)
				}
			}
			if _, err := x.Decode("mcp__good__fine", `{"q":"x"}`); err != nil {
				t.Errorf("%s, %s: the neighbour: %v", name, profile, err)
			}
			took = cputime.Of(func() {
				if _, err := x.Decode("mcp__evil__bomb", `{"x":[[1]],"a":1,"l":{}}`); err != nil && !strings.Contains(err.Error(), "invalid_arguments") {
					t.Errorf("%s, %s: %v", name, profile, err)
				}
			})
			if took > generous {
				t.Errorf("%s, %s: decoding took %v", name, profile, took)
			}
		}
	}
}

func TestOneBadToolLeavesTheOthersAlone(t *testing.T) {
	good := newTool("good", "fine", "d", `{"type":"object","properties":{"q":{"type":"string"}}}`)
	want := export(t, "openai", good).items[0].result.Parameters
	for name, schema := range hostile() {
		x := export(t, "openai", newTool("evil", "bomb", "d", schema), good)
		if got := x.byID[catalog.ID{Server: "good", Tool: "fine"}].result.Parameters; string(got) != string(want) {
			t.Errorf("beside %s it is %s", name, got)
		}
	}
}

func TestArgumentsThatCostTooMuchToCheckAreRefused(t *testing.T) {
	x := export(t, "openai", newTool("evil", "bomb", "d",
		`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"oneOf":[{"properties":{"n":{"$ref":"#/$defs/N"}},"required":["y"]},{"properties":{"n":{"$ref":"#/$defs/N"}},"required":["z"]}]}}}`))
	deep := strings.Repeat(`{"n":`, 60) + `{}` + strings.Repeat(`}`, 60)
	_, err := x.Decode("mcp__evil__bomb", deep)
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

func TestAbsurdNumbersAreNotComputed(t *testing.T) {
	x := export(t, "openai", newTool("s", "t", "d", `{"type":"object","properties":{"n":{"type":"number","maximum":5,"multipleOf":0.1},"e":{"enum":[1,2]}}}`))
	for _, args := range []string{`{"n":1e999999999}`, `{"n":-1e999999999}`, `{"n":1e-999999999}`, `{"e":1e999999999}`} {
		if call, err := x.Decode("mcp__s__t", args); err == nil {
			t.Errorf("%s became %s", args, call.Arguments)
		}
	}
}
