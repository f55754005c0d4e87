package openai

import (
	"strings"
	"testing"
)

const offlineTools = `"tools":[
	{"server":"push","tool":"subs","description":"Subscribes.","inputSchema":{"type":"object","properties":{"uids[]":{"type":"array"},"n":{"type":"int"}},"required":["uids[]"]}},
	{"server":"s","tool":"t","inputSchema":null}],"reserved":["mcp__s__t"]`

func TestConvertJSONSaysWhatBecameOfEachTool(t *testing.T) {
	out, err := ConvertJSON("openai", []byte("{"+offlineTools+"}"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"tools":[` +
		`{"server":"push","tool":"subs","name":"mcp__push__subs","description":"Subscribes.","parameters":{"type":"object","properties":{"uids[]":{"type":"array","items":{}},"n":{"type":"integer"}},"required":["uids[]"]},"strict":false},` +
		`{"server":"s","tool":"t","name":"mcp__s__t_12dce344856d5b2d","description":"","parameters":{"type":"object","properties":{}},"strict":false}],` +
		`"report":[` +
		`{"server":"push","tool":"subs","pointer":"/properties/uids[]/items","code":"items_missing","before":null,"after":{},"lossy":false},` +
		`{"server":"push","tool":"subs","pointer":"/properties/n/type","code":"type_alias","before":"int","after":"integer","lossy":false},` +
		`{"server":"s","tool":"t","pointer":"","code":"missing_schema","before":null,"after":{"type":"object","properties":{}},"lossy":false}]}`
	if string(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
}

func TestDecodeJSONGivesArgumentsOrOneError(t *testing.T) {
	for _, c := range []struct {
		call, want string
		ok         bool
	}{
		{`"name":"mcp__push__subs","arguments":"{\"uids[]\":\"[1]\",\"n\":9007199254740993}"`,
			`{"server":"push","tool":"subs","arguments":{"uids[]":[1],"n":9007199254740993},"repairs":["/uids[] was sent as a string that holds JSON"]}`, true},
		{`"name":"mcp__push__subs","arguments":"{}"`,
			`{"error":{"error_code":"invalid_arguments","message":"arguments for mcp__push__subs do not fit: the arguments: required and missing: \"uids[]\""}}`, false},
		{`"name":"subs","arguments":"{}"`,
			`{"error":{"error_code":"tool.ambiguous_call","message":"\"subs\" does not say which server is meant; use a full name","candidates":["mcp__push__subs"]}}`, false},
		{`"name":"mcp__s__t","arguments":""`,
			`{"error":{"error_code":"tool_not_found","message":"\"mcp__s__t\" is a local function, not a tool of a server"}}`, false},
	} {
		out, ok, err := DecodeJSON("openai", []byte("{"+offlineTools+","+c.call+"}"))
		if err != nil || ok != c.ok || string(out) != c.want {
			t.Errorf("%s:\ngot  %s, %v, %v\nwant %s", c.call, out, ok, err, c.want)
		}
	}
}

func TestOfflineInputThatCannotBeReadIsAnError(t *testing.T) {
	for in, want := range map[string]string{`[`: "reading the input", `{"tools":5}`: "reading the input", `{"tools":[],"name":"x"}`: `"arguments" must be`} {
		if _, _, err := DecodeJSON("", []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, err := ConvertJSON("nobody", []byte(`{}`)); err == nil {
		t.Error("an unknown profile passed")
	}
}
