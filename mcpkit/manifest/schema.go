package manifest

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/confine"
	"github.com/aurorabot-dev/platform/mcpkit/strict/schema"
)

// SchemaID identifies the schema of manifest.yaml.
const SchemaID = "https://raw.githubusercontent.com/aurorabot-dev/platform/main/mcpkit/manifest/manifest.schema.json"

// Schema is the JSON Schema of manifest.yaml (draft 2020-12), made from the Go
// types: an editor that has it completes and checks manifests. Rules that span
// several values are only in Parse.
func Schema() []byte {
	words := &jsonschema.Schema{Types: []string{"string", "array", "null"}, Items: &jsonschema.Schema{Type: "string"}}
	s := schema.Of(SchemaID, Default(), map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[Words](): words})
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
	box := s.Properties["mcp"].Properties["sandbox"].Properties
	box["profile"].Enum = []any{confine.Default, confine.Offline, confine.Strict, confine.Off, nil}
	box["network"].Enum = []any{confine.NetworkAll, confine.NetworkNone, nil}
	return schema.Encode(s)
}
