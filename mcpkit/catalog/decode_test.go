package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzDecodeTool(f *testing.F) {
	for _, s := range []string{`{"name":"echo","inputSchema":{"type":"object"}}`, `{"name":"a","name":7}`, `{"name":"x","inputSchema":null,"outputSchema":null}`,
		`null`, `[]`, `{"title":[],"description":{},"annotations":1,"name":"\u0000"}`, `{"\u006eame":"y"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) { // as everything that passes the scanner
			return
		}
		tool, reason := Decode(raw)
		if (tool == nil) == (reason == "") {
			t.Fatalf("%v with %q", tool, reason)
		}
		if tool == nil {
			return
		}
		var want struct {
			InputSchema  json.RawMessage `json:"inputSchema"`
			OutputSchema json.RawMessage `json:"outputSchema"`
		}
		if err := json.Unmarshal(raw, &map[string]json.RawMessage{}); err != nil {
			t.Fatalf("%q is a tool, but %v", raw, err)
		}
		for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema, tool.Annotations} {
			if schema != nil && !json.Valid(schema) {
				t.Fatalf("%q gives %q", raw, schema)
			}
		}
		if strings.Count(string(raw), "nputSchema") == 1 && json.Unmarshal(raw, &want) == nil && tool.InputSchema != nil &&
			want.InputSchema != nil && string(want.InputSchema) != string(tool.InputSchema) {
			t.Fatalf("%q gives %q", raw, tool.InputSchema)
		}
	})
}
