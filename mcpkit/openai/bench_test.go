package openai

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// catalogue is n tools whose schemas are those of the cases, told apart by a
// description so that no two are equal.
func catalogue(b *testing.B, n int) []*catalog.Tool {
	b.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		b.Fatal(err)
	}
	var cases []aCase
	if err := json.Unmarshal(data, &cases); err != nil {
		b.Fatal(err)
	}
	var schemas []json.RawMessage
	for _, c := range cases {
		if c.Kind == "convert" && len(c.Input.InputSchema) < 8000 && len(c.Input.InputSchema) > 60 {
			schemas = append(schemas, c.Input.InputSchema)
		}
	}
	var tools []*catalog.Tool
	for i := range n {
		s := fmt.Sprintf(`{"$comment":"%d",%s`, i, schemas[i%len(schemas)][1:])
		tools = append(tools, newTool(fmt.Sprintf("server%d", i%20), fmt.Sprintf("tool%d", i), "Does one thing.", s))
	}
	return tools
}

func BenchmarkExport(b *testing.B) {
	tools := catalogue(b, 500)
	for _, profile := range []string{"openai", "openai-strict", "gemini"} {
		b.Run(profile+"/cold", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New(tools, Options{Profile: profile}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(profile+"/warm", func(b *testing.B) {
			b.ReportAllocs()
			opts := Options{Profile: profile, Cache: new(Cache)}
			if _, err := New(tools, opts); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := New(tools, opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	x, err := New([]*catalog.Tool{newTool("s", "t", "", `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1},
		"options":{"type":"object","properties":{"units":{"enum":["metric","imperial"]}}}},"required":["city"],"additionalProperties":false}`)}, Options{Profile: "openai-strict"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Decode("mcp__s__t", `{"city":"Ulm","days":3,"options":{"units":null}}`); err != nil {
			b.Fatal(err)
		}
	}
}
