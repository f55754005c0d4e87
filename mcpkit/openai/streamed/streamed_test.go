package streamed

import (
	"fmt"
	"strings"
	"testing"

	openai "github.com/sashabaranov/go-openai"
)

func TestStreamedCallsAreToldApart(t *testing.T) {
	zero, one := 0, 1
	call := func(index *int, id, name, args string) openai.ToolCall {
		return openai.ToolCall{Index: index, ID: id, Function: openai.FunctionCall{Name: name, Arguments: args}}
	}
	for name, c := range map[string]struct {
		deltas []openai.ToolCall
		want   string
	}{
		"interleaved":                    {[]openai.ToolCall{call(&zero, "a", "f", ""), call(&one, "b", "g", `{"x"`), call(&zero, "", "", `{}`), call(&one, "", "", `:1}`)}, `a f {} | b g {"x":1}`},
		"whole, all with index 0":        {[]openai.ToolCall{call(&zero, "a", "f", `{"x":1}`), call(&zero, "b", "g", `{"y":2}`)}, `a f {"x":1} | b g {"y":2}`},
		"whole, without any index":       {[]openai.ToolCall{call(nil, "a", "f", `{"x":1}`), call(nil, "b", "g", ``)}, `a f {"x":1} | b g {}`},
		"pieces, without an index":       {[]openai.ToolCall{call(nil, "a", "f", `{"x"`), call(nil, "", "", `:1}`)}, `a f {"x":1}`},
		"the id in every piece":          {[]openai.ToolCall{call(&zero, "a", "f", `{"x"`), call(&zero, "a", "f", `:1}`)}, `a f {"x":1}`},
		"numbered otherwise":             {[]openai.ToolCall{call(&zero, "a", "f", `{"x":1}`), call(&zero, "b", "g", ""), call(&one, "", "", `{"y"`), call(&one, "", "", `:2}`)}, `a f {"x":1} | b g {"y":2}`},
		"another id in each piece":       {[]openai.ToolCall{call(&zero, "a", "f", `{"x"`), call(&zero, "b", "f", `:1`), call(&zero, "c", "f", `}`)}, `a f {"x":1}`},
		"whole, index 0, no id":          {[]openai.ToolCall{call(&zero, "", "f", `{"x":1}`), call(&zero, "", "f", `{"y":2}`), call(&zero, "", "g", `{}`)}, `call_0 f {"x":1} | call_1 f {"y":2} | call_2 g {}`},
		"the name in pieces":             {[]openai.ToolCall{call(&zero, "a", "mcp__s", ""), call(&zero, "", "__f", ""), call(&zero, "", "", `{"x":1}`)}, `a mcp__s__f {"x":1}`},
		"the name so far":                {[]openai.ToolCall{call(&zero, "a", "mcp", ""), call(&zero, "a", "mcp__f", ""), call(&zero, "a", "mcp__f", `{"x":1}`)}, `a mcp__f {"x":1}`},
		"a piece like the one before it": {[]openai.ToolCall{call(&zero, "a", "mcp__s__s", ""), call(&zero, "", "__s", `{"x":1}`)}, `a mcp__s__s__s {"x":1}`},
		"no name at all":                 {[]openai.ToolCall{call(&zero, "a", "", `{"x"`), call(&zero, "", "", `:1}`)}, `a  {"x":1}`},
		"the name at the end":            {[]openai.ToolCall{call(&zero, "a", "", `{"x"`), call(&zero, "", "f", ""), call(&zero, "", "", `:1}`)}, `a f {"x":1}`},
		"nothing, and another one":       {[]openai.ToolCall{call(&zero, "a", "f", ""), call(&zero, "b", "g", `{"x":1}`)}, `a f {} | b g {"x":1}`},
		"no id at all":                   {[]openai.ToolCall{call(&zero, "", "f", ``), call(&one, "", "g", ``)}, `call_0 f {} | call_1 g {}`},
	} {
		var collector Collector
		for _, d := range c.deltas {
			collector.Add([]openai.ToolCall{d})
		}
		var got []string
		for _, call := range collector.Calls() {
			got = append(got, call.ID+" "+call.Function.Name+" "+call.Function.Arguments)
		}
		if s := strings.Join(got, " | "); s != c.want {
			t.Errorf("%s: %s", name, s)
		}
	}
	var together Collector // whole calls with one index in one chunk
	together.Add([]openai.ToolCall{call(&zero, "", "f", `{"x":1}`), call(&zero, "", "g", `{"y":2}`)})
	if got := together.Calls(); len(got) != 2 || got[0].Function.Arguments != `{"x":1}` || got[1].Function.Name != "g" {
		t.Errorf("two calls in one chunk became %+v", got)
	}
	var flood Collector
	for i := range 3 * maxCalls {
		flood.Add([]openai.ToolCall{call(&i, fmt.Sprint(i), "f", "{}")})
	}
	if n := len(flood.Calls()); n != maxCalls {
		t.Errorf("a flood left %d calls", n)
	}
}
