package rules

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/aurorabot-dev/platform/mcpkit/strict/schema"
)

// SchemaID identifies the schema of the policy file.
const SchemaID = "https://raw.githubusercontent.com/aurorabot-dev/platform/main/mcpkit/policy/policy.schema.json"

// Schema is the JSON Schema of the policy file (draft 2020-12), made from
// Config. Rules that span several values are only in Parse.
func Schema() []byte {
	s := schema.Of(SchemaID, DefaultConfig(), nil)
	s.Title = "policy.yaml of the platform"
	trusts, acts, levels := words(Trusts), words(actions), words(risks)
	at := func(path ...string) *jsonschema.Schema {
		p := s
		for _, name := range path {
			if p = p.Properties[name]; p == nil {
				panic("rules: the schema has no " + name)
			}
		}
		return p
	}
	s.Properties["trust"].AdditionalProperties.Enum = trusts
	s.Properties["risk"].AdditionalProperties.Enum = levels
	for _, level := range risks {
		at("actions", level).Enum = append(acts, nil)
	}
	for _, t := range Trusts {
		at("unlisted", string(t)).Enum = append(levels, nil)
		at("review", "first", string(t)).Enum = append(words([]First{Pin}), append(acts, nil)...)
	}
	for _, key := range []string{"added", "changed", "findings"} {
		at("review", key).Enum = append(acts, nil)
	}
	flow := at("flow").Items
	flow.Properties["from"].Items.Enum = trusts
	flow.Properties["to"].Items.Enum = levels
	flow.Properties["then"].Enum = acts
	return schema.Encode(s)
}

func words[T ~string](list []T) []any {
	out := make([]any, len(list), len(list)+1)
	for i, w := range list {
		out[i] = string(w)
	}
	return out[:len(out):len(out)]
}
