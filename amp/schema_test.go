package amp

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write envelope.schema.json from the Go types")

// describe turns the Go types into the schema: the structure comes from them,
// the forms of strings are added here.
func describe(t *testing.T) []byte {
	t.Helper()
	s, err := jsonschema.For[Envelope](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Timestamp](): {Type: "string", Format: "date-time",
			Pattern: `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`},
		reflect.TypeFor[json.RawMessage](): {},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.ID = "https://aurorabot.dev/schema/amp/envelope.json"
	s.Title = "AMP envelope"
	s.Description = "One event for a Brain, as the platform writes it."
	one, limit, first := 1, MaxLength, 1.0
	var protocol any = Protocol
	h := s.Properties["header"]
	h.Properties["protocol"] = &jsonschema.Schema{Const: &protocol}
	h.Properties["method"].MinLength = &one
	h.Properties["message_id"].MinLength, h.Properties["message_id"].MaxLength = &one, &limit
	h.Properties["source"].Properties["app"].MinLength = &one
	h.Properties["seq"].Minimum = &first
	p := s.Properties["payload"]
	p.Properties["type"].Pattern = `^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`
	p.Properties["type"].MaxLength = &limit
	expire := p.Properties["expire_at"] // a pointer in Go, but never null in a file
	expire.Type, expire.Types = "string", nil
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestTheSchemaInTheRepositoryMatchesTheGoTypes(t *testing.T) {
	want := describe(t)
	if *update {
		if err := os.WriteFile("envelope.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(Schema)); diff != "" {
		t.Errorf("envelope.schema.json differs (-types +file); run go test ./amp -update\n%s", diff)
	}
}

func compileSchema(t *testing.T) *santhosh.Schema {
	t.Helper()
	doc, err := santhosh.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := santhosh.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("envelope.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("envelope.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func satisfies(t *testing.T, s *santhosh.Schema, raw []byte) error {
	t.Helper()
	v, err := santhosh.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestGoldenEnvelopesParseSatisfyTheSchemaAndKeepTheirContent(t *testing.T) {
	s := compileSchema(t)
	files, err := filepath.Glob("testdata/envelopes/*.json")
	if err != nil || len(files) < 6 {
		t.Fatalf("golden envelopes: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if err := satisfies(t, s, raw); err != nil {
				t.Error(err)
			}
			out, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, out, "", "  "); err != nil {
				t.Fatal(err)
			}
			indented.WriteByte('\n')
			if diff := cmp.Diff(string(raw), indented.String()); diff != "" {
				t.Errorf("content changed (-file +encoded):\n%s", diff)
			}
		})
	}
}
