package headers

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestAValueThatAHeaderWouldChangeIsWrapped(t *testing.T) {
	for name, want := range map[string]string{
		"plain words":     "plain words",
		" a blank first":  "=?base64?IGEgYmxhbmsgZmlyc3Q=?=",
		"two\nlines":      "=?base64?dHdvCmxpbmVz?=",
		"天":               "=?base64?5aSp?=",
		"=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
	} {
		params, err := json.Marshal(map[string]string{"name": name})
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		Bound(nil).Describe(h, "prompts/get", params)
		if got := h.Get(Name); got != want || h.Get(Method) != "prompts/get" {
			t.Errorf("%q is sent as %q, want %q", name, got, want)
		}
	}
}

func TestArgumentsAreRepeatedUnderTheNamesTheToolGivesThem(t *testing.T) {
	bound, reasons := Bind([]json.RawMessage{[]byte(`{"name":"find","inputSchema":{"properties":{
		"where":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}},
		"many":{"type":"integer","x-mcp-header":"Many"},
		"deep":{"type":"boolean","x-mcp-header":"Deep"},
		"rest":{"type":"string"}}}}`)})
	if reasons[0] != "" {
		t.Fatal(reasons)
	}
	h := http.Header{}
	bound.Describe(h, "tools/call", []byte(`{"name":"find","arguments":{"where":{"region":"eu west"},"many":2.0,"deep":null,"rest":"x"}}`))
	want := http.Header{Method: {"tools/call"}, Name: {"find"}, Param + "Region": {"eu west"}, Param + "Many": {"2"}}
	if len(h) != len(want) {
		t.Errorf("got %v, want %v", h, want)
	}
	for name, v := range want {
		if h.Get(name) != v[0] {
			t.Errorf("%s is %q, want %q", name, h.Get(name), v[0])
		}
	}
}

func TestAWrongAnnotationIsReportedWithItsProperty(t *testing.T) {
	for properties, words := range map[string]string{
		`"a":{"type":"object","x-mcp-header":"A"}`:                                                     "a: only strings",
		`"a":{"properties":{"b":{"type":"string","x-mcp-header":"no name"}}}`:                          "a.b: it is not the name",
		`"a":{"type":"string","x-mcp-header":"Same"},"b":{"type":"string","x-mcp-header":"same"}`:      "b: another property",
		`"a":{"type":"string","x-mcp-header":7}`:                                                       "a: it is not the name",
		`"a":{"type":"string","x-mcp-header":"Fine"},"b":{"type":["string"],"x-mcp-header":"NotFine"}`: "b: only strings",
	} {
		bound, reasons := Bind([]json.RawMessage{[]byte(`{"name":"t","inputSchema":{"properties":{` + properties + `}}}`)})
		if !strings.Contains(reasons[0], words) || len(bound) > 0 {
			t.Errorf("%s: %q, bound %v; want %q", properties, reasons[0], bound, words)
		}
	}
}

// Whatever a server lists and a model says, what is sent are headers.
func FuzzDescribe(f *testing.F) {
	f.Add(`{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, `{"name":"t","arguments":{"a":"x\r\ny: z"}}`)
	f.Fuzz(func(t *testing.T, tool, params string) {
		bound, _ := Bind([]json.RawMessage{[]byte(tool)})
		h := http.Header{}
		bound.Describe(h, "tools/call", []byte(params))
		if err := Check(h); err != nil {
			t.Error(err)
		}
	})
}
