package manifest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// SchemaID identifies the schema of manifest.yaml.
const SchemaID = "https://raw.githubusercontent.com/aurorabot-dev/platform/main/mcpkit/manifest/manifest.schema.json"

// Schema is the JSON Schema of manifest.yaml (draft 2020-12), made from the Go
// types: an editor that has it completes and checks manifests. Rules that span
// several values are only in Parse.
func Schema() []byte {
	s := SchemaOf[Manifest](SchemaID, Default())
	str := func(name, pattern string, most int) {
		p := s.Properties[name]
		p.Pattern, p.MaxLength = pattern, &most
	}
	str("package", packageForm.String(), maxPackage)
	str("alias", aliasForm.String(), maxAlias)
	s.Title = "manifest.yaml of an MCP server"
	s.Properties["type"].Enum = []any{TypeServer}
	s.Properties["mcp"].Properties["transport"].Enum = []any{Stdio, HTTP, nil}
	s.Properties["mcp"].Properties["auth"].Properties["type"].Enum = []any{AuthNone, AuthBearer, AuthOAuth, AuthClientCredentials, nil}
	return EncodeSchema(s)
}

// SchemaOf makes the schema of a configuration struct that the package strict
// reads, with what defaults holds as its defaults.
func SchemaOf[T any](id string, defaults *T) *jsonschema.Schema {
	variable := `\$\{` // a value with variables is known only later
	words := &jsonschema.Schema{Types: []string{"string", "array", "null"}, Items: &jsonschema.Schema{Type: "string"}}
	least := 0.0
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[strict.Duration](): {
			Types: []string{"number", "string", "null"}, Minimum: &least,
			Pattern: `^(([0-9.]+(ns|us|µs|ms|s|m|h))+|[0-9.]+)$|` + variable,
		},
		reflect.TypeFor[strict.Size](): {
			Types: []string{"integer", "string", "null"}, Minimum: &least,
			Pattern: `^[0-9]+( ?[KMG]iB)?$|` + variable,
		},
		reflect.TypeFor[Words](): words,
	}})
	if err != nil {
		panic("manifest: making a schema: " + err.Error()) // a type that no file can fill is a defect
	}
	s.ID, s.Schema = id, "https://json-schema.org/draft/2020-12/schema"
	loosen(s)
	fill(s, reflect.ValueOf(defaults).Elem())
	return s
}

// EncodeSchema writes a schema the way it is published.
func EncodeSchema(s *jsonschema.Schema) []byte {
	raw, err := json.Marshal(s)
	if err != nil {
		panic("manifest: encoding a schema: " + err.Error())
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		panic("manifest: encoding a schema: " + err.Error())
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
