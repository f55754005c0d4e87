// Package schema makes the JSON Schemas of configuration files that package
// strict reads, from the Go structs that they are read into. What a schema
// cannot say, such as rules that span several values, stays with the reader.
package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Of makes the schema of a configuration struct that package strict reads, with
// what defaults holds as its defaults. Types beside those of package strict that
// have another form in a file than in Go have their schemas in types.
func Of[T any](id string, defaults *T, types map[reflect.Type]*jsonschema.Schema) *jsonschema.Schema {
	variable := `\$\{` // a value with variables is known only later
	least := 0.0
	all := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[strict.Duration](): {
			Types: []string{"number", "string", "null"}, Minimum: &least,
			Pattern: `^(([0-9.]+(ns|us|µs|ms|s|m|h))+|[0-9.]+)$|` + variable,
		},
		reflect.TypeFor[strict.Size](): {
			Types: []string{"integer", "string", "null"}, Minimum: &least,
			Pattern: `^[0-9]+( ?[KMG]iB)?$|` + variable,
		},
	}
	maps.Copy(all, types)
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: all})
	if err != nil {
		panic("schema: making a schema: " + err.Error()) // a type that no file can fill is a defect
	}
	s.ID, s.Schema = id, "https://json-schema.org/draft/2020-12/schema"
	loosen(s)
	fill(s, reflect.ValueOf(defaults).Elem())
	return s
}

// Encode writes a schema the way it is published.
func Encode(s *jsonschema.Schema) []byte {
	raw, err := json.Marshal(s)
	if err != nil {
		panic("schema: encoding a schema: " + err.Error())
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		panic("schema: encoding a schema: " + err.Error())
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// loosen lets through what the reader lets through: keys that begin with "x-",
// and null for anything that need not be there.
func loosen(s *jsonschema.Schema) {
	if len(s.Properties) > 0 {
		s.PatternProperties = map[string]*jsonschema.Schema{"^x-": {}}
	}
	for name, p := range s.Properties {
		if p.Type != "" && !slices.Contains(s.Required, name) {
			p.Types, p.Type = []string{p.Type, "null"}, ""
		}
		loosen(p)
	}
	if s.Items != nil {
		loosen(s.Items)
	}
}

// fill sets the defaults that differ from the zero value.
func fill(s *jsonschema.Schema, v reflect.Value) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		p, f := s.Properties[name], v.Field(i)
		if p == nil || f.IsZero() {
			continue
		}
		if f.Kind() == reflect.Struct && len(p.Properties) > 0 {
			fill(p, f)
			continue
		}
		if raw, err := json.Marshal(f.Interface()); err == nil {
			p.Default = raw
		}
	}
}
