package settings

import (
	"github.com/aurorabot-dev/platform/mcpkit/strict/schema"
)

// SchemaID identifies the schema of platform.yaml.
const SchemaID = "https://raw.githubusercontent.com/aurorabot-dev/platform/main/platform.schema.json"

// Schema is the JSON Schema of platform.yaml (draft 2020-12), made from Options. What
// depends on several values is only in ReadConfig and in the daemon.
func Schema() []byte {
	s := schema.Of(SchemaID, new(Defaults()), nil)
	s.Title = "platform.yaml of the platform"
	return schema.Encode(s)
}
